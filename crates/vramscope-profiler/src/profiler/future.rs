//! Profiled futures, which may be polled on several threads.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::result::{CallOutcome, ProfileResult};
use super::scope::Call;
use super::threads::{self, ThreadUse};
use super::{GpuMemoryProfiler, error_in_words, message};
use crate::leaks::LeakTask;

impl GpuMemoryProfiler {
    /// Like [`profile_function`](Self::profile_function), for a future: measured from its first poll until it is ready.
    ///
    /// The device's numbers (peak, bytes allocated and freed) cover that whole time, including other tasks and threads.
    /// [`ProfileResult::thread`] counts only the future's polls, on any thread. [`ProfileResult::execution_time`] includes the time it
    /// waited. A future that is dropped before it is ready counts as failed.
    pub async fn profile_future<F: Future>(&self, name: &str, future: F) -> (F::Output, ProfileResult) {
        self.future_judged(name.into(), future, |_| None).await
    }

    /// Like [`profile_future`](Self::profile_future), for a future that may fail.
    ///
    /// # Errors
    /// The error of the future. The result, which contains the error, is then the last of [`results`](Self::results).
    pub async fn try_profile_future<T, E: Display>(
        &self,
        name: &str,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<(T, ProfileResult), E> {
        let (returned, result) = self.future_judged(name.into(), future, error_in_words).await;
        returned.map(|value| (value, result))
    }

    pub(super) async fn future_judged<F: Future>(
        &self,
        name: Arc<str>,
        future: F,
        error: impl FnOnce(&F::Output) -> Option<String>,
    ) -> (F::Output, ProfileResult) {
        let mut task = Task::begin(self, name);
        let mut future = pin!(future);
        let polled = poll_fn(|context| {
            task.enter();
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            task.leave();
            match polled {
                Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        match polled.await {
            Ok(value) => {
                let outcome = error(&value).map_or(CallOutcome::Returned, CallOutcome::Failed);
                let result = task.end(outcome);
                (value, result)
            }
            Err(panic) => {
                task.end(CallOutcome::Panicked(message(panic.as_ref())));
                resume_unwind(panic)
            }
        }
    }
}

/// The call of a future, which is open on a thread only while the future is polled there.
struct Task<'p> {
    profiler: &'p GpuMemoryProfiler,
    call: Call<LeakTask<'p>>,
    /// Whether the future was polled before.
    entered: bool,
    /// The thread use in the polls so far; `None` once it is unknown.
    used: Option<ThreadUse>,
}

impl<'p> Task<'p> {
    fn begin(profiler: &'p GpuMemoryProfiler, name: Arc<str>) -> Self {
        let leaks = profiler.leaks.as_ref().map(|leaks| leaks.task(&name));
        let call = Call::begin(profiler, name, leaks);
        Self { profiler, call, entered: false, used: Some(ThreadUse::default()) }
    }

    /// Starts a poll on this thread.
    fn enter(&mut self) {
        let call = &mut self.call;
        if let Some(leaks) = &call.leaks {
            leaks.enter();
        }
        let depth = threads::resume(self.profiler.shared.id, call.key, self.used.unwrap_or_default());
        if !self.entered {
            (self.entered, call.depth) = (true, depth);
        }
    }

    /// Ends the poll.
    fn leave(&mut self) {
        self.used = threads::close(self.call.key).filter(|_| self.used.is_some());
        if let Some(leaks) = &self.call.leaks {
            leaks.leave();
        }
    }

    fn end(mut self, outcome: CallOutcome) -> ProfileResult {
        let used = self.used;
        self.call.end(self.profiler, outcome, |_| used)
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if !self.call.has_ended() {
            let used = self.used;
            let dropped = CallOutcome::Failed("the future was dropped before it completed".to_owned());
            self.call.end_in_own_process(self.profiler, dropped, |_| used);
        }
    }
}
