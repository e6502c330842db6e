//! What piles up across calls of the same function or step.
//!
//! A call may leave something live and be no leak: it returned it, or filled a cache. So what a call leaves is looked
//! at over many calls, by stack. After each call the blocks are counted that calls of that name allocated and that
//! are still live; the *floor* after a call is the fewest there were then or at any later time, now included:
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

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use serde::Serialize;
use vramscope_allocator::{CapturedStack, StackRecorder};
use vramscope_analysis::{keeps_growing, rises};
use vramscope_basics::units::bytes;

use crate::holders::in_words;
use crate::source::{AllocationObserver, BlockEvent, MemorySource, Observation};
use vramscope_basics::lock;

/// Calls of a name before anything is said of them.
const FEWEST_CALLS: u64 = 3;

/// Points of a series that are kept. When it is full, each two become one, the lower.
const MOST_POINTS: usize = 64;

/// Watches what calls leave behind.
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
/// Only what a call's own thread allocates counts. A malloc in a call costs about a microsecond more; what is known takes
/// memory by live blocks, by stacks and by names, not by calls: names should be few.
pub struct LeakDetector {
    shared: Arc<Shared>,
    _observation: Observation,
}

/// A line whose blocks pile up across calls, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeakSuspect {
    /// The name of the calls.
    pub function_name: Arc<str>,
    /// The line: the innermost frame, as `file:line function`.
    pub line: String,
    /// Who called, innermost first.
    pub stack: Vec<String>,
    /// Calls that ended.
    pub calls: u64,
    /// Blocks that these calls left for good, after each `calls_per_point` calls.
    pub floor: Vec<u64>,
    /// Calls that each point of the floor stands for.
    pub calls_per_point: u64,
    /// Steps from point to point in which the floor rose.
    pub rises: usize,
    /// Blocks live now.
    pub kept_blocks: u64,
    /// Bytes of those.
    pub kept_bytes: u64,
    /// Bytes that a call leaves, on average.
    pub bytes_per_call: f64,
}

impl fmt::Display for LeakSuspect {
    /// The line and the evidence: `step: 3 blocks of 9.00 MiB kept by train.rs:92 train, 3.00 MiB a call; after each call: 1
    /// 2 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function_name, line, kept_blocks, kept_bytes, floor, .. } = self;
        let (kept, a_call) = (bytes(*kept_bytes), bytes(self.bytes_per_call as u64));
        write!(f, "{function_name}: {kept_blocks} blocks of {kept} kept by {line}, {a_call} a call")?;
        let after = if self.calls_per_point == 1 { "call" } else { "few calls" };
        write!(f, "; never fewer again after each {after}:")?;
        floor.iter().try_for_each(|n| write!(f, " {n}"))
    }
}

struct Shared {
    id: u64,
    stacks: StackRecorder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: Vec<Arc<str>>,
    numbers: BTreeMap<Arc<str>, usize>,
    functions: Vec<Function>,
    /// Live blocks that were allocated in calls.
    blocks: HashMap<u64, Block>,
}

struct Block {
    size: u64,
    stack: Option<CapturedStack>,
    /// The names of the calls it was allocated in.
    within: Arc<[usize]>,
}

/// All calls of one name.
#[derive(Default)]
struct Function {
    calls: u64,
    by_stack: HashMap<Option<CapturedStack>, Kept>,
}

/// What calls of one name left, of one stack.
#[derive(Default)]
struct Kept {
    blocks: u64,
    bytes: u64,
    /// Calls that had ended before the first block.
    calls_before: u64,
    /// Blocks after each call since; the last calls, in which nothing changed, are still to be added.
    floor: Series,
}

impl Kept {
    fn since(calls: u64) -> Self {
        Self { calls_before: calls, ..Self::default() }
    }

    /// The series up to the calls that have ended.
    fn floor_after(&self, calls: u64) -> Series {
        let mut floor = self.floor.clone();
        floor.push_until(calls - self.calls_before, self.blocks);
        floor
    }

    /// The blocks are about to change; so many calls have ended.
    fn catch_up(&mut self, calls: u64) {
        if self.blocks == 0 && self.floor.calls < calls - self.calls_before {
            // A call ended that left nothing: whatever there was before is over.
            *self = Self::since(calls);
        }
        self.floor.push_until(calls - self.calls_before, self.blocks);
    }
}

/// The lowest of a value over ever longer runs of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Series {
    points: Vec<u64>,
    per_point: u64,
    /// Calls in all points.
    calls: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self { points: Vec::new(), per_point: 1, calls: 0 }
    }
}

impl Series {
    /// The value was the same after every call up to number `calls`.
    fn push_until(&mut self, calls: u64, value: u64) {
        while self.calls < calls {
            let room = self.points.len() as u64 * self.per_point - self.calls;
            if room == 0 {
                if self.points.len() == MOST_POINTS {
                    self.points = self.points.chunks(2).map(|two| two[0].min(two[1])).collect();
                    self.per_point *= 2;
                }
                self.points.push(value);
                self.calls += self.per_point.min(calls - self.calls);
            } else {
                if let Some(last) = self.points.last_mut() {
                    *last = value.min(*last);
                }
                self.calls += room.min(calls - self.calls);
            }
        }
    }

    /// The fewest at each point or later, with `now` after all of them.
    fn floor(&self, now: u64) -> Vec<u64> {
        let mut floor = self.points.clone();
        let mut lowest = now;
        for point in floor.iter_mut().rev() {
            lowest = lowest.min(*point);
            *point = lowest;
        }
        floor
    }
}

thread_local! {
    /// Calls that are open on this thread, by detector.
    static OPEN: RefCell<Vec<(u64, u64, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A call, until it is dropped. It stays on its thread.
#[must_use = "the call ends when the guard is dropped"]
pub struct LeakCall<'d> {
    task: LeakTask<'d>,
    of_its_thread: PhantomData<*const ()>,
}

/// A call, until it is dropped, of which blocks are that are allocated while it is entered.
pub(crate) struct LeakTask<'d> {
    detector: &'d LeakDetector,
    key: u64,
    function: usize,
}

/// The number of a call.
fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl LeakDetector {
    /// Watches `source`; `None` where it does not see allocations.
    pub fn new(source: &dyn MemorySource) -> Option<Self> {
        Self::with_stacks(source, StackRecorder::new())
    }

    /// The same with stacks of another language.
    pub fn with_stacks(source: &dyn MemorySource, stacks: StackRecorder) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared { id, stacks, state: Mutex::default() });
        let observation = source.observe(Arc::clone(&shared) as _)?;
        Some(Self { shared, _observation: observation })
    }

    /// A call of what `name` stands for begins. Calls may nest: a block counts for every name it was allocated in.
    pub fn call(&self, name: &str) -> LeakCall<'_> {
        let task = self.task(name);
        task.enter();
        LeakCall { task, of_its_thread: PhantomData }
    }

    /// A call that is on no thread but while it is entered.
    pub(crate) fn task(&self, name: &str) -> LeakTask<'_> {
        LeakTask { detector: self, key: next_key(), function: lock(&self.shared.state).number(name) }
    }

    /// Lines whose blocks pile up, most bytes first. Stacks are looked up now.
    pub fn suspects(&self) -> Vec<LeakSuspect> {
        let mut found = Vec::new();
        {
            let state = lock(&self.shared.state);
            for (name, function) in state.names.iter().zip(&state.functions) {
                found.extend(function.suspects().map(|found| (Arc::clone(name), found)));
            }
        }
        let mut suspects: Vec<LeakSuspect> = found
            .into_iter()
            .map(|(function_name, (stack, suspect))| {
                let stack = stack.map(|stack| in_words(&self.shared.stacks, stack)).unwrap_or_default();
                let line = stack.first().cloned().unwrap_or_else(|| "an unknown line".to_owned());
                LeakSuspect { function_name, line, stack, ..suspect }
            })
            .collect();
        suspects.sort_by(|a, b| {
            (b.kept_bytes, &a.function_name, &a.stack).cmp(&(a.kept_bytes, &b.function_name, &b.stack))
        });
        suspects
    }

    /// Forgets all calls and blocks. Calls that are open count as new.
    pub fn clear(&self) {
        let mut state = lock(&self.shared.state);
        state.functions.fill_with(Function::default);
        state.blocks = HashMap::new();
    }
}

impl LeakTask<'_> {
    /// What this thread allocates from here on is of this call.
    pub(crate) fn enter(&self) {
        let opened = (self.detector.shared.id, self.key, self.function);
        OPEN.try_with(|open| open.borrow_mut().push(opened)).ok();
    }

    /// Until here.
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
        lock(&self.detector.shared.state).functions[self.function].calls += 1;
    }
}

impl State {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let (name, number): (Arc<str>, usize) = (name.into(), self.names.len());
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        self.functions.push(Function::default());
        number
    }
}

impl Function {
    fn suspects(&self) -> impl Iterator<Item = (Option<CapturedStack>, LeakSuspect)> {
        self.by_stack.iter().filter_map(|(&stack, kept)| {
            let calls = self.calls.checked_sub(kept.calls_before).filter(|&n| n >= FEWEST_CALLS)?;
            let series = kept.floor_after(self.calls);
            let floor = series.floor(kept.blocks);
            if kept.blocks == 0 || !keeps_growing(&floor) {
                return None;
            }
            let suspect = LeakSuspect {
                function_name: Arc::default(),
                line: String::new(),
                stack: Vec::new(),
                calls: self.calls,
                rises: rises(&floor),
                floor,
                calls_per_point: series.per_point,
                kept_blocks: kept.blocks,
                kept_bytes: kept.bytes,
                bytes_per_call: kept.bytes as f64 / calls as f64,
            };
            Some((stack, suspect))
        })
    }
}

impl AllocationObserver for Shared {
    fn allocated(&self, block: BlockEvent) {
        let within = OPEN.try_with(|open| {
            let open = open.borrow();
            let mut within: Vec<usize> =
                open.iter().filter(|(id, ..)| *id == self.id).map(|&(_, _, f)| f).collect();
            // A function that calls itself.
            within.sort_unstable();
            within.dedup();
            within
        });
        let Some(within) = within.ok().filter(|within| !within.is_empty()) else { return };
        let stack = self.stacks.capture();
        let State { functions, blocks, .. } = &mut *lock(&self.state);
        for &function in &within {
            let Function { calls, by_stack } = &mut functions[function];
            let kept = by_stack.entry(stack).or_insert_with(|| Kept::since(*calls));
            kept.catch_up(*calls);
            kept.blocks += 1;
            kept.bytes += block.size;
        }
        blocks.insert(block.id, Block { size: block.size, stack, within: within.into() });
    }

    fn freed(&self, block: BlockEvent) {
        let State { functions, blocks, .. } = &mut *lock(&self.state);
        let Some(Block { size, stack, within }) = blocks.remove(&block.id) else { return };
        for &function in within.iter() {
            let Function { calls, by_stack } = &mut functions[function];
            if let Some(kept) = by_stack.get_mut(&stack) {
                kept.catch_up(*calls);
                kept.blocks -= 1;
                kept.bytes -= size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_few_points_and_the_same_verdict() {
        let mut series = Series::default();
        for call in 1..=100_000u64 {
            series.push_until(call, call / 10 + call % 7);
        }
        assert!(series.points.len() <= MOST_POINTS);
        let floor = series.floor(10_000);
        assert!(floor.is_sorted());
        assert!(keeps_growing(&floor), "{floor:?}");
    }

    /// Added late and together, as one by one.
    #[test]
    fn a_series_does_not_depend_on_when_it_is_added_to() {
        let (mut one_by_one, mut together) = (Series::default(), Series::default());
        let mut calls = 0;
        for (value, more) in (0..400u64).map(|i| (i * 7 % 31, i % 5)) {
            (1..=more).for_each(|n| one_by_one.push_until(calls + n, value));
            calls += more;
            together.push_until(calls, value);
        }
        assert_eq!(one_by_one, together);
        assert!(together.points.len() <= MOST_POINTS && together.per_point > 1);
    }
}
