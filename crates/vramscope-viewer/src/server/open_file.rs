//! An open file, and the threads that answer queries about it.
//!
//! The threads share the recording. When the file is closed, they end and its memory is freed.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use tokio::sync::oneshot;
use vramscope_analysis::Cancel;
use vramscope_trace::OperatorTrace;
use vramscope_trace::formats::Recording;

use vramscope_session::{OpenRecording, Pace, SessionError};

use crate::ViewError;

/// The number of answering threads per pace.
const AT_ONCE: [(Pace, usize); 2] = [(Pace::Quick, 4), (Pace::Slow, 2)];

type Job = Box<dyn FnOnce(&Arc<OpenRecording>) + Send>;

/// An open recording. Dropping it closes the file and frees its memory after the running queries.
#[derive(Debug)]
pub struct OpenFile {
    quick: Sender<Job>,
    slow: Sender<Job>,
    /// Cancels the thread that prepares the recording.
    closed: Cancel,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

impl OpenFile {
    /// Starts preparing a recording; queries wait in the meantime.
    ///
    /// # Errors
    /// Fails if the system cannot create threads.
    pub fn open(name: String, recording: Recording) -> io::Result<Self> {
        let (quick, quick_jobs) = channel();
        let (slow, slow_jobs) = channel();
        let closed = Cancel::default();
        let is_closed = closed.clone();
        let prepare = move || {
            let Some(open) = OpenRecording::of(name, None, recording, &is_closed).map(Arc::new) else {
                return;
            };
            for (jobs, (_, at_once)) in [quick_jobs, slow_jobs].into_iter().zip(AT_ONCE) {
                let jobs = Arc::new(Mutex::new(jobs));
                for _ in 0..at_once {
                    let (open, jobs) = (Arc::clone(&open), Arc::clone(&jobs));
                    // If no thread can be created, the receiver is dropped and callers get an error.
                    Builder::new().spawn(move || answer(&open, &jobs)).ok();
                }
            }
        };
        Builder::new().name("vramscope-file".to_owned()).spawn(prepare)?;
        Ok(Self { quick, slow, closed })
    }

    /// Shows the operators of a trace beside the recording, once it is prepared: [`OpenRecording::add_operators`]. Blocks, so it must not
    /// be called on the server's threads.
    ///
    /// # Errors
    /// Fails if the trace is not of the recorded run.
    pub fn add_operators(&self, name: &str, trace: &Arc<OperatorTrace>) -> Result<String, ViewError> {
        let (send, answered) = oneshot::channel();
        let (name, trace) = (name.to_owned(), Arc::clone(trace));
        let job: Job = Box::new(move |open| drop(send.send(open.add_operators(&name, trace))));
        self.slow.send(job).map_err(|_| ViewError::Failed)?;
        Ok(answered.blocking_recv().map_err(|_| ViewError::Failed)??)
    }

    /// The recording, for queries that also involve other files.
    ///
    /// # Errors
    /// [`ViewError::Failed`] if the file is closed.
    pub(crate) async fn recording(&self) -> Result<Arc<OpenRecording>, ViewError> {
        let (send, answered) = oneshot::channel();
        // This fails if the caller is gone.
        let job: Job = Box::new(move |open| drop(send.send(Arc::clone(open))));
        self.quick.send(job).map_err(|_| ViewError::Failed)?;
        answered.await.map_err(|_| ViewError::Failed)
    }

    /// Runs a query on a thread of the file. Dropping the future cancels it.
    ///
    /// # Errors
    /// The errors of `answer`; [`ViewError::Failed`] if it panics.
    pub(crate) async fn ask<A: Send + 'static>(
        &self,
        pace: Pace,
        answer: impl FnOnce(&OpenRecording, &Cancel) -> Result<A, SessionError> + Send + 'static,
    ) -> Result<A, ViewError> {
        let cancel = Cancel::default();
        let _cancel_on_drop = CancelOnDrop(cancel.clone());
        let (send, answered) = oneshot::channel();
        let job: Job = Box::new(move |open| {
            if !cancel.is_cancelled() {
                // This fails if the caller is gone and needs no answer.
                send.send(answer(open, &cancel)).ok();
            }
        });
        let jobs = match pace {
            Pace::Quick => &self.quick,
            Pace::Slow => &self.slow,
        };
        jobs.send(job).map_err(|_| ViewError::Failed)?;
        Ok(answered.await.map_err(|_| ViewError::Failed)??)
    }
}

/// Cancels a query when its caller stops waiting and drops this.
pub(super) struct CancelOnDrop(pub(super) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Answers queries until the file is closed.
fn answer(open: &Arc<OpenRecording>, jobs: &Mutex<Receiver<Job>>) {
    loop {
        // One thread waits for the next question and holds the lock; the others wait for the lock.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // A panic ends the query, not the thread: the caller's channel closes, and the caller gets an error.
        catch_unwind(AssertUnwindSafe(|| job(open))).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use vramscope_trace::formats;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn empty() -> OpenFile {
        let recording = formats::read(&br#"{"segments": [], "device_traces": []}"#[..]).unwrap();
        OpenFile::open("empty".to_owned(), recording).unwrap()
    }

    #[test]
    fn a_query_without_a_waiting_client_is_cancelled() {
        let file = empty();
        let (began, begins) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let mut asked = Box::pin(file.ask(Pace::Slow, move |_, cancel| {
            began.send(()).unwrap();
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        }));
        assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        begins.recv_timeout(LONG).unwrap();
        drop(asked);
        ends.recv_timeout(LONG).unwrap();
    }

    #[test]
    fn slow_queries_delay_no_quick_ones_and_a_panic_costs_no_thread() {
        let file = empty();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut slow: Vec<_> = (0..5)
            .map(|_| {
                Box::pin(file.ask(Pace::Slow, |_, cancel| {
                    while !cancel.is_cancelled() {
                        std::thread::yield_now();
                    }
                    Ok(())
                }))
            })
            .collect();
        for asked in &mut slow {
            assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        for _ in 0..20 {
            let failed = runtime
                .block_on(file.ask(Pace::Quick, |_, _| -> Result<(), SessionError> { panic!("a fault") }));
            assert!(matches!(failed, Err(ViewError::Failed)));
        }
        assert_eq!(runtime.block_on(file.ask(Pace::Quick, |_, _| Ok(7))).unwrap(), 7);
        drop(slow);
        assert_eq!(runtime.block_on(file.ask(Pace::Slow, |_, _| Ok(8))).unwrap(), 8);
    }

    /// Dropping the file drops the values that its threads hold.
    #[test]
    fn a_closed_file_ends_its_threads() {
        let file = empty();
        let (held, ends) = mpsc::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(file.ask(Pace::Quick, |_, _| Ok(()))).unwrap();
        file.quick.send(Box::new(move |_| drop(held))).unwrap();
        drop(file);
        assert_eq!(ends.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
