//! Finds lines whose allocations accumulate over the run.
//!
//! The live bytes of a stack do not show a leak, because they rise and fall with every step. The low points do. The *floor* of a
//! stack at a moment is the smallest number of its live bytes from that moment to the end. The floor of parameters and optimizer
//! state rises once and stays. The floor of activations stays near zero. The floor of a cache levels off. The floor of a leak
//! keeps rising.
//!
//! ```text
//!   live    /\/\ /\/\ /\/\      activations: floor 0
//!        __/‾‾‾‾‾‾‾‾‾‾‾‾‾‾      parameters: floor rises once
//!        _/\_/‾\_/‾‾\_/‾‾‾      leak: floor rises again and again
//! ```
//!
//! A line is suspected if its floor rises in at least three repetitions ([`FEWEST_REPETITIONS`]), and:
//!
//! - The rises go on to the end, as counted in calls of the stack: a full cache is called without a rise. The second half of the
//!   calls adds at least half of what the first half adds.
//! - The same bytes were not live and freed before: a list that is emptied comes and goes.
//! - The repetitions are a loop of the program, not the layers of one forward pass, the parameters of one model, or the state of
//!   one optimizer step (`loops`). Without other work of the program between their rises, they must free as much as they
//!   retain.
//! - What is live at the end was not freed by it. If the program only freed its memory before it ended, or ran out of memory, the
//!   end is the moment before.
//!
//! No leaks are blocks that replaced as many blocks of the same sizes from before recording, the results of captured CUDA graphs,
//! which each capture retains for its replays, workspaces, and a KV cache that is still live.
//!
//! - `again`: an earlier run that is still live while the program makes the same allocations again.
//! - `growth`: the rises of the floor of each stack.
//! - `loops`: whether repetitions are a loop of the program.

mod again;
mod growth;
mod loops;

use std::borrow::Borrow;

use hashbrown::HashMap;
use vramscope_basics::count_steps;
use vramscope_trace::{Action, Category, FrameId, PoolId, StackId};

use crate::categories::{AllocationCategories, StackIterations};
use crate::findings::Certainty;
use crate::groups::{graph_pools, pools_of};
use crate::history::{History, Moment, Origin, RecordedAllocation};
use crate::stacks::{Code, Frames};
use crate::steps::Steps;
use again::stacks_of_two_runs;
use growth::{Course, Growth, LEAST_WORK, Repetition};
use loops::Calls;

/// Number of windows, with equal numbers of events, that a run is divided into.
pub const WINDOWS: usize = 10;

/// The fewest repetitions in which a floor must rise.
pub(crate) const FEWEST_REPETITIONS: usize = 3;

/// With this many repetitions, growth is shown instead of likely.
pub(crate) const SHOWN_REPETITIONS: usize = 6;

/// Out of ten steps between windows, the number in which the floor must rise. It is less than ten because a program step may be
/// as long as a window.
const MUST_RISE_OF_TEN: usize = 7;

/// Falls smaller than the whole rise divided by two to this power are noise.
const SMALLEST_FALL: usize = 7;

/// The smallest number of falls that shows that a run repeats itself.
const FEWEST_FALLS: u64 = 3;

/// The smallest number of setups, backward passes or optimizer steps in which a leak grows.
const FEWEST_PASSES: usize = 3;

/// A line whose allocations accumulate, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakSuspect {
    /// The user's line; see [`Frames::own_frame`].
    pub line: FrameId,
    /// The line's stack that grew most.
    pub stack: StackId,
    /// The growing stacks of this line, sorted.
    pub stacks: Vec<StackId>,
    /// The floor of each window: the smallest number of live allocations of these stacks in that window or any later one.
    pub floor: [u64; WINDOWS],
    /// Number of repetitions in which the floor rose: steps, epochs, requests or calls.
    pub repetitions: usize,
    /// Bytes that one repetition retains: the mean.
    pub kept_per_repetition: u64,
    /// How far the recording shows that the line accumulates memory.
    pub certainty: Certainty,
    /// Number of allocations that these stacks made in the whole run.
    pub allocations: u64,
    /// Number of these allocations that were not freed before the end of the run.
    pub kept: u64,
    /// Bytes of the blocks of the retained allocations.
    pub kept_bytes: u64,
    /// Retained bytes that had been allocated by the end of each window; the last value equals `kept_bytes`.
    pub kept_by_then: [u64; WINDOWS],
    /// Retained bytes per program step: the median over all steps. `None` without known steps, and until
    /// [`Steps::measure_leaks`](crate::Steps::measure_leaks) has set it.
    pub kept_per_step: Option<u64>,
    /// The end of the run: the last moment before the program frees everything or runs out of memory.
    pub end: Moment,
}

impl LeakSuspect {
    /// Returns the retained bytes per step; `None` if no steps are known, or if most steps retain nothing, as in growth per epoch.
    pub fn growth_per_step(&self) -> Option<u64> {
        self.kept_per_step.filter(|&bytes| bytes > 0)
    }

    /// Whether the suspect retains this allocation.
    pub fn keeps(&self, a: &RecordedAllocation) -> bool {
        let is_its_own = a.stack.is_some_and(|stack| self.stacks.binary_search(&stack).is_ok());
        is_its_own && !a.is_preexisting() && a.to > self.end
    }
}

/// Returns the indices of the allocations that each of `suspects` retains, in order. The suspects must belong to the same run.
pub(crate) fn retained(history: &History, suspects: &[LeakSuspect]) -> Vec<Vec<usize>> {
    let mut retained = vec![Vec::new(); suspects.len()];
    count_steps(history.allocations.len());
    let Some(end) = suspects.first().map(|suspect| suspect.end) else { return retained };
    // No two suspects share a stack.
    let stacks =
        suspects.iter().enumerate().flat_map(|(i, suspect)| suspect.stacks.iter().map(move |&s| (s, i)));
    let by_stack: HashMap<StackId, usize> = stacks.collect();
    for (id, a) in history.allocations.iter().enumerate().filter(|(_, a)| !a.is_preexisting() && a.to > end) {
        if let Some(&suspect) = a.stack.and_then(|stack| by_stack.get(&stack)) {
            retained[suspect].push(id);
        }
    }
    retained
}

/// The range of active bytes up to the last allocation.
#[derive(Clone, Copy)]
pub(crate) struct ActiveRange {
    lowest: u64,
    highest: u64,
}

impl Default for ActiveRange {
    fn default() -> Self {
        Self { lowest: u64::MAX, highest: 0 }
    }
}

impl ActiveRange {
    /// Updates the range with the active bytes at the next moment.
    #[inline]
    pub(crate) fn see(&mut self, active: u64) {
        self.lowest = self.lowest.min(active);
        self.highest = self.highest.max(active);
    }
}

/// The smallest number of allocations of one stack that shows that a run repeats itself although it frees nothing.
const FEWEST_KEPT: u64 = 100;

/// Returns the line of a program that never frees anything, and runs out of memory at a line of its own that allocates the failing size
/// again and again, as a list that keeps everything does. Loading a model and a forward pass also free little, but packages make
/// their allocations, in many different stacks and sizes.
fn only_grows(history: &History, frames: &Frames) -> Option<FrameId> {
    let events = &history.device().events;
    let frees =
        |&action: &Action| matches!(action, Action::FreeRequested | Action::FreeCompleted | Action::Free);
    let failed = events.actions().iter().position(|&action| action == Action::Oom)?;
    if events.actions()[..failed].iter().any(frees) {
        return None;
    }
    let (stack, size) = (events.get(failed).stack?, events.get(failed).size);
    let is_own = |&frame: &FrameId| matches!(frames.code(frame), Code::User | Code::Native);
    if !history.trace().stacks.get(stack).iter().all(is_own) {
        return None;
    }
    // The failed request may have a different number of compiled frames, so lines are compared.
    let line = frames.own_frame(history.trace(), stack)?;
    let is_at_line = |a: &&RecordedAllocation| {
        alloc_stack(history, a).and_then(|stack| frames.own_frame(history.trace(), stack)) == Some(line)
    };
    let kept = history.recorded().filter(is_at_line).filter(|a| a.size == size).count() as u64;
    (kept >= FEWEST_KEPT && kept * 4 >= history.recorded().count() as u64 * 3).then_some(line)
}

/// Returns the event of the last allocation; after it, the program only frees.
pub(crate) fn last_allocation(history: &History) -> Option<usize> {
    history.device().events.actions().iter().rposition(|&a| a == Action::Alloc)
}

/// Returns the end of the run. After the last allocation, programs free what a function retained, or everything that they have: only
/// the latter hides a leak. A failed request that nothing follows is the end.
pub(crate) fn end_of_run(history: &History) -> Moment {
    let actions = history.device().events.actions();
    let Some(last) = last_allocation(history) else { return Moment::START };
    if let Some(oom) = actions.iter().rposition(|&action| action == Action::Oom).filter(|&oom| oom > last) {
        return Moment::after(oom);
    }
    let (then, at_end) = (Moment::after(last), history.end());
    let live = history.allocated_at(then);
    let (all, left) =
        live.fold((0, 0), |(all, left), a| (all + 1, left + usize::from(a.is_allocated_at(at_end))));
    if left <= all / LEFT_BY_TEARDOWN { then } else { at_end }
}

/// A program that frees all but one of this many parts of its blocks at the end is being torn down; workspaces of libraries are left.
const LEFT_BY_TEARDOWN: usize = 10;

/// The growth of a run, before categories are known.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    growth: Growth,
    end: Moment,
    /// The line that allocates until the program fails; see [`only_grows`].
    only: Option<FrameId>,
}

impl Growing {
    pub(crate) fn of(history: &History, frames: &Frames) -> Self {
        let end = end_of_run(history);
        Self { growth: Growth::of(history, end), end, only: only_grows(history, frames) }
    }

    /// Returns the suspects, most bytes first. `repeats` says whether the run frees again and again as much as it grows; see
    /// [`repeats`]. `categories` is called if a line grows.
    pub(crate) fn suspects<C: Borrow<AllocationCategories>>(
        self,
        history: &History,
        frames: &Frames,
        repeats: bool,
        categories: impl FnOnce() -> C,
    ) -> Vec<LeakSuspect> {
        let Self { mut growth, end, only } = self;
        let (mut examined, most) = (0, growth.most_examined(end));
        let mut growing: Vec<(StackId, Course, Vec<Repetition>)> = Vec::new();
        growth.courses.sort_by_key(|(stack, course)| (std::cmp::Reverse(course.kept_bytes()), *stack));
        let calls = Calls { trace: history.trace(), frames, seen: &growth.seen };
        for &(stack, ref course) in &growth.courses {
            if examined >= most {
                break;
            }
            let is_only = only.is_some() && frames.own_frame(history.trace(), stack) == only;
            let repetitions = if is_only { course.single_rises() } else { course.repetitions() };
            let mut is_suspect = || {
                let [first, .., last] = repetitions.as_slice() else { return false };
                if repetitions.len() < FEWEST_REPETITIONS {
                    return false;
                }
                examined += 1;
                count_steps(growth.seen.len());
                let gap = (last.first - first.first) / (repetitions.len() as u32 - 1);
                let frees = growth.freed as usize >= repetitions.len();
                let is_work =
                    || frees && course.rises_by_equal_sizes() && calls.has_other_work(stack, &repetitions);
                let is_shown = repeats && repetitions.len() >= SHOWN_REPETITIONS;
                let goes_on = |after| calls.goes_on(stack, &repetitions, after);
                course.grows_to_the_end(&repetitions, growth.allocations, goes_on)
                    && (repeats || gap >= LEAST_WORK || is_work())
                    && calls.is_loop(stack, &repetitions, is_shown)
            };
            if is_only && repetitions.len() >= FEWEST_REPETITIONS || is_suspect() {
                growing.push((stack, course.clone(), repetitions));
            }
        }
        drop_replacements(history, end, &mut growing);
        if !growing.is_empty() {
            let mut suspects = by_line(history, frames, growing, end);
            drop_expected(history, categories().borrow(), &mut suspects);
            if !suspects.is_empty() {
                return suspects;
            }
        }
        let twice = stacks_of_two_runs(history, frames, &growth, end);
        growth.courses.retain(|(stack, _)| twice.binary_search(stack).is_ok());
        let of_two = growth.courses.into_iter().map(|(stack, course)| (stack, course, Vec::new()));
        let mut suspects = by_line(history, frames, of_two.collect(), end);
        for suspect in &mut suspects {
            suspect.repetitions = 2;
            suspect.kept_per_repetition = suspect.kept_bytes / 2;
            suspect.certainty = Certainty::Likely;
        }
        suspects
    }
}

/// Joins the stacks of each line.
fn by_line(
    history: &History,
    frames: &Frames,
    growing: Vec<(StackId, Course, Vec<Repetition>)>,
    end: Moment,
) -> Vec<LeakSuspect> {
    let mut by_line: HashMap<FrameId, LeakSuspect> = HashMap::new();
    // The stack with most bytes comes first.
    for (stack, course, repetitions) in growing {
        let Some(line) = frames.own_frame(history.trace(), stack) else { continue };
        let suspect = by_line.entry(line).or_insert_with(|| LeakSuspect {
            line,
            stack,
            stacks: Vec::new(),
            floor: [0; WINDOWS],
            repetitions: repetitions.len(),
            kept_per_repetition: course.growth_of_replaced_block().unwrap_or_default(),
            certainty: match repetitions.len() {
                SHOWN_REPETITIONS.. => Certainty::Shown,
                _ => Certainty::Likely,
            },
            allocations: 0,
            kept: 0,
            kept_bytes: 0,
            kept_by_then: [0; WINDOWS],
            kept_per_step: None,
            end,
        });
        suspect.stacks.push(stack);
        suspect.allocations += course.allocations;
        suspect.kept += course.kept;
        suspect.kept_bytes += course.kept_bytes();
        let mut so_far = 0;
        for (sum, made) in suspect.kept_by_then.iter_mut().zip(course.kept_in) {
            so_far += made;
            *sum += so_far;
        }
        for (sum, f) in suspect.floor.iter_mut().zip(course.floor()) {
            *sum += f;
        }
    }
    let mut out: Vec<LeakSuspect> = by_line.into_values().collect();
    out.iter_mut().for_each(|suspect| suspect.stacks.sort_unstable());
    out.sort_by_key(|s| (std::cmp::Reverse(s.kept_bytes), s.line));
    count_repetitions(history, &mut out);
    out
}

/// A size of block that comes less often than one of this many times of the most frequent one is an exception.
const RAREST: usize = 64;

/// Counts the repetitions of each line. One repetition may retain several blocks of one stack, such as those of two layers: the size that
/// comes least often comes once.
fn count_repetitions(history: &History, suspects: &mut [LeakSuspect]) {
    for (kept, suspect) in retained(history, suspects).into_iter().zip(suspects) {
        // The number of blocks of each size, and when the first and the last of them was made.
        let mut sizes: HashMap<(Option<StackId>, u64), (usize, usize, usize)> = HashMap::new();
        for a in kept.iter().map(|&id| &history.allocations[id]) {
            let made = a.from.index();
            let of_size = sizes.entry((a.stack, a.requested)).or_insert((0, made, made));
            *of_size = (of_size.0 + 1, of_size.1.min(made), of_size.2.max(made));
        }
        let most = sizes.values().map(|s| s.0).max().unwrap_or_default();
        let begin = sizes.values().map(|s| s.1).min().unwrap_or_default();
        let quarter = suspect.end.index().saturating_sub(begin) / 4;
        // Sizes that are retained for a part of the time only are not what grows.
        let lasts =
            |s: &&(usize, usize, usize)| s.1 <= begin + quarter && s.2 + quarter >= suspect.end.index();
        let usual = sizes.values().filter(lasts).map(|s| s.0);
        let usual = usual.filter(|&n| n >= FEWEST_REPETITIONS && n >= most / RAREST);
        let usual = usual.min().unwrap_or(suspect.repetitions);
        suspect.repetitions = usual.min(suspect.repetitions).max(1);
        // The growth of a block that is replaced is known.
        if suspect.kept_per_repetition == 0 {
            suspect.kept_per_repetition = suspect.kept_bytes / suspect.repetitions as u64;
        }
        if suspect.repetitions < SHOWN_REPETITIONS {
            suspect.certainty = suspect.certainty.max(Certainty::Likely);
        }
    }
}

/// Drops stacks if at least half of their retained blocks may have replaced blocks that were live before recording.
fn drop_replacements(history: &History, end: Moment, growing: &mut Vec<(StackId, Course, Vec<Repetition>)>) {
    if growing.is_empty() {
        return;
    }
    let mut replaced: HashMap<u64, u64> = HashMap::new();
    let mut kept: HashMap<StackId, HashMap<u64, u64>> = HashMap::new();
    for a in &history.allocations {
        if a.is_preexisting() && a.to <= end {
            *replaced.entry(a.size).or_default() += 1;
        } else if a.to > end
            && let Some(stack) = alloc_stack(history, a)
        {
            *kept.entry(stack).or_default().entry(a.size).or_default() += 1;
        }
    }
    growing.retain(|(stack, course, _)| {
        let Some(sizes) = kept.get(stack) else { return true };
        let taken = |(size, &count): (&u64, &u64)| count.min(replaced.get(size).copied().unwrap_or(0));
        if sizes.iter().map(taken).sum::<u64>() * 2 < course.kept {
            return true;
        }
        // One block replaces one other block.
        for (size, count) in sizes {
            replaced.entry(*size).and_modify(|left| *left = left.saturating_sub(*count));
        }
        false
    });
}

/// Whether active bytes fall again and again up to event `last`, and all these falls together are at least as large as the whole
/// rise of `active`, from lowest to highest.
pub(crate) fn repeats(history: &History, last: usize, active: ActiveRange) -> bool {
    fall_by(history.walk().take(last + 2).map(|(_, c)| c.active), active)
}

/// Like [`repeats`], for any sequence of values.
pub(crate) fn falls_back(values: impl Iterator<Item = u64> + Clone) -> bool {
    let mut range = ActiveRange::default();
    values.clone().for_each(|value| range.see(value));
    fall_by(values, range)
}

/// Whether values in this range fall again and again, and all these falls together are at least as large as the whole range.
fn fall_by(mut values: impl Iterator<Item = u64>, range: ActiveRange) -> bool {
    let rise = range.highest.saturating_sub(range.lowest);
    let mut falls: [Falls; SMALLEST_FALL] =
        std::array::from_fn(|halvings| Falls::of((rise >> (halvings + 1)).max(1)));
    // The number of falls only grows, so the rest of the values cannot change a yes.
    values.any(|value| falls.iter_mut().any(|f| f.see(value) && f.are_enough(rise)))
}

/// Counts how often a value falls by `depth` from its last high, rising by the same amount in between.
struct Falls {
    depth: u64,
    count: u64,
    falling: bool,
    /// The highest value since the last rise, or the lowest value since the last fall.
    turn: u64,
}

impl Falls {
    fn of(depth: u64) -> Self {
        Self { depth, count: 0, falling: false, turn: 0 }
    }

    /// Takes the next value. Returns whether it is the end of another fall.
    fn see(&mut self, v: u64) -> bool {
        self.turn = if self.falling { v.min(self.turn) } else { v.max(self.turn) };
        let turns = v.abs_diff(self.turn) >= self.depth;
        if turns {
            self.falling = !self.falling;
            self.count += u64::from(self.falling);
            self.turn = v;
        }
        turns && self.falling
    }

    /// Whether there are many falls, which together are at least as large as `rise`.
    fn are_enough(&self, rise: u64) -> bool {
        self.count >= FEWEST_FALLS && self.count.saturating_mul(self.depth) >= rise
    }
}

/// Returns the stack that allocated `a`, if recorded.
fn alloc_stack(history: &History, a: &RecordedAllocation) -> Option<StackId> {
    history.stack_of(a).filter(|_| !a.is_preexisting())
}

/// Whether a floor, given as one value per window, keeps rising. It must rise in most steps between windows, and in the second
/// half of the run by at least half as much as in the first half. The first window is left out of the halves, because programs
/// allocate much at the beginning only.
pub fn keeps_growing(floor: &[u64]) -> bool {
    let (Some(&second), Some(&last)) = (floor.get(1), floor.last()) else { return false };
    let middle = floor[floor.len() / 2];
    let (early, late) = (middle.saturating_sub(second), last.saturating_sub(middle));
    rises(floor) * 10 >= (floor.len() - 1) * MUST_RISE_OF_TEN && late.saturating_mul(2) >= early
}

/// Returns the number of steps between windows in which a floor rises.
pub fn rises(floor: &[u64]) -> usize {
    floor.array_windows().filter(|[a, b]| b > a).count()
}

/// Returns the lines whose live allocations keep growing from iteration to iteration to the end of the run, most bytes first.
pub fn leak_suspects(history: &History, frames: &Frames) -> Vec<LeakSuspect> {
    let Some(last) = last_allocation(history) else { return Vec::new() };
    let mut active = ActiveRange::default();
    history.walk().take(last + 2).for_each(|(_, c)| active.see(c.active));
    let repeats = repeats(history, last, active);
    Growing::of(history, frames).suspects(history, frames, repeats, || AllocationCategories::of(history))
}

/// Drops the lines whose growth is expected: state that is made once, results of CUDA graphs, and workspaces.
fn drop_expected(history: &History, categories: &AllocationCategories, suspects: &mut Vec<LeakSuspect>) {
    drop_made_once(history, categories, suspects);
    drop_results_of_graphs(history, suspects);
    drop_by_category(history, categories, suspects);
}

/// Whether the suspect retains at most one block for each parameter: gradients and optimizer state that are made one after the other, and
/// autocast's copies, of half the size. `parameters` has the number of live parameters of each requested size.
fn is_of_parameters(
    history: &History,
    categories: &AllocationCategories,
    parameters: &HashMap<u64, usize>,
    suspect: &LeakSuspect,
    kept: &[usize],
) -> bool {
    if parameters.is_empty() {
        return false;
    }
    // Each stack makes one of them: a mean or a variance, a gradient, a copy.
    let mut made: HashMap<(Option<StackId>, u64), (usize, bool)> = HashMap::new();
    for a in kept.iter().map(|&id| &history.allocations[id]) {
        let is_state = matches!(categories.category(a), Category::OptimizerState | Category::Gradient);
        let of_size = made.entry((a.stack, a.requested)).or_insert((0, true));
        *of_size = (of_size.0 + 1, of_size.1 && is_state);
    }
    let is_of_them = |size: u64, count, is_state| {
        let size = if is_state { size } else { size.saturating_mul(2) };
        count <= parameters.get(&size).copied().unwrap_or_default()
    };
    let bytes = made.iter().map(|(&(_, size), &(count, is_state))| {
        if is_of_them(size, count, is_state) { size.saturating_mul(count as u64) } else { 0 }
    });
    bytes.sum::<u64>() >= suspect.kept_bytes / 10 * 9
}

/// Drops workspaces, and marks KV caches as possible leaks: the one of a request that is not done grows in the same way.
fn drop_by_category(history: &History, categories: &AllocationCategories, suspects: &mut Vec<LeakSuspect>) {
    let Some(end) = suspects.first().map(|suspect| suspect.end) else { return };
    let mut parameters: HashMap<u64, usize> = HashMap::new();
    for a in history.allocated_at(end).filter(|a| categories.category(a) == Category::Parameter) {
        *parameters.entry(a.requested).or_default() += 1;
    }
    let mut retained = retained(history, suspects).into_iter();
    suspects.retain_mut(|suspect| {
        let kept = retained.next().unwrap_or_default();
        let is_mostly = |category| {
            let of = kept
                .iter()
                .map(|&id| &history.allocations[id])
                .filter(|a| categories.category(a) == category);
            of.map(|a| a.size).sum::<u64>() >= suspect.kept_bytes.div_ceil(2)
        };
        if is_of_parameters(history, categories, &parameters, suspect, &kept) {
            return false;
        }
        if is_mostly(Category::KvCache) {
            suspect.certainty = Certainty::Possible;
        }
        !is_mostly(Category::Workspace)
    });
}

/// Drops the suspects of which CUDA graphs retain at least half of the bytes. Captures run on streams of their own, which shows their pools
/// where nothing else does.
fn drop_results_of_graphs(history: &History, suspects: &mut Vec<LeakSuspect>) {
    let pools = if suspects.is_empty() { Vec::new() } else { pools_of(history) };
    if pools.is_empty() {
        return;
    }
    let graphs = graph_pools(history, |id| pools[id]);
    let mut retained = retained(history, suspects).into_iter();
    suspects.retain(|suspect| {
        let kept = retained.next().unwrap_or_default().into_iter();
        let of_graphs = kept.filter(|&id| {
            pools[id].is_some_and(|pool| {
                let is_private = pool != PoolId::default() && history.allocations[id].stream != 0;
                is_private || graphs.contains(&pool)
            })
        });
        of_graphs.map(|id| history.allocations[id].size).sum::<u64>() < suspect.kept_bytes.div_ceil(2)
    });
}

/// Drops the suspects whose retained blocks were all made in fewer than [`FEWEST_PASSES`] passes.
fn drop_made_once(history: &History, categories: &AllocationCategories, suspects: &mut Vec<LeakSuspect>) {
    let mut retained = retained(history, suspects).into_iter();
    suspects.retain(|_| {
        let kept = retained.next().unwrap_or_default();
        passes(history, categories.iterations(), &kept).is_none_or(|n| n >= FEWEST_PASSES)
    });
}

/// Returns the number of passes that made these allocations; `None` if some were made outside all passes.
fn passes(history: &History, iterations: &StackIterations, kept: &[usize]) -> Option<usize> {
    let mut count = 0;
    let mut last = None;
    count_steps(kept.len());
    for a in kept.iter().map(|&id| &history.allocations[id]).filter(|a| a.origin == Origin::Recorded) {
        let pass = iterations.pass_at(u32::try_from(a.from.event()?).ok()?)?;
        if last != Some(pass) {
            count += 1;
            last = Some(pass);
        }
    }
    Some(count)
}

impl Steps {
    /// Sets how many bytes each leak retains per step ([`LeakSuspect::kept_per_step`]).
    pub fn measure_leaks(&self, history: &History, leaks: &mut [LeakSuspect]) {
        if self.steps.is_empty() {
            return;
        }
        for (kept, leak) in retained(history, leaks).into_iter().zip(leaks) {
            let mut made: HashMap<usize, u64> = HashMap::new();
            for a in kept.into_iter().map(|id| &history.allocations[id]) {
                if let Some(step) = self.made_in(a) {
                    *made.entry(step).or_default() += a.size;
                }
            }
            let mut made: Vec<u64> = made.into_values().collect();
            made.sort_unstable();
            // The median of all steps; the others come first.
            let others = self.steps.len() - made.len();
            let median = ((self.steps.len() - 1) / 2).checked_sub(others).map_or(0, |i| made[i]);
            leak.kept_per_step = Some(median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_are_counted_from_the_last_high() {
        let falls = |values: &[u64], depth| {
            let mut falls = Falls::of(depth);
            values.iter().for_each(|&v| _ = falls.see(v));
            falls.count
        };
        assert_eq!(falls(&[0, 10, 0, 10, 0], 5), 2);
        assert_eq!(falls(&[0, 10, 7, 10, 7], 5), 0);
        assert_eq!(falls(&[0, 10, 7, 4, 1, 0, 9, 4], 5), 2);
        assert_eq!(falls(&[0, 1, 2, 3], 1), 0);
    }

    #[test]
    fn a_floor_that_levels_off_is_no_leak() {
        assert!(keeps_growing(&[0, 7, 13, 19, 25, 31, 37, 43, 49, 55]));
        assert!(!keeps_growing(&[0, 47, 100, 138, 171, 181, 182, 199, 199, 202]));
        assert!(!keeps_growing(&[0, 9, 9, 9, 9, 9, 9, 9, 9, 9]));
        // The number of windows is arbitrary.
        assert!(keeps_growing(&[1, 2, 3]) && keeps_growing(&[0, 5]));
        assert!(!keeps_growing(&[1, 2, 2]) && !keeps_growing(&[3]) && !keeps_growing(&[]));
    }
}
