//! Memory by source line, as a tree.

mod profile;
mod report;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub use report::{LineNode, LineReport, LineReportOptions, Measure};

use super::{AllocPostprocess, Free, MallocPostprocess, MemoryHook};
use crate::stacks::{CapturedStack, SourceFrame, StackSource, StackStore, Stacks};
use crate::threads::this_thread;
use profile::{OTHER_THREADS, Profile};
use vramscope_basics::lock;

/// The pool memory that each source line used: CuPy's `LineProfileHook`, for native stacks and stacks of a [`StackSource`].
///
/// ```
/// use std::sync::Arc;
/// use vramscope_allocator::hooks::{self, LineProfileHook};
/// use vramscope_allocator::{MemoryPool, Policy};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
/// let hook = Arc::new(LineProfileHook::new());
/// let guard = hooks::register(hook.clone())?;
/// let a = pool.malloc(1000)?;
/// drop(guard);
/// let mut report = Vec::new();
/// hook.print_report(&mut report)?;
/// assert!(report.starts_with(b"_root (1.00KB, 1.00KB)\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`print_report`](Self::print_report) prints CuPy's report. [`report`](Self::report) returns all numbers: live, peak and freed bytes per
/// line, sorted, filtered, by thread or device, as text, JSON or flame graph.
///
/// # Differences from CuPy
/// - Failed requests are not counted, and a repeated attempt is counted once.
/// - Frees are counted, so each line also has live, peak and freed bytes.
/// - Threads and devices are counted separately.
/// - Stacks are captured as addresses and resolved when a report is made. Frames of this profiler are left out, and by default frames of
///   the standard library too.
#[derive(Default)]
pub struct LineProfileHook {
    max_depth: usize,
    stacks: Stacks,
    store: StackStore,
    profile: Mutex<Profile>,
    /// Bytes that the pool allocated from the device for unfinished requests, by thread. Almost always empty.
    acquired: Mutex<BTreeMap<Thread, u64>>,
    num_acquired: AtomicUsize,
}

/// The number of a thread.
type Thread = u64;

impl LineProfileHook {
    /// Creates a profile of native stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a profile of the stacks from `source`; with [`Stacks::All`], of native stacks too.
    pub fn with_source(source: Arc<dyn StackSource>, stacks: Stacks) -> Self {
        let hook = Self { stacks, ..Self::new() };
        hook.store.set_source(Some(source));
        hook
    }

    /// Limits the depth of [`print_report`](Self::print_report): 1 is the root alone, 0 is no limit (CuPy's argument).
    #[must_use]
    pub fn max_depth(self, max_depth: usize) -> Self {
        Self { max_depth, ..self }
    }

    /// Prints the report of CuPy's `print_report`: each source line on the stack of an allocation, with the bytes allocated from the pool,
    /// and the bytes that the pool allocated from the device for them.
    ///
    /// # Errors
    /// Writing to `file` fails.
    pub fn print_report(&self, file: &mut dyn Write) -> io::Result<()> {
        let options = LineReportOptions { max_depth: self.max_depth, ..LineReportOptions::default() };
        self.report(&options).write_used_and_acquired(file)?;
        file.flush()
    }

    /// Returns the stack of frames of another language, innermost first, for [`count`](Self::count); `None` if there are no frames.
    pub fn stack(&self, frames: &[SourceFrame]) -> Option<CapturedStack> {
        self.store.supplied(frames).map(CapturedStack)
    }

    /// Counts bytes that a pool of another language served at a stack of this hook, and the bytes that it allocated from the device, for all
    /// threads and devices together.
    pub fn count(&self, stack: Option<CapturedStack>, used: u64, acquired: u64) {
        let mut profile = lock(&self.profile);
        let place = profile.place(&self.store, stack.map(|stack| stack.0), OTHER_THREADS, 0);
        profile.served(place, used, acquired);
    }

    /// Builds a report of the counts so far, with symbols resolved, arranged by `options`.
    pub fn report(&self, options: &LineReportOptions) -> LineReport {
        // Resolving symbols is slow. Report a copy, so that other threads can go on counting.
        let profile = lock(&self.profile).clone();
        LineReport::of(&profile, &self.store, options)
    }
}

impl LineProfileHook {
    /// Returns and resets the bytes that the device provided for this thread's current request.
    fn take_acquired(&self) -> u64 {
        if self.num_acquired.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut acquired = lock(&self.acquired);
        let bytes = acquired.remove(&this_thread().get()).unwrap_or(0);
        self.num_acquired.store(acquired.len(), Ordering::Relaxed);
        bytes
    }
}

impl MemoryHook for LineProfileHook {
    fn name(&self) -> &str {
        "LineProfileHook"
    }

    fn alloc_postprocess(&self, event: &AllocPostprocess) {
        if event.mem_ptr != 0 {
            let mut acquired = lock(&self.acquired);
            *acquired.entry(this_thread().get()).or_default() += event.mem_size;
            self.num_acquired.store(acquired.len(), Ordering::Relaxed);
        }
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        let acquired = self.take_acquired();
        let failed = event.pmem_id == 0;
        if failed && acquired == 0 {
            return;
        }
        let stack = self.store.capture(self.stacks);
        let mut profile = lock(&self.profile);
        let place = profile.place(&self.store, stack, this_thread().get(), event.device_id);
        if acquired > 0 {
            profile.acquired(place, acquired);
        }
        if !failed {
            profile.allocated(place, event.pmem_id, event.mem_size);
        }
    }

    fn free_postprocess(&self, event: &Free) {
        lock(&self.profile).freed(event.pmem_id);
    }
}
