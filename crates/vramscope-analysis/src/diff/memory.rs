//! The difference in memory between two recordings of the same program, at one moment of each, and its causes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vramscope_trace::{Action, Category, StackId};

use super::code_places::CodePlace;
use super::rows::{SideAt, StackComparison};
use super::rules::{self, Cause};
use crate::basics::{Both, Side};
use crate::categories::AllocationCategories;
use crate::findings::{Fragmentation, largest_request};
use crate::groups::Amount;
use crate::history::{Counters, History, Layout, Moment, Peaks, Quality, is_growth};
use crate::stacks::Frames;
use crate::steps::Step;

/// The difference between two recordings of a device.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The compared moments; by default the peaks of allocated bytes.
    pub moments: Both<Moment>,
    /// Bytes of each kind at these moments.
    pub counters: Both<Counters>,
    /// The peak of each counter.
    pub peaks: Both<Peaks>,
    /// The causes of the difference, most significant first.
    pub findings: Vec<Finding>,
    /// Allocated bytes by category, largest difference first; empty if either recording lacks categories.
    pub categories: Vec<CategoryDifference>,
    /// Allocated bytes by line, largest difference first. Lines without a difference come last.
    pub lines: Vec<LineDifference>,
    /// Allocated bytes by stack, in the same order.
    pub stacks: Vec<StackDifference>,
    /// Fragmentation at the moments; `None` if the recording has no request to compute it for.
    pub fragmentation: Both<Option<Fragmentation>>,
    /// Number of failed requests.
    pub ooms: Both<usize>,
    /// How accurate the numbers are.
    pub quality: Both<Quality>,
}

/// One change, and its share of the difference.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The cause, or at least the location, of the change.
    pub cause: Cause,
    /// The allocated bytes of this change at the compared moments. For [`Cause::Unused`]: reserved bytes that are not allocated,
    /// at the peaks of reserved bytes.
    pub held: Both<Amount>,
    /// These bytes by category, largest difference first; empty if either recording lacks categories.
    pub categories: Vec<CategoryDifference>,
    /// The lines that differ, largest difference first.
    pub lines: Vec<LineDifference>,
    /// Whether the change is at least one percent of the whole difference.
    pub counts: bool,
}

impl Finding {
    /// Returns the bytes by which the second recording holds more.
    pub fn difference(&self) -> i64 {
        self.held.map(|held| held.bytes).difference()
    }
}

/// The bytes of one category.
#[derive(Debug, Clone, Copy)]
pub struct CategoryDifference {
    /// The category.
    pub category: Category,
    /// Allocated bytes at the compared moments.
    pub held: Both<Amount>,
}

/// The bytes of one line of code.
#[derive(Debug, Clone, Copy)]
pub struct LineDifference {
    /// The line in each recording that has it. If an edit moved the function's lines, the whole function instead.
    pub places: Both<Option<CodePlace>>,
    /// The memory was live before recording began, and only its free was recorded: the place is where it was freed.
    pub freed_there: bool,
    /// Allocated bytes at the compared moments.
    pub held: Both<Amount>,
    /// Bytes allocated in the whole recording.
    pub made: Both<Amount>,
    /// The recording that has the line, if only one of them has it at all.
    pub only_in: Option<Side>,
}

impl LineDifference {
    /// Returns the recording to name the line in: the second if it has the line, else the first.
    pub fn side(&self) -> Side {
        if self.places.b.is_some() { Side::B } else { Side::A }
    }

    /// Returns the place in the recording given by [`side`](Self::side).
    pub fn place(&self) -> CodePlace {
        self.places.b.or(self.places.a).unwrap_or(CodePlace::NoStack)
    }
}

/// The bytes of one stack.
#[derive(Debug, Clone, Copy)]
pub struct StackDifference {
    /// The stack in each recording that has it; if several differ only in compiled code, one of them. Also `None` for allocations
    /// without a stack.
    pub stacks: Both<Option<StackId>>,
    /// The category, if both recordings have categories.
    pub category: Option<Category>,
    /// The memory was live before recording began, and only its free was recorded: the stack is that of the free.
    pub freed_there: bool,
    /// Allocated bytes at the compared moments.
    pub held: Both<Amount>,
    /// Bytes allocated in the whole recording.
    pub made: Both<Amount>,
}

/// A device of a recording.
#[derive(Debug, Clone, Copy)]
pub struct DeviceHistory<'h> {
    /// The device's history.
    pub history: &'h History,
    /// The classification of the recording's frames.
    pub frames: &'h Frames,
}

/// A part of a recording that is compared with a part of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedPart {
    /// The moment at which live memory is compared.
    pub at: Moment,
    /// The first moment of the part.
    pub from: Moment,
    /// The last moment of the part.
    pub to: Moment,
}

impl From<&Step> for ComparedPart {
    fn from(step: &Step) -> Self {
        Self { at: step.bytes.peak_moment, from: step.from, to: step.to }
    }
}

/// A change below this fraction (one in this many) of all differing bytes does not count.
const OF_NO_ACCOUNT: u64 = 100;

impl Difference {
    /// Compares a device in two recordings, each at one moment; `None` is the peak of allocated bytes.
    pub fn of(compared: Both<DeviceHistory<'_>>, at: Both<Option<Moment>>) -> Self {
        let peaks = compared.map(|of| of.history.peaks());
        let moment = |side: Side| at.of(side).unwrap_or(peaks.of(side).allocated.moment);
        let moments = Both { a: moment(Side::A), b: moment(Side::B) };
        let of_allocations = compared.map(|of| AllocationCategories::of(of.history));
        let at = |side: Side| {
            let DeviceHistory { history, frames } = *compared.of(side);
            SideAt { history, frames, categories: of_allocations.of(side), moment: *moments.of(side) }
        };
        let comparison = StackComparison::of(Both { a: at(Side::A), b: at(Side::B) });
        let all: Vec<usize> = (0..comparison.rows.len()).collect();
        let layout = |side: Side| Layout::at(compared.of(side).history, *moments.of(side));
        let layouts = Both { a: layout(Side::A), b: layout(Side::B) };
        let fragmentation = |side: Side| {
            let history = compared.of(side).history;
            Some(Fragmentation::in_layout(history, layouts.of(side), largest_request(history)?))
        };
        // Both peaks belong to the whole run; at one moment, a cache that was filled before says nothing.
        let unused = |side: Side| {
            let Peaks { reserved, allocated, .. } = peaks.of(side);
            Amount { bytes: reserved.bytes.saturating_sub(allocated.bytes), ..Amount::default() }
        };
        // A recording that begins after a warm-up does not show why memory is reserved.
        let reserves =
            |side: Side| compared.of(side).history.device().events.actions().iter().any(|&a| is_growth(a));
        let is_known = reserves(Side::A) && reserves(Side::B);
        Self {
            moments,
            counters: layouts.map(Layout::counters),
            findings: findings(
                &comparison,
                is_known.then(|| Both { a: unused(Side::A), b: unused(Side::B) }),
            ),
            categories: categories(&comparison, &all),
            lines: lines(&comparison, all.iter().copied()),
            stacks: stacks(&comparison),
            fragmentation: Both { a: fragmentation(Side::A), b: fragmentation(Side::B) },
            ooms: compared
                .map(|of| of.history.device().events.actions().iter().filter(|&&a| a == Action::Oom).count()),
            quality: compared.map(|of| of.history.quality),
            peaks,
        }
    }
}

impl Difference {
    /// Whether the peaks of allocated bytes are compared, and not other moments.
    pub fn is_at_peaks(&self) -> bool {
        Side::BOTH.iter().all(|&side| *self.moments.of(side) == self.peaks.of(side).allocated.moment)
    }
}

/// Returns the findings of all rules. Findings that count come first; among them those that explain the change, then those that
/// have consequences, then the largest differences.
fn findings(comparison: &StackComparison, unused: Option<Both<Amount>>) -> Vec<Finding> {
    let whole: u64 =
        comparison.rows.iter().map(|row| row.difference().unsigned_abs()).fold(0, u64::saturating_add);
    let counts = |held: Both<Amount>| {
        let bytes = held.a.bytes.abs_diff(held.b.bytes);
        bytes > 0 && bytes >= whole / OF_NO_ACCOUNT
    };
    let by_rules = rules::ask(comparison).into_iter().map(|found| {
        let held = comparison.held(found.rows.iter().copied());
        let categories = categories(comparison, &found.rows);
        let differing = found.rows.into_iter().filter(|&row| comparison.rows[row].difference() != 0);
        Finding {
            cause: found.cause,
            held,
            categories,
            lines: lines(comparison, differing),
            counts: counts(held),
        }
    });
    let of_segments = unused.filter(|unused| unused.a.bytes != unused.b.bytes).map(|unused| Finding {
        cause: Cause::Unused,
        held: unused,
        categories: Vec::new(),
        lines: Vec::new(),
        counts: counts(unused),
    });
    let mut all: Vec<Finding> = by_rules.chain(of_segments).collect();
    all.sort_by_key(|of| {
        let cause = &of.cause;
        let bytes = of.difference().unsigned_abs();
        // Reserved bytes that differ more than all allocated ones come first.
        let leads = *cause == Cause::Unused && bytes > whole;
        (!leads, !of.counts, !cause.explains(), !cause.has_consequences(), Reverse(bytes))
    });
    all
}

fn categories(comparison: &StackComparison, rows: &[usize]) -> Vec<CategoryDifference> {
    if !comparison.has_categories {
        return Vec::new();
    }
    let of = |category: Category| {
        let rows = rows.iter().copied().filter(|&row| comparison.rows[row].category == Some(category));
        CategoryDifference { category, held: comparison.held(rows) }
    };
    let mut all: Vec<CategoryDifference> = Category::ALL.map(of).into_iter().collect();
    all.retain(|of| of.held.a.count + of.held.b.count > 0);
    all.sort_by_key(|of| by_difference(of.held));
    all
}

/// Sort key: the largest difference first, then the most bytes.
fn by_difference(held: Both<Amount>) -> Reverse<(u64, u64)> {
    Reverse((held.a.bytes.abs_diff(held.b.bytes), held.b.bytes))
}

/// Sums the given rows by line.
fn lines(comparison: &StackComparison, rows: impl Iterator<Item = usize>) -> Vec<LineDifference> {
    let mut lines: BTreeMap<_, LineDifference> = BTreeMap::new();
    for row in rows.map(|row| &comparison.rows[row]) {
        let place = |side: Side| match row.line {
            Some(line) => comparison.places.get(line).in_recording(side),
            None => Some(CodePlace::NoStack),
        };
        let line = lines.entry((row.line, row.freed_there)).or_insert_with(|| LineDifference {
            places: Both { a: place(Side::A), b: place(Side::B) },
            freed_there: row.freed_there,
            held: Both::default(),
            made: Both::default(),
            only_in: comparison.lines.get(&(row.line, row.freed_there)).and_then(Both::only),
        });
        for side in Side::BOTH {
            line.held.of_mut(side).add(*row.held.of(side));
            line.made.of_mut(side).add(*row.made.of(side));
        }
    }
    let mut lines: Vec<LineDifference> = lines.into_values().collect();
    lines.sort_by_key(|line| by_difference(line.held));
    lines
}

fn stacks(comparison: &StackComparison) -> Vec<StackDifference> {
    let mut stacks: Vec<StackDifference> = comparison
        .rows
        .iter()
        .map(|row| StackDifference {
            stacks: row.stacks,
            category: row.category,
            freed_there: row.freed_there,
            held: row.held,
            made: row.made,
        })
        .collect();
    stacks.sort_by_key(|stack| by_difference(stack.held));
    stacks
}
