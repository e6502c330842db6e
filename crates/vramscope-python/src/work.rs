//! Work that takes long: the interpreter goes on meanwhile, and Ctrl-C ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use vramscope::analysis::Cancel;

/// How long a signal may wait until it is seen, and how often progress is told.
const TICK: Duration = Duration::from_millis(50);

/// What work and who waits for it share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps {
    /// The work is no longer wanted.
    pub(crate) cancel: Cancel,
    done: Arc<AtomicU64>,
}

impl Steps {
    /// The work has come so far.
    pub(crate) fn at(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Does `work` on a thread of its own, without the interpreter. `progress` is called with how far it has come, now and then.
///
/// # Errors
/// Where a signal's handler raises, as that of Ctrl-C does, or `progress`: the work is cancelled and not waited for.
pub(crate) fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Steps) -> T + Send + 'static,
) -> PyResult<T> {
    py.detach(|| {
        let steps = Steps::default();
        let (send, receive) = channel();
        let own = steps.clone();
        // Who waits may have gone: then nobody wants what is sent.
        let worker = Builder::new().name("vramscope".to_owned()).spawn(move || drop(send.send(work(&own))));
        let worker = worker.map_err(|e| PyOSError::new_err(format!("no thread to work on: {e}")))?;
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
