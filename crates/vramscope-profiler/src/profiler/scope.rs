//! A profiled call, from its start to its end.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::GpuMemoryProfiler;
use super::peak_stacks::PeakStack;
use super::result::{CallOutcome, ProfileResult};
use super::source_reader::Peak;
use super::threads::{self, ThreadUse};
use crate::leaks::LeakCall;
use crate::snapshot::{MemorySnapshot, Operation, now_us};
use crate::source::{Counts, Reading};

/// Profiles the code until it is dropped or [finished](Self::finish) (gpumemprof's `ProfileContext`). The result records a panic that
/// passes through. A leaked context (`mem::forget`) stays open, and later calls on its thread count as nested in it.
///
/// If the process is forked while it is open, dropping it in the child does nothing.
#[must_use = "the block ends when the guard is dropped"]
pub struct ProfileContext<'p> {
    profiler: &'p GpuMemoryProfiler,
    call: Call<LeakCall<'p>>,
    /// Whether the thread was already panicking when the call began, in a destructor that the panic runs.
    panicking: bool,
    /// Keeps the guard on its thread.
    not_send: PhantomData<*const ()>,
}

/// A call from its start until it is [ended](Self::end). `L` is the leak detector's view of the call.
pub(super) struct Call<L> {
    name: Arc<str>,
    pub(super) key: u64,
    pub(super) depth: usize,
    before: MemorySnapshot,
    /// The source's counts at the start.
    counts: Option<Counts>,
    peak: Peak,
    peak_stack: Option<Arc<PeakStack>>,
    /// `None` without leak detection, and after the call has ended.
    pub(super) leaks: Option<L>,
    start: Instant,
    has_ended: bool,
}

impl<'p> ProfileContext<'p> {
    pub(super) fn begin(profiler: &'p GpuMemoryProfiler, name: Arc<str>) -> Self {
        let leaks = profiler.leaks.as_ref().map(|leaks| leaks.call(&name));
        let mut call = Call::begin(profiler, name, leaks);
        // Last, so that the profiler's work does not count.
        call.depth = threads::open(profiler.shared.id, call.key);
        call.start = Instant::now();
        let panicking = std::thread::panicking();
        Self { profiler, call, panicking, not_send: PhantomData }
    }

    /// Ends the code block, and returns its result.
    pub fn finish(self) -> ProfileResult {
        self.end(CallOutcome::Returned)
    }

    /// Ends the code block with an error. (If `?` leaves the block, the context is dropped without the error, and counts as returned.)
    pub fn fail(self, error: impl Display) -> ProfileResult {
        self.end(CallOutcome::Failed(error.to_string()))
    }

    pub(super) fn end(mut self, outcome: CallOutcome) -> ProfileResult {
        self.call.end(self.profiler, outcome, threads::close)
    }
}

impl Drop for ProfileContext<'_> {
    fn drop(&mut self) {
        if self.call.has_ended {
            return;
        }
        let panicked = std::thread::panicking() && !self.panicking;
        let outcome = if panicked {
            CallOutcome::Panicked("a panic passed through the block".to_owned())
        } else {
            CallOutcome::Returned
        };
        self.call.end_in_own_process(self.profiler, outcome, threads::close);
    }
}

impl<L> Call<L> {
    /// Starts a call that is not open on a thread yet.
    pub(super) fn begin(profiler: &GpuMemoryProfiler, name: Arc<str>, leaks: Option<L>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = &profiler.shared;
        let key = NEXT.fetch_add(1, Ordering::Relaxed);
        let peak = shared.source_reader.watch();
        let peak_stack = shared.peak_stacks.as_ref().and_then(|stacks| stacks.watch(&peak));
        let now = shared.source_reader.read();
        let before = shared.snapshot(Operation::Before(Arc::clone(&name)), now_us(), &now, &now);
        shared.begin(now.counts);
        Self {
            name,
            key,
            depth: 0,
            before,
            counts: now.counts,
            peak,
            peak_stack,
            leaks,
            start: Instant::now(),
            has_ended: false,
        }
    }

    /// Whether [`end`](Self::end) was called.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Like [`end`](Self::end), but takes no lock in a process that was forked during the call, because another thread of the parent may
    /// have held it. There, it only closes the call on its thread.
    pub(super) fn end_in_own_process(
        &mut self,
        profiler: &GpuMemoryProfiler,
        outcome: CallOutcome,
        close: impl FnOnce(u64) -> Option<ThreadUse>,
    ) {
        if profiler.shared.process.is_this() {
            self.end(profiler, outcome, close);
        } else {
            close(self.key);
        }
    }

    /// Ends the call and builds its result. `close` closes it on its thread, and returns the thread use.
    pub(super) fn end(
        &mut self,
        profiler: &GpuMemoryProfiler,
        outcome: CallOutcome,
        close: impl FnOnce(u64) -> Option<ThreadUse>,
    ) -> ProfileResult {
        self.has_ended = true;
        let execution_time = self.start.elapsed();
        let used = close(self.key);
        let shared = &profiler.shared;
        let now = shared.source_reader.read();
        // If the source has no peaks, the readings before and after the call count too.
        let peak = self.peak.so_far().max(Reading { cpu: self.before.cpu_memory.max(now.cpu), ..now });
        drop(self.leaks.take());
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
            function_name: Arc::clone(name),
            execution_time,
            memory_before: self.before.clone(),
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
