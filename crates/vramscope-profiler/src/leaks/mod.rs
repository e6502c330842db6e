//! Finds blocks that accumulate across calls of the same function or step.
//!
//! Live blocks after a call are not always a leak: the call may have returned them, or filled a cache. So the detector compares many calls.
//! After each call, it counts the live blocks that calls of that name allocated. The *floor* after a call is the lowest count then or at
//! any later time, including now:
//!
//! ```text
//!   call            1   2   3   4   5   now
//!   a result        1   1   1   1   1   0     dropped by the caller: floor 0
//!   a cache         4   6   6   6   6   6     floor 4 6 6 6 6: levels off
//!   a growing list  1   2   3   4   5   5     floor 1 2 3 4 5: a leak
//! ```
//!
//! A leak is a floor that [keeps growing](vramscope_analysis::keeps_growing). Recordings are searched for leaks by the same rule, with
//! windows in place of calls.
//!
//! At run time, blocks are counted by captured stack, that is by return addresses. Optimizing compilers unroll loops and inline functions,
//! so one line may have several return addresses. When suspects are requested, the stacks are resolved, and stacks with the same lines are
//! added up. Blocks that do not grow by stack are added up again by their innermost line, because several callers may reach it in turn.
//!
//! A source that reports no allocations has only its readings. `by_function` applies the rule to an estimate of the retained bytes, and
//! names functions.

mod by_function;
mod course;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use serde::Serialize;
use vramscope_allocator::{CapturedStack, NO_LINES, Process, StackRecorder};
use vramscope_analysis::rises;
use vramscope_basics::units::bytes;

use crate::holders::in_words;
use crate::source::{AllocationObserver, BlockEvent, MemorySource, Observation};
pub use by_function::{FunctionLeakSuspect, FunctionLeaks};
use course::{Course, Floor};
use vramscope_basics::lock;

/// Finds blocks that accumulate across calls.
///
/// ```
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{LeakDetector, PoolSource};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
/// let leaks = LeakDetector::new(PoolSource::new(&pool, 0)?.as_ref()).unwrap();
/// let mut losses = Vec::new();
/// for _ in 0..3 {
///     let _call = leaks.call("step");
///     let _activations = pool.malloc(1 << 20)?;
///     losses.push(pool.malloc(512)?);
/// }
/// let suspects = leaks.suspects();
/// assert_eq!((suspects.len(), suspects[0].kept_blocks, suspects[0].kept_bytes), (1, 3, 1536));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Only allocations of a call's own thread count. A malloc inside a call takes about a microsecond longer. The detector's memory grows with
/// the number of live blocks, stacks and names, and with the logarithm of the number of calls, so use few names.
pub struct LeakDetector {
    shared: Arc<LeakObserver>,
    _observation: Observation,
}

/// A line whose blocks accumulate across calls, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallLeakSuspect {
    /// The name of the calls.
    pub function_name: Arc<str>,
    /// The line: the innermost frame, as `file:line function`.
    pub line: String,
    /// The stack, innermost frame first, each as `file:line function`. If several stacks end in the line, this is the stack with the most
    /// bytes.
    pub stack: Vec<String>,
    /// Number of ended calls.
    pub calls: u64,
    /// Number of blocks from these calls that were not freed later, after each `calls_per_point` calls. If `calls_per_point` is more than
    /// 1, it may be lower than the exact number.
    pub floor: Vec<u64>,
    /// Number of calls per point of the floor.
    pub calls_per_point: u64,
    /// Number of times the floor rises from one point to the next.
    pub rises: usize,
    /// Number of live blocks.
    pub kept_blocks: u64,
    /// Bytes of the live blocks.
    pub kept_bytes: u64,
    /// Average bytes that a call retains.
    pub bytes_per_call: f64,
}

impl fmt::Display for CallLeakSuspect {
    /// Formats the line and the evidence, for example `step: 3 blocks of 9.00 MiB retained by train.rs:92 train, 3.00 MiB per call;
    /// retained blocks after every call: 1 2 3`. If the line is unknown, explains how to build the program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function_name, line, kept_blocks, kept_bytes, floor, .. } = self;
        let (kept, a_call) = (bytes(*kept_bytes), bytes(self.bytes_per_call as u64));
        write!(f, "{function_name}: {kept_blocks} blocks of {kept} retained by {line}, {a_call} per call")?;
        let after = if self.calls_per_point == 1 { "call" } else { "few calls" };
        write!(f, "; retained blocks after every {after}:")?;
        floor.iter().try_for_each(|n| write!(f, " {n}"))?;
        if self.has_line() { Ok(()) } else { write!(f, "; {NO_LINES}") }
    }
}

/// The observer and the counts of a detector.
struct LeakObserver {
    /// Distinguishes this detector's calls from other detectors' calls on the same thread.
    id: u64,
    /// The process of the detector: in a forked process, its lock may never be released.
    process: Process,
    stacks: StackRecorder,
    state: Mutex<LeakState>,
}

#[derive(Default)]
struct LeakState {
    /// The names of functions, by index.
    names: Vec<Arc<str>>,
    /// The index of each name.
    numbers: BTreeMap<Arc<str>, usize>,
    functions: Vec<FunctionBlocks>,
    /// Live blocks that were allocated in calls.
    blocks: HashMap<u64, LiveBlock>,
}

struct LiveBlock {
    size: u64,
    stack: Option<CapturedStack>,
    /// The name indices of the calls in which it was allocated.
    within: Arc<[usize]>,
}

/// All calls of one name.
#[derive(Default)]
struct FunctionBlocks {
    calls: u64,
    by_stack: HashMap<Option<CapturedStack>, KeptBlocks>,
}

/// The live blocks of one stack that calls of one name allocated.
#[derive(Default, Clone)]
struct KeptBlocks {
    blocks: u64,
    bytes: u64,
    /// The number of blocks after each call. The last calls, which did not change it, are added later.
    course: Course,
}

impl KeptBlocks {
    /// Adds the ended calls up to number `calls`, because the number of blocks is about to change.
    fn catch_up(&mut self, calls: u64) {
        self.course.push_until(calls, self.blocks);
    }
}

thread_local! {
    /// The open calls of this thread: the detector's id, the call's key and the function's index.
    static OPEN: RefCell<Vec<(u64, u64, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A call from [`LeakDetector::call`], which ends when it is dropped. It stays on its thread. Dropping it in a process that was forked
/// during the call does nothing.
#[must_use = "the call ends when the guard is dropped"]
pub struct LeakCall<'d> {
    task: LeakTask<'d>,
    /// Keeps the guard on its thread.
    not_send: PhantomData<*const ()>,
}

/// A call that ends when it is dropped, and is open on a thread only between [`enter`](Self::enter) and [`leave`](Self::leave). The
/// thread's allocations in between belong to it.
pub(crate) struct LeakTask<'d> {
    detector: &'d LeakDetector,
    key: u64,
    /// The index of its name among the detector's functions.
    function: usize,
}

/// Returns a unique key for a call.
fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl LeakDetector {
    /// Observes the allocations of `source`; `None` if the source does not report allocations.
    pub fn new(source: &dyn MemorySource) -> Option<Self> {
        Self::with_stacks(source, StackRecorder::new())
    }

    /// Like [`new`](Self::new), with stacks captured by `stacks`, which may come from another language.
    pub fn with_stacks(source: &dyn MemorySource, stacks: StackRecorder) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(LeakObserver { id, process: Process::this(), stacks, state: Mutex::default() });
        let observation = source.observe(Arc::clone(&shared) as _)?;
        Some(Self { shared, _observation: observation })
    }

    /// Starts a call of the function or step `name`, which ends when the guard is dropped. Calls may nest: a block counts for the name of
    /// every call around its allocation.
    pub fn call(&self, name: &str) -> LeakCall<'_> {
        let task = self.task(name);
        task.enter();
        LeakCall { task, not_send: PhantomData }
    }

    /// Starts a call that is open on a thread only while it is entered, for futures.
    pub(crate) fn task(&self, name: &str) -> LeakTask<'_> {
        LeakTask { detector: self, key: next_key(), function: lock(&self.shared.state).number(name) }
    }

    /// Returns the lines whose blocks accumulate, most bytes first. Resolves symbols, which may take seconds the first time.
    pub fn suspects(&self) -> Vec<CallLeakSuspect> {
        let functions: Vec<(Arc<str>, u64, Vec<_>)> = {
            let state = lock(&self.shared.state);
            let named = state.names.iter().zip(&state.functions);
            named.map(|(name, function)| (Arc::clone(name), function.calls, function.kept())).collect()
        };
        let mut suspects = Vec::new();
        for (name, calls, kept) in functions {
            suspects.extend(suspects_of(&name, calls, kept, |stack| in_words(&self.shared.stacks, stack)));
        }
        suspects.sort_by(|a, b| {
            (b.kept_bytes, &a.function_name, &a.stack).cmp(&(a.kept_bytes, &b.function_name, &b.stack))
        });
        suspects
    }

    /// Removes all calls and blocks. Open calls count from now on.
    pub fn clear(&self) {
        let mut state = lock(&self.shared.state);
        state.functions.fill_with(FunctionBlocks::default);
        state.blocks = HashMap::new();
    }
}

impl LeakTask<'_> {
    /// From now on, this thread's allocations belong to this call.
    pub(crate) fn enter(&self) {
        let opened = (self.detector.shared.id, self.key, self.function);
        OPEN.try_with(|open| open.borrow_mut().push(opened)).ok();
    }

    /// From now on, this thread's allocations no longer belong to this call.
    pub(crate) fn leave(&self) {
        OPEN.try_with(|open| open.borrow_mut().retain(|&(_, open, _)| open != self.key)).ok();
    }
}

impl Drop for LeakCall<'_> {
    fn drop(&mut self) {
        self.task.leave();
    }
}

impl Drop for LeakTask<'_> {
    fn drop(&mut self) {
        // In a forked process, another thread of the parent may have held the lock during the fork.
        if self.detector.shared.process.is_this() {
            lock(&self.detector.shared.state).functions[self.function].calls += 1;
        }
    }
}

impl LeakState {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (name, number): (Arc<str>, usize) = (name.into(), self.names.len());
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        self.functions.push(FunctionBlocks::default());
        number
    }
}

impl FunctionBlocks {
    /// Returns the retained blocks of each stack, up to the last ended call.
    fn kept(&self) -> Vec<(Option<CapturedStack>, KeptBlocks)> {
        let caught_up = self.by_stack.iter().map(|(&stack, kept)| {
            let mut kept = kept.clone();
            kept.catch_up(self.calls);
            (stack, kept)
        });
        let mut kept: Vec<_> = caught_up.filter(|(_, kept)| !kept.course.is_empty()).collect();
        kept.sort_unstable_by_key(|&(stack, _)| stack);
        kept
    }
}

/// A stack, innermost frame first, and its retained blocks.
type Part = (Vec<String>, KeptBlocks);

/// Returns the suspects among a function's retained blocks after `calls` calls. `in_words` resolves the frames of a stack.
fn suspects_of(
    name: &Arc<str>,
    calls: u64,
    kept: Vec<(Option<CapturedStack>, KeptBlocks)>,
    in_words: impl Fn(CapturedStack) -> Vec<String>,
) -> Vec<CallLeakSuspect> {
    let parts = kept.into_iter().map(|(stack, kept)| (stack.map(&in_words).unwrap_or_default(), kept));
    let (mut suspects, rest) = growing(name, calls, parts.collect(), |stack| stack.to_vec());
    let (by_line, _) = growing(name, calls, rest, |stack| stack.first().cloned().into_iter().collect());
    suspects.extend(by_line);
    suspects
}

/// Adds up the parts with the same key, and returns the suspects that keep growing, and all other parts.
fn growing(
    name: &Arc<str>,
    calls: u64,
    parts: Vec<Part>,
    key: impl Fn(&[String]) -> Vec<String>,
) -> (Vec<CallLeakSuspect>, Vec<Part>) {
    let mut groups: BTreeMap<Vec<String>, Vec<Part>> = BTreeMap::new();
    for part in parts {
        groups.entry(key(&part.0)).or_default().push(part);
    }
    let (mut suspects, mut rest) = (Vec::new(), Vec::new());
    for parts in groups.into_values() {
        match CallLeakSuspect::of(name, calls, &parts) {
            Some(suspect) => suspects.push(suspect),
            None => rest.extend(parts),
        }
    }
    (suspects, rest)
}

impl CallLeakSuspect {
    /// Whether the line number is known. Programs built without debug information have none.
    pub fn has_line(&self) -> bool {
        !self.stack.is_empty() && !self.line.starts_with("??:0 ")
    }

    /// Returns the suspect of these blocks; `None` if they do not keep growing.
    fn of(name: &Arc<str>, calls: u64, parts: &[Part]) -> Option<Self> {
        let kept_blocks: u64 = parts.iter().map(|(_, kept)| kept.blocks).sum();
        let kept_bytes: u64 = parts.iter().map(|(_, kept)| kept.bytes).sum();
        let floor = Floor::of(parts.iter().map(|(_, kept)| &kept.course), kept_blocks);
        let floor = floor.filter(Floor::keeps_growing)?;
        let (stack, _) = parts.iter().max_by_key(|(_, kept)| kept.bytes)?;
        Some(Self {
            function_name: Arc::clone(name),
            line: stack.first().cloned().unwrap_or_else(|| "an unknown line".to_owned()),
            stack: stack.clone(),
            calls,
            rises: rises(&floor.points),
            floor: floor.points,
            calls_per_point: floor.calls_per_point,
            kept_blocks,
            kept_bytes,
            bytes_per_call: kept_bytes as f64 / floor.calls as f64,
        })
    }
}

impl AllocationObserver for LeakObserver {
    fn allocated(&self, block: BlockEvent) {
        let within = OPEN.try_with(|open| {
            let open = open.borrow();
            let mut within: Vec<usize> =
                open.iter().filter(|(id, ..)| *id == self.id).map(|&(_, _, f)| f).collect();
            // If a function calls itself, the block counts once for its name.
            within.sort_unstable();
            within.dedup();
            within
        });
        let Some(within) = within.ok().filter(|within| !within.is_empty()) else { return };
        let stack = self.stacks.capture();
        let LeakState { functions, blocks, .. } = &mut *lock(&self.state);
        for &function in &within {
            let FunctionBlocks { calls, by_stack } = &mut functions[function];
            let kept = by_stack.entry(stack).or_default();
            kept.catch_up(*calls);
            kept.blocks += 1;
            kept.bytes += block.size;
        }
        blocks.insert(block.id, LiveBlock { size: block.size, stack, within: within.into() });
    }

    fn freed(&self, block: BlockEvent) {
        let LeakState { functions, blocks, .. } = &mut *lock(&self.state);
        let Some(LiveBlock { size, stack, within }) = blocks.remove(&block.id) else { return };
        for &function in within.iter() {
            let FunctionBlocks { calls, by_stack } = &mut functions[function];
            if let Some(kept) = by_stack.get_mut(&stack) {
                kept.catch_up(*calls);
                kept.blocks -= 1;
                kept.bytes -= size;
            }
        }
    }
}
