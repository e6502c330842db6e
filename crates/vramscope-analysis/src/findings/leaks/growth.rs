//! The growth of each stack: when the lowest number of its live bytes rose, seen from the end of the run.

use vramscope_basics::count_steps;
use vramscope_trace::{Action, StackId};

use super::WINDOWS;
use crate::history::{History, Moment};

/// The allocations of one stack that has live blocks at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    live: u64,
    live_bytes: u64,
    /// The fewest live bytes from the current moment to the end.
    floor_bytes: u64,
    /// Bytes that are live at the end.
    end_bytes: u64,
    /// The most live bytes before the floor rose above a tenth of those at the end.
    highest_before: u64,
    /// The fewest live allocations in each window.
    pub(crate) lowest: [u64; WINDOWS],
    /// Number of allocations.
    pub(crate) allocations: u64,
    /// Number of allocations that are live at the end, and their bytes by the window in which they were made.
    pub(crate) kept: u64,
    pub(crate) kept_in: [u64; WINDOWS],
    /// The rises of the floor.
    rises: Vec<Rise>,
    /// The calls at which the fewest live allocations rise.
    rises_of_number: Vec<u32>,
    /// The fewest live allocations from the current moment to the end.
    floor: u64,
    /// The number of its last allocation among all of the device.
    last_call: u32,
}

/// A rise of a floor.
#[derive(Debug, Clone, Copy)]
struct Rise {
    /// The number of the allocation among all of the device, and among those of its stack.
    allocation: u32,
    call: u32,
    bytes: u64,
}

/// A burst of rises with no other work in between: what one repetition of the program retains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repetition {
    /// The number of its first and its last allocation among all of the device.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The call of its stack that ends it.
    last_call: u32,
}

/// The number of a stack's allocations, and the first and the last one among all of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) count: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The growth of all stacks of a device.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// The stacks with live blocks at the end.
    pub(crate) courses: Vec<(StackId, Course)>,
    /// When each stack was seen, by its index; `None` for stacks without allocations.
    pub(crate) seen: Vec<Option<Seen>>,
    /// Number of allocations up to the end, and of those that were freed by then.
    pub(crate) allocations: u32,
    pub(crate) freed: u32,
}

const NONE: u32 = u32::MAX;

/// The fewest stacks that are examined, most bytes first, if there are as many. Each is compared with all stacks; more are examined if the
/// comparisons are fewer than four times the events.
const FEWEST_EXAMINED: usize = 40;

impl Growth {
    /// Returns the number of stacks that are compared with all others.
    pub(crate) fn most_examined(&self, end: Moment) -> usize {
        (end.index() * 4 / self.seen.len().max(1)).max(FEWEST_EXAMINED)
    }

    /// Walks the run back from `end`: a floor is the lowest value from a moment to the end.
    pub(crate) fn of(history: &History, end: Moment) -> Self {
        let stacks = history.trace().stacks.len();
        let mut number = vec![NONE; stacks];
        let mut courses: Vec<(StackId, Course)> = Vec::new();
        for a in history.recorded().filter(|a| a.from <= end && a.to > end) {
            let Some(stack) = history.stack_of(a) else { continue };
            let number = &mut number[stack.index()];
            if *number == NONE {
                *number = courses.len() as u32;
                courses.push((stack, Course::default()));
            }
            let course = &mut courses[*number as usize].1;
            course.live += 1;
            course.live_bytes += a.size;
            course.kept += 1;
        }
        for (_, course) in &mut courses {
            course.floor_bytes = course.live_bytes;
            course.end_bytes = course.live_bytes;
            course.lowest[WINDOWS - 1] = course.live;
            course.floor = course.live;
        }
        let mut seen: Vec<Option<Seen>> = vec![None; stacks];
        let actions = history.device().events.actions();
        let events = end.index();
        let total = actions[..events].iter().filter(|&&action| action == Action::Alloc).count() as u32;
        let mut allocation = total;
        let (mut window, mut freed) = (WINDOWS - 1, 0);
        history.each_changing_back(end, |moment, a| {
            let Some(stack) = history.stack_of(a).filter(|_| !a.is_preexisting()) else { return };
            let now = moment.event().map_or(0, |event| event * WINDOWS / events.max(1));
            while window > now {
                window -= 1;
                for (_, course) in &mut courses {
                    course.lowest[window] = course.live;
                }
            }
            let mut course = courses.get_mut(number[stack.index()] as usize).map(|(_, course)| course);
            if a.to == moment
                && let Some(course) = &mut course
            {
                course.live += 1;
                course.live_bytes += a.size;
                if course.floor_bytes <= course.end_bytes / 10 {
                    course.highest_before = course.highest_before.max(course.live_bytes);
                }
            }
            if a.from != moment {
                return;
            }
            allocation = allocation.saturating_sub(1);
            freed += u32::from(a.to <= end);
            let seen =
                seen[stack.index()].get_or_insert(Seen { count: 0, first: allocation, last: allocation });
            seen.first = allocation;
            seen.count += 1;
            if let Some(course) = course {
                course.before(allocation, a.size, a.to > end, window);
            }
        });
        while window > 0 {
            window -= 1;
            courses.iter_mut().for_each(|(_, course)| course.lowest[window] = course.live);
        }
        for (_, course) in &mut courses {
            course.rises.reverse();
            for rise in &mut course.rises {
                rise.call = course.allocations as u32 - rise.call;
            }
            for call in &mut course.rises_of_number {
                *call = course.allocations as u32 - *call;
            }
        }
        count_steps(events);
        Self { courses, seen, allocations: total, freed }
    }
}

impl Course {
    /// Goes back to the moment before an allocation.
    fn before(&mut self, allocation: u32, size: u64, is_kept: bool, window: usize) {
        if self.allocations == 0 {
            self.last_call = allocation;
        }
        self.live = self.live.saturating_sub(1);
        self.live_bytes = self.live_bytes.saturating_sub(size);
        self.allocations += 1;
        self.kept_in[window] += if is_kept { size } else { 0 };
        self.lowest[window] = self.lowest[window].min(self.live);
        if self.live < self.floor {
            self.floor = self.live;
            self.rises_of_number.push(self.allocations as u32);
        }
        if self.live_bytes < self.floor_bytes {
            let bytes = self.floor_bytes - self.live_bytes;
            self.floor_bytes = self.live_bytes;
            // Counted from the end until the number of all calls is known.
            self.rises.push(Rise { allocation, call: self.allocations as u32, bytes });
        }
    }

    /// Bytes that are live at the end.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// The fewest live allocations from the start of each window to the end.
    pub(crate) fn floor(&self) -> [u64; WINDOWS] {
        let mut floor = self.lowest;
        for i in (0..WINDOWS - 1).rev() {
            floor[i] = floor[i].min(floor[i + 1]);
        }
        floor
    }

    /// The rises as repetitions: rises with no other allocation in between are one, and so are bursts of rises that are close
    /// together if the bursts are far apart.
    pub(crate) fn repetitions(&self) -> Vec<Repetition> {
        let mut all: Vec<Repetition> = Vec::new();
        for &Rise { allocation, call, .. } in &self.rises {
            match all.last_mut() {
                Some(last) if last.last + 1 == allocation => {
                    (last.last, last.last_call) = (allocation, call);
                }
                _ => all.push(Repetition { first: allocation, last: allocation, last_call: call }),
            }
        }
        let Some(burst) = longest_gap_within_bursts(&all) else { return all };
        let mut merged: Vec<Repetition> = Vec::new();
        for one in all {
            match merged.last_mut() {
                Some(last) if one.first - last.last <= burst => {
                    (last.last, last.last_call) = (one.last, one.last_call);
                }
                _ => merged.push(one),
            }
        }
        merged
    }

    /// Every rise as a repetition of its own.
    pub(crate) fn single_rises(&self) -> Vec<Repetition> {
        let one = |&Rise { allocation, call, .. }: &Rise| Repetition {
            first: allocation,
            last: allocation,
            last_call: call,
        };
        self.rises.iter().map(one).collect()
    }

    /// The median of the rises, if each replaces the block before by a larger one; else `None`.
    pub(crate) fn growth_of_replaced_block(&self) -> Option<u64> {
        let mut rises: Vec<u64> = self.rises.iter().map(|rise| rise.bytes).collect();
        rises.sort_unstable();
        rises.get(rises.len() / 2).copied().filter(|_| self.kept * 2 < self.rises.len() as u64)
    }

    /// Whether the rises are of a few sizes that come again and again.
    pub(crate) fn rises_by_equal_sizes(&self) -> bool {
        let mut sizes: Vec<u64> = self.rises.iter().map(|rise| rise.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.len() * 3 <= self.rises.len()
    }

    /// Whether the floor still rises when the run ends, as judged by the last calls of the stack; see the module's documentation.
    /// `goes_on` says whether the loop of the repetitions goes on after an allocation.
    pub(crate) fn grows_to_the_end(
        &self,
        repetitions: &[Repetition],
        allocations: u32,
        goes_on: impl FnOnce(u32) -> bool,
    ) -> bool {
        let [first, .., last] = repetitions else { return false };
        // Live bytes that were as high before and fell to zero come and go in cycles.
        if self.highest_before >= self.kept_bytes().div_ceil(2) {
            return false;
        }
        let first_call = self.rises.first().map_or(0, |rise| rise.call);
        let calls = self.allocations as u32 - first_call;
        // A block that is replaced by a larger one each time grows only if nearly every time is a rise.
        if self.kept * 2 < repetitions.len() as u64 && (self.rises.len() as u64) * 10 < u64::from(calls) * 8 {
            return false;
        }
        let since_last = self.allocations as u32 - 1 - last.last_call;
        if u64::from(since_last) * repetitions.len() as u64 > u64::from(calls.max(1)) * 2 {
            return false;
        }
        // The second half of the calls must add at least half of what the first half adds after its beginning.
        let risen = |from: u32, to: u32| -> u64 {
            let within = self.rises.iter().filter(|r| r.call >= from && r.call < to);
            within.map(|r| r.bytes).sum()
        };
        let at = |tenths: u32| first_call + (u64::from(calls) * u64::from(tenths) / 10) as u32;
        let (early, late) = (risen(at(1), at(5)), risen(at(5), u32::MAX));
        if late.saturating_mul(2) < early {
            return false;
        }
        // The bytes of a live set of constant size and changing blocks rise near the end, where few moments are left; their number does not.
        let late = self.rises_of_number.iter().filter(|&&call| call >= at(5)).count();
        if self.kept * 2 >= repetitions.len() as u64 && late * 4 < self.rises_of_number.len() {
            return false;
        }
        // If calls ended long before the run, but their loop went on, a cache is full. If the loop ended, growth must have taken most of
        // the run, and be made of real work.
        let gaps = (last.first - first.first) / (repetitions.len() as u32 - 1);
        let after = allocations.saturating_sub(self.last_call + 1);
        let span = self.last_call.saturating_sub(first.first);
        let is_stopped = after > gaps.saturating_mul(2);
        !is_stopped
            || (span >= after && gaps >= LEAST_WORK && !goes_on(self.last_call + gaps.saturating_mul(2)))
    }
}

/// The fewest allocations from repetition to repetition that count as work of the program, if nothing else shows it.
pub(crate) const LEAST_WORK: u32 = 8;

/// Bursts have at most this many allocations between their rises, and bursts are this many times as far apart.
const BURST: u32 = 16;
const APART: u32 = 8;

/// Returns the longest gap within bursts; `None` if the rises do not come in at least three bursts.
fn longest_gap_within_bursts(all: &[Repetition]) -> Option<u32> {
    let mut gaps: Vec<u32> = all.array_windows().map(|[a, b]| b.first - a.last).collect();
    gaps.sort_unstable();
    let border = gaps.array_windows().position(|[a, b]| *a <= BURST && b / APART >= *a)?;
    (gaps.len() - border > 2).then(|| gaps[border])
}
