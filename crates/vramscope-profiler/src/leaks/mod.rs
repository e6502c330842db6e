//! Finds blocks that accumulate across calls of the same function or step.
//!
//! Blocks that a call leaves live are not always a leak: it may have returned them, or filled a cache. So many calls are
//! compared. After each call, the blocks are counted that calls of that name allocated and that are still live. The *floor*
//! after a call is the lowest count then or at any later time, now included:
//!
//! ```text
//!   call            1   2   3   4   5   now
//!   a result        1   1   1   1   1   0     dropped by whoever called: floor 0
//!   a cache         4   6   6   6   6   6     floor 4 6 6 6 6: levels off
//!   a growing list  1   2   3   4   5   5     floor 1 2 3 4 5: a leak
//! ```
//!
//! A leak is a floor that [keeps growing](vramscope_analysis::keeps_growing): the rule by which recordings are searched for
//! leaks, with calls in place of windows.
//!
//! While the program runs, blocks are counted by captured stack, that is by return addresses. A compiler that optimises gives one
//! line several of these: it unrolls loops and inlines functions. So the stacks are looked up when suspects are asked for, and
//! those of the same lines are added up. What then does not grow is added up once more by its innermost line, which several
//! callers may call in turn.

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
use vramscope_analysis::{keeps_growing, rises};
use vramscope_basics::units::bytes;

use crate::holders::in_words;
use crate::source::{AllocationObserver, BlockEvent, MemorySource, Observation};
use course::{Course, Floor};
use vramscope_basics::lock;

/// How many calls of a name must have ended before a leak is reported.
const FEWEST_CALLS: u64 = 3;

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
/// Only what a call's own thread allocates counts. A malloc inside a call takes about a microsecond longer. The detector's memory
/// grows with the number of live blocks, stacks and names, and with the logarithm of the number of calls; so names should be few.
pub struct LeakDetector {
    shared: Arc<LeakObserver>,
    _observation: Observation,
}

/// A line whose blocks accumulate across calls, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeakSuspect {
    /// The name under which the calls were made.
    pub function_name: Arc<str>,
    /// The line: the innermost frame, as `file:line function`.
    pub line: String,
    /// The stack, innermost frame first, each as `file:line function`. Where several stacks end in the line, the one that holds
    /// most bytes.
    pub stack: Vec<String>,
    /// The number of calls that ended.
    pub calls: u64,
    /// The number of blocks that these calls left and that were not freed later, after each `calls_per_point` calls. Where that is
    /// more than 1, it may be lower than the exact number.
    pub floor: Vec<u64>,
    /// How many calls each point of the floor stands for.
    pub calls_per_point: u64,
    /// How many times the floor rose from one point to the next.
    pub rises: usize,
    /// The number of blocks that are live now.
    pub kept_blocks: u64,
    /// The bytes of those blocks.
    pub kept_bytes: u64,
    /// The bytes that a call leaves, on average.
    pub bytes_per_call: f64,
}

impl fmt::Display for LeakSuspect {
    /// The line and the evidence: `step: 3 blocks of 9.00 MiB kept by train.rs:92 train, 3.00 MiB a call; after each call: 1
    /// 2 3`. Where the line is not known, it says how to build the program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function_name, line, kept_blocks, kept_bytes, floor, .. } = self;
        let (kept, a_call) = (bytes(*kept_bytes), bytes(self.bytes_per_call as u64));
        write!(f, "{function_name}: {kept_blocks} blocks of {kept} kept by {line}, {a_call} a call")?;
        let after = if self.calls_per_point == 1 { "call" } else { "few calls" };
        write!(f, "; never fewer again after each {after}:")?;
        floor.iter().try_for_each(|n| write!(f, " {n}"))?;
        if self.has_line() { Ok(()) } else { write!(f, "; {NO_LINES}") }
    }
}

/// What a detector is told of and has counted.
struct LeakObserver {
    /// Tells this detector's calls from those of others on the same thread.
    id: u64,
    /// Whose detector it is: in a forked process, its lock may never be given back.
    process: Process,
    stacks: StackRecorder,
    state: Mutex<LeakState>,
}

#[derive(Default)]
struct LeakState {
    /// The names of functions, by their number.
    names: Vec<Arc<str>>,
    /// The number of each name.
    numbers: BTreeMap<Arc<str>, usize>,
    functions: Vec<FunctionBlocks>,
    /// Live blocks that were allocated in calls.
    blocks: HashMap<u64, LiveBlock>,
}

struct LiveBlock {
    size: u64,
    stack: Option<CapturedStack>,
    /// The numbers of the names of the calls it was allocated in.
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
    /// The number of blocks after each call. The last calls, in which it did not change, are not yet added.
    course: Course,
}

impl KeptBlocks {
    /// Adds the calls that have ended, of which there are `calls`, because the number of blocks is about to change.
    fn catch_up(&mut self, calls: u64) {
        self.course.push_until(calls, self.blocks);
    }
}

thread_local! {
    /// The calls that are open on this thread: the number of the detector, of the call and of the function.
    static OPEN: RefCell<Vec<(u64, u64, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A call, from [`LeakDetector::call`] until it is dropped. It stays on its thread. In a process that is forked while it is
/// open, dropping it does nothing.
#[must_use = "the call ends when the guard is dropped"]
pub struct LeakCall<'d> {
    task: LeakTask<'d>,
    /// Keeps the guard on its thread.
    not_send: PhantomData<*const ()>,
}

/// A call, until it is dropped, that is open on a thread only between [`enter`](Self::enter) and [`leave`](Self::leave).
/// What the thread allocates in between belongs to it.
pub(crate) struct LeakTask<'d> {
    detector: &'d LeakDetector,
    key: u64,
    /// The position of its name among the detector's functions.
    function: usize,
}

/// A number for a call, which no other has.
fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl LeakDetector {
    /// Begins to watch the allocations of `source`; `None` where it does not see allocations.
    pub fn new(source: &dyn MemorySource) -> Option<Self> {
        Self::with_stacks(source, StackRecorder::new())
    }

    /// As [`new`](Self::new), with stacks captured by `stacks`, which may be those of another language.
    pub fn with_stacks(source: &dyn MemorySource, stacks: StackRecorder) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(LeakObserver { id, process: Process::this(), stacks, state: Mutex::default() });
        let observation = source.observe(Arc::clone(&shared) as _)?;
        Some(Self { shared, _observation: observation })
    }

    /// Begins a call of the function or step `name`, which ends when the guard is dropped. Calls may nest: a block counts for the
    /// name of every call it was allocated in.
    pub fn call(&self, name: &str) -> LeakCall<'_> {
        let task = self.task(name);
        task.enter();
        LeakCall { task, not_send: PhantomData }
    }

    /// Begins a call that is open on a thread only while it is entered, for futures.
    pub(crate) fn task(&self, name: &str) -> LeakTask<'_> {
        LeakTask { detector: self, key: next_key(), function: lock(&self.shared.state).number(name) }
    }

    /// The lines whose blocks accumulate, most bytes first. Symbols are looked up now, which may take seconds the first time.
    pub fn suspects(&self) -> Vec<LeakSuspect> {
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

    /// Forgets all calls and blocks. Calls that are open now count from here on.
    pub fn clear(&self) {
        let mut state = lock(&self.shared.state);
        state.functions.fill_with(FunctionBlocks::default);
        state.blocks = HashMap::new();
    }
}

impl LeakTask<'_> {
    /// From here on, what this thread allocates belongs to this call.
    pub(crate) fn enter(&self) {
        let opened = (self.detector.shared.id, self.key, self.function);
        OPEN.try_with(|open| open.borrow_mut().push(opened)).ok();
    }

    /// From here on, what this thread allocates no longer belongs to this call.
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
        // In a forked process, another thread of the parent may have held the lock at the fork.
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
    /// What each stack has left after any call, up to the last call that has ended.
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

/// A stack, innermost frame first, and what it keeps.
type Part = (Vec<String>, KeptBlocks);

/// The suspects among what the stacks of a function keep after `calls` calls. `in_words` looks up the frames of a stack.
fn suspects_of(
    name: &Arc<str>,
    calls: u64,
    kept: Vec<(Option<CapturedStack>, KeptBlocks)>,
    in_words: impl Fn(CapturedStack) -> Vec<String>,
) -> Vec<LeakSuspect> {
    let parts = kept.into_iter().map(|(stack, kept)| (stack.map(&in_words).unwrap_or_default(), kept));
    let (mut suspects, rest) = growing(name, calls, parts.collect(), |stack| stack.to_vec());
    let (by_line, _) = growing(name, calls, rest, |stack| stack.first().cloned().into_iter().collect());
    suspects.extend(by_line);
    suspects
}

/// Adds up the parts with the same key, and returns what keeps growing, and all other parts.
fn growing(
    name: &Arc<str>,
    calls: u64,
    parts: Vec<Part>,
    key: impl Fn(&[String]) -> Vec<String>,
) -> (Vec<LeakSuspect>, Vec<Part>) {
    let mut groups: BTreeMap<Vec<String>, Vec<Part>> = BTreeMap::new();
    for part in parts {
        groups.entry(key(&part.0)).or_default().push(part);
    }
    let (mut suspects, mut rest) = (Vec::new(), Vec::new());
    for parts in groups.into_values() {
        match LeakSuspect::of(name, calls, &parts) {
            Some(suspect) => suspects.push(suspect),
            None => rest.extend(parts),
        }
    }
    (suspects, rest)
}

impl LeakSuspect {
    /// The number of the line is known. It is not in a program that was built without debug information.
    pub fn has_line(&self) -> bool {
        !self.stack.is_empty() && !self.line.starts_with("??:0 ")
    }

    /// The suspect whose blocks these are; `None` where they do not keep growing.
    fn of(name: &Arc<str>, calls: u64, parts: &[Part]) -> Option<Self> {
        let kept_blocks: u64 = parts.iter().map(|(_, kept)| kept.blocks).sum();
        let kept_bytes: u64 = parts.iter().map(|(_, kept)| kept.bytes).sum();
        let floor = Floor::of(parts.iter().map(|(_, kept)| &kept.course), kept_blocks)?;
        if floor.calls < FEWEST_CALLS || !keeps_growing(&floor.points) {
            return None;
        }
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
            // Where a function calls itself, the block counts once for its name.
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
