//! A call while it is open.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::GpuMemoryProfiler;
use super::looks::Peak;
use super::peak_stacks::PeakStack;
use super::result::{Outcome, ProfileResult};
use super::threads::{self, ThreadUse};
use crate::leaks::LeakCall;
use crate::snapshot::{MemorySnapshot, Operation, now_us};
use crate::source::{Counts, Reading};

/// A block that is profiled until this is dropped or [finished](Self::finish). Where a panic passes through, the
/// result says so. One that is forgotten (`mem::forget`) stays open, and calls after it are inside of it.
#[must_use = "the block ends when the guard is dropped"]
pub struct ProfileContext<'p> {
    profiler: &'p GpuMemoryProfiler,
    /// `None` once it has ended.
    call: Option<Call<Option<LeakCall<'p>>>>,
    /// It began while a panic was on its way, in what that drops.
    panicking: bool,
    of_its_thread: PhantomData<*const ()>,
}

/// A call that is open; `L` is dropped when it ends.
pub(super) struct Call<L> {
    name: Arc<str>,
    pub(super) key: u64,
    pub(super) depth: usize,
    before: MemorySnapshot,
    counts: Option<Counts>,
    peak: Peak,
    peak_stack: Option<Arc<PeakStack>>,
    pub(super) leaks: L,
    start: Instant,
}

impl<'p> ProfileContext<'p> {
    pub(super) fn begin(profiler: &'p GpuMemoryProfiler, name: Arc<str>) -> Self {
        let leaks = profiler.leaks.as_ref().map(|leaks| leaks.call(&name));
        let mut call = Call::begin(profiler, name, leaks);
        // Last, so that the profiler's own work is not in it.
        call.depth = threads::open(profiler.shared.id, call.key);
        call.start = Instant::now();
        let panicking = std::thread::panicking();
        Self { profiler, call: Some(call), panicking, of_its_thread: PhantomData }
    }

    /// Ends the block.
    pub fn finish(self) -> ProfileResult {
        self.end(Outcome::Returned)
    }

    /// Ends the block with an error. One that is left by `?` cannot know of it, and counts as returned.
    pub fn fail(self, error: impl Display) -> ProfileResult {
        self.end(Outcome::Failed(error.to_string()))
    }

    pub(super) fn end(mut self, outcome: Outcome) -> ProfileResult {
        let Some(call) = self.call.take() else { unreachable!("a context ends once") };
        call.end(self.profiler, outcome, threads::close)
    }
}

impl Drop for ProfileContext<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let panicked = std::thread::panicking() && !self.panicking;
            let outcome = if panicked {
                Outcome::Panicked("a panic passed through the block".to_owned())
            } else {
                Outcome::Returned
            };
            call.end(self.profiler, outcome, threads::close);
        }
    }
}

impl<L> Call<L> {
    /// Begins one that is on no thread yet.
    pub(super) fn begin(profiler: &GpuMemoryProfiler, name: Arc<str>, leaks: L) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = &profiler.shared;
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        let peak = shared.looks.watch();
        let peak_stack = shared.peak_stacks.as_ref().and_then(|stacks| stacks.watch(&peak));
        let now = shared.looks.read();
        let before = shared.snapshot(Operation::Before(Arc::clone(&name)), now_us(), &now, &now);
        shared.begin(now.counts);
        let counts = now.counts;
        Self { name, key, depth: 0, before, counts, peak, peak_stack, leaks, start: Instant::now() }
    }

    /// Ends it; `close` says what it did itself.
    pub(super) fn end(
        self,
        profiler: &GpuMemoryProfiler,
        outcome: Outcome,
        close: impl FnOnce(u64) -> Option<ThreadUse>,
    ) -> ProfileResult {
        let execution_time = self.start.elapsed();
        let used = close(self.key);
        let shared = &profiler.shared;
        let now = shared.looks.read();
        // Of what was looked at, where the source does not know: before and after too.
        let peak = self.peak.so_far().max(Reading { cpu: self.before.cpu_memory.max(now.cpu), ..now });
        drop(self.leaks);
        let time_us = now_us();
        let name = &self.name;
        let memory_after = shared.snapshot(Operation::After(Arc::clone(name)), time_us, &now, &peak);
        let mut memory_peak = shared.snapshot(Operation::Peak(Arc::clone(name)), time_us, &peak, &peak);
        memory_peak.inactive_memory = self.peak.at_peak().and_then(|at_peak| at_peak.inactive());
        memory_peak.stack_trace =
            self.peak_stack.as_ref().and_then(|stack| stack.stack()).map(|stack| shared.frames(stack));
        let since = |of: fn(&Counts) -> u64| Some(of(&now.counts?).saturating_sub(of(&self.counts?)));
        let tracked = shared.options.track_allocations;
        let result = ProfileResult {
            function_name: self.name,
            execution_time,
            memory_before: self.before,
            memory_after,
            memory_peak,
            peak_is_exact: self.peak.is_exact(),
            memory_allocated: since(|c| c.allocated_bytes),
            memory_freed: since(|c| c.freed_bytes),
            allocations_created: since(|c| c.num_allocations).filter(|_| tracked),
            allocations_freed: since(|c| c.num_frees).filter(|_| tracked),
            thread: used.filter(|_| profiler.tally.is_some()),
            depth: self.depth,
            outcome,
        };
        shared.end(result.clone(), now.counts);
        result
    }
}
