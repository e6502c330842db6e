//! Long-running work: it releases the interpreter, and Ctrl-C interrupts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use vramscope::analysis::Cancel;

/// The maximum delay before a signal is handled, and the interval of progress reports.
const TICK: Duration = Duration::from_millis(50);

/// State shared by the work and its caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    /// Whether the work is cancelled.
    pub(crate) cancel: Cancel,
    done: Arc<AtomicU64>,
}

impl Steps {
    /// Reports the progress of the work.
    pub(crate) fn at(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Runs `work` on its own thread, without the interpreter. `progress` is called with the progress at intervals.
///
/// # Errors
/// Fails if a signal's handler (such as that of Ctrl-C) or `progress` raises. The work is then cancelled, without waiting for
/// it.
pub(crate) fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Steps) -> T + Send + 'static,
) -> PyResult<T> {
    py.detach(|| {
        let steps = Steps::default();
        let (send, receive) = channel();
        let own = steps.clone();
        // The caller may have gone; then nobody receives the result.
        let worker = Builder::new().name("vramscope".to_owned()).spawn(move || drop(send.send(work(&own))));
        let worker = worker.map_err(|e| PyOSError::new_err(format!("cannot start a thread: {e}")))?;
        loop {
            match receive.recv_timeout(TICK) {
                Ok(result) => {
                    tell(&steps, progress)?;
                    return Ok(result);
                }
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(|py| py.check_signals())
                        .and_then(|()| tell(&steps, progress))
                        .inspect_err(|_| steps.cancel.cancel())?;
                }
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => return Err(PyOSError::new_err("the work ended without a result")),
                },
            }
        }
    })
}

fn tell(steps: &Steps, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let done = steps.done.load(Ordering::Relaxed);
    Python::attach(|py| progress.call1(py, (done,)).map(drop))
}
