//! Finds stacks whose allocations accumulate over the run.
//!
//! The live bytes of a stack do not show a leak, because they rise and fall with every step. The low points do. The run is
//! divided into windows; the *floor* of a stack in a window is the smallest number of live allocations in that window or in any
//! later one. The floor of parameters and optimizer state rises once and stays. The floor of activations stays near zero. The
//! floor of a cache levels off. The floor of a leak keeps rising.
//!
//! ```text
//!   live    /\/\ /\/\ /\/\      activations: floor 0
//!        __/‾‾‾‾‾‾‾‾‾‾‾‾‾‾      parameters: floor rises once
//!        _/\_/‾\_/‾‾\_/‾‾‾      leak: floor rises in every window
//! ```
//!
//! Loading a model or a single forward pass grows in the same way. So a run must also repeat itself: in distinct falls, it must
//! free at least as many bytes as it grows. Two more kinds of growth are no leaks:
//!
//! - Replacement: as many blocks of the same sizes that were live before recording are freed meanwhile. Their lines are not
//!   known, so the new blocks may have replaced them, as an optimizer's new moments do.
//! - State that is made once. In its first step, an optimizer makes its state parameter by parameter and frees other blocks in
//!   between. Within that step, this looks like a leak. If stacks show setups, backward passes and optimizer steps, and all of a
//!   suspect's blocks were made in these, then they must come from several of them.
//!
//! Nor are the results of captured CUDA graphs a leak: each capture retains them for its replays.

use hashbrown::HashMap;
use vramscope_basics::count_steps;
use vramscope_trace::{Action, FrameId, StackId};

use crate::categories::{AllocationCategories, StackIterations};
use crate::groups::{graph_pools, pools_of};
use crate::history::{History, Moment, Origin, RecordedAllocation};
use crate::stacks::{Code, Frames};
use crate::steps::Steps;

/// Number of windows, with equal numbers of events, that a run is divided into.
pub const WINDOWS: usize = 10;

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
    /// Number of windows in which the floor rose.
    pub rises: usize,
    /// Number of allocations that these stacks made in the whole run.
    pub allocations: u64,
    /// Number of these allocations that were not freed before the last allocation of the run.
    pub kept: u64,
    /// Bytes of the blocks of the retained allocations.
    pub kept_bytes: u64,
    /// Retained bytes that had been allocated by the end of each window; the last value equals `kept_bytes`.
    pub kept_by_then: [u64; WINDOWS],
    /// Retained bytes per program step: the median over all steps. `None` without known steps, and until
    /// [`Steps::measure_leaks`](crate::Steps::measure_leaks) has set it.
    pub kept_per_step: Option<u64>,
    /// The moment after the last allocation of the run.
    pub end: Moment,
}

impl LeakSuspect {
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

/// Counts of one stack so far, with its fewest live allocations in each window.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    live: u64,
    lowest: [u64; WINDOWS],
    allocations: u64,
    kept: u64,
    /// Bytes of the retained allocations made in each window.
    kept_in: [u64; WINDOWS],
}

impl Tally {
    fn kept_bytes(&self) -> u64 {
        self.kept_in.iter().sum()
    }
}

/// The counts by stack.
pub(crate) type Tallies = HashMap<StackId, Tally>;

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

/// Returns the lines whose live allocations keep growing through the run, most bytes first. State that is made once is included.
pub(crate) fn growing_lines(history: &History, frames: &Frames) -> Vec<LeakSuspect> {
    let Some(last) = last_allocation(history) else { return Vec::new() };
    let mut active = ActiveRange::default();
    history.walk().take(last + 2).for_each(|(_, c)| active.see(c.active));
    if repeats(history, last, active) || only_grows(history, frames) {
        suspects(history, frames, tally(history, last))
    } else {
        Vec::new()
    }
}

/// The smallest number of allocations of one stack that shows that a run repeats itself although it frees nothing.
const FEWEST_KEPT: u64 = 100;

/// Whether nothing is ever freed, and the program runs out of memory at one of its own lines that allocates the failing size
/// again and again, as a list that keeps everything does. Loading a model and a forward pass also free little, but packages make
/// their allocations, in many different stacks and sizes.
pub(crate) fn only_grows(history: &History, frames: &Frames) -> bool {
    let events = &history.device().events;
    let frees =
        |&action: &Action| matches!(action, Action::FreeRequested | Action::FreeCompleted | Action::Free);
    let Some(failed) = events.actions().iter().position(|&action| action == Action::Oom) else {
        return false;
    };
    if events.actions()[..failed].iter().any(frees) {
        return false;
    }
    let (Some(stack), size) = (events.get(failed).stack, events.get(failed).size) else { return false };
    let is_own = |&frame: &FrameId| matches!(frames.code(frame), Code::User | Code::Native);
    if !history.trace().stacks.get(stack).iter().all(is_own) {
        return false;
    }
    // The failed request may have a different number of compiled frames, so lines are compared.
    let Some(line) = frames.own_frame(history.trace(), stack) else { return false };
    let is_at_line = |a: &&RecordedAllocation| {
        alloc_stack(history, a).and_then(|stack| frames.own_frame(history.trace(), stack)) == Some(line)
    };
    let kept = history.recorded().filter(is_at_line).filter(|a| a.size == size).count() as u64;
    kept >= FEWEST_KEPT && kept * 4 >= history.recorded().count() as u64 * 3
}

/// Returns the event of the last allocation; after it, the program only frees.
pub(crate) fn last_allocation(history: &History) -> Option<usize> {
    history.device().events.actions().iter().rposition(|&a| a == Action::Alloc)
}

/// Returns the suspects of a run that repeats itself.
pub(crate) fn suspects(history: &History, frames: &Frames, tallies: Tallies) -> Vec<LeakSuspect> {
    let Some(end) = last_allocation(history).map(Moment::after) else { return Vec::new() };
    let mut by_line: HashMap<FrameId, LeakSuspect> = HashMap::new();
    let mut growing: Vec<(StackId, Tally)> = Vec::new();
    growing.extend(tallies.into_iter().filter(|(_, t)| keeps_growing(&floor(t))));
    growing.sort_by_key(|(stack, t)| (std::cmp::Reverse(t.kept_bytes()), *stack));
    drop_replacements(history, end, &mut growing);
    for (stack, t) in growing {
        let Some(line) = frames.own_frame(history.trace(), stack) else { continue };
        let floor = floor(&t);
        let suspect = by_line.entry(line).or_insert_with(|| LeakSuspect {
            line,
            stack,
            stacks: Vec::new(),
            floor: [0; WINDOWS],
            rises: 0,
            allocations: 0,
            kept: 0,
            kept_bytes: 0,
            kept_by_then: [0; WINDOWS],
            kept_per_step: None,
            end,
        });
        suspect.stacks.push(stack);
        suspect.allocations += t.allocations;
        suspect.kept += t.kept;
        suspect.kept_bytes += t.kept_bytes();
        let mut so_far = 0;
        for (sum, made) in suspect.kept_by_then.iter_mut().zip(t.kept_in) {
            so_far += made;
            *sum += so_far;
        }
        for (sum, f) in suspect.floor.iter_mut().zip(floor) {
            *sum += f;
        }
        suspect.rises = suspect.rises.max(rises(&floor));
    }
    let mut out: Vec<LeakSuspect> = by_line.into_values().collect();
    out.iter_mut().for_each(|suspect| suspect.stacks.sort_unstable());
    out.sort_by_key(|s| (std::cmp::Reverse(s.kept_bytes), s.line));
    out
}

/// Drops stacks if at least half of their retained blocks may have replaced blocks that were live before recording.
fn drop_replacements(history: &History, end: Moment, growing: &mut Vec<(StackId, Tally)>) {
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
    growing.retain(|(stack, tally)| {
        let Some(sizes) = kept.get(stack) else { return true };
        let taken = |(size, &count): (&u64, &u64)| count.min(replaced.get(size).copied().unwrap_or(0));
        if sizes.iter().map(taken).sum::<u64>() * 2 < tally.kept {
            return true;
        }
        // One block replaces one other block.
        for (size, count) in sizes {
            replaced.entry(*size).and_modify(|left| *left = left.saturating_sub(*count));
        }
        false
    });
}

/// Counts each stack's allocations, with its fewest live ones in each window, up to event `last`.
pub(crate) fn tally(history: &History, last: usize) -> Tallies {
    let mut tallies = Tallies::new();
    let mut unrecorded = 0;
    let end = Moment::after(last);
    // Event `e` belongs to window `e * WINDOWS / (last + 1)`.
    let last_window = last * WINDOWS / (last + 1);
    for window in 0..=last_window {
        let border = |window: usize| (window * (last + 1)).div_ceil(WINDOWS);
        for event in border(window)..border(window + 1) {
            let moment = Moment::after(event);
            history.each_changing_at(moment, &mut unrecorded, |a| {
                let Some(stack) = alloc_stack(history, a) else { return };
                if a.from == moment {
                    let t = tallies.entry(stack).or_default();
                    t.live += 1;
                    t.allocations += 1;
                    if a.to > end {
                        t.kept += 1;
                        t.kept_in[window] += a.size;
                    }
                }
                if a.to == moment
                    && let Some(t) = tallies.get_mut(&stack)
                {
                    t.live = t.live.saturating_sub(1);
                    t.lowest[window] = t.lowest[window].min(t.live);
                }
            });
        }
        if window < last_window {
            for t in tallies.values_mut() {
                t.lowest[window + 1] = t.live;
            }
        }
    }
    tallies
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

fn floor(t: &Tally) -> [u64; WINDOWS] {
    let mut floor = t.lowest;
    for i in (0..WINDOWS - 1).rev() {
        floor[i] = floor[i].min(floor[i + 1]);
    }
    floor
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

/// Returns the lines whose live allocations keep growing from iteration to iteration through the whole run, most bytes first.
pub fn leak_suspects(history: &History, frames: &Frames) -> Vec<LeakSuspect> {
    let mut suspects = growing_lines(history, frames);
    if !suspects.is_empty() {
        drop_made_once(history, &AllocationCategories::of(history), &mut suspects);
        drop_results_of_graphs(history, &mut suspects);
    }
    suspects
}

/// Drops the suspects of which CUDA graphs retain at least half of the bytes.
pub(crate) fn drop_results_of_graphs(history: &History, suspects: &mut Vec<LeakSuspect>) {
    let pools = if suspects.is_empty() { Vec::new() } else { pools_of(history) };
    if pools.is_empty() {
        return;
    }
    let graphs = graph_pools(history, |id| pools[id]);
    let mut retained = retained(history, suspects).into_iter();
    suspects.retain(|suspect| {
        let kept = retained.next().unwrap_or_default().into_iter();
        let of_graphs = kept.filter(|&id| pools[id].is_some_and(|pool| graphs.contains(&pool)));
        of_graphs.map(|id| history.allocations[id].size).sum::<u64>() < suspect.kept_bytes.div_ceil(2)
    });
}

/// Drops the suspects whose retained blocks were all made in fewer than [`FEWEST_PASSES`] passes.
pub(crate) fn drop_made_once(
    history: &History,
    categories: &AllocationCategories,
    suspects: &mut Vec<LeakSuspect>,
) {
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
