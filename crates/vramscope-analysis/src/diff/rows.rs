//! The memory of two recordings at one moment of each, stack by stack.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use vramscope_trace::{Category, FrameId, StackId};

use super::code_places::{CodePlaces, Coded, PlaceId};
use super::features::{Reader, StackMarks};
use crate::basics::{Both, Side};
use crate::categories::AllocationCategories;
use crate::findings::{LeakSuspect, leak_suspects};
use crate::groups::Amount;
use crate::history::{History, Moment, Origin, RecordedAllocation};
use crate::stacks::Frames;

/// Allocations of one stack in two recordings; also of one category, if both recordings have categories.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Index into [`StackComparison::stacks`].
    pub(super) stack: usize,
    /// One of the stack ids in each recording that this row consists of.
    pub(super) stacks: Both<Option<StackId>>,
    /// The line that names the row.
    pub(super) line: Option<PlaceId>,
    /// The memory was live before recording began, and only its frees were recorded: the stack is that of the frees.
    pub(super) freed_there: bool,
    pub(super) category: Option<Category>,
    /// Allocated at the compared moments.
    pub(super) held: Both<Amount>,
    /// Allocated in the whole recording.
    pub(super) made: Both<Amount>,
    /// Part of `held` that lives through at least half of the recording.
    pub(super) kept: Both<u64>,
    /// Requested sizes of the allocations.
    pub(super) sizes: Both<Sizes>,
}

/// The distinct sizes, in bytes. Beyond a limit, no more are added.
#[derive(Debug, Clone, Default)]
pub(super) struct Sizes(BTreeSet<u64>);

impl Sizes {
    /// Most places in real programs request only a few sizes.
    const MOST: usize = 64;

    fn add(&mut self, size: u64) {
        if self.0.len() <= Self::MOST {
            self.0.insert(size);
        }
    }

    fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|&size| self.add(size));
    }

    /// Returns the known sizes.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// Returns all sizes if the limit was not exceeded.
    fn all(&self) -> Option<&BTreeSet<u64>> {
        (self.0.len() <= Self::MOST).then_some(&self.0)
    }
}

/// Whether two factors are equal except for rounding.
pub(super) fn alike(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < 0.02
}

impl Row {
    fn new(stack: usize, line: Option<PlaceId>, freed_there: bool, category: Option<Category>) -> Self {
        let (stacks, held, made, kept, sizes) = Default::default();
        Self { stack, stacks, line, freed_there, category, held, made, kept, sizes }
    }

    /// Returns the bytes by which the second recording holds more.
    pub(super) fn difference(&self) -> i64 {
        self.held.map(|held| held.bytes).difference()
    }

    /// Returns the average size of an allocation in the second recording relative to the first, over the whole run; `None` if
    /// either recording has no allocations.
    pub(super) fn growth_of_each(&self) -> Option<f64> {
        let each = |side| self.made.of(side).each().or_else(|| self.held.of(side).each());
        match (each(Side::A)?, each(Side::B)?) {
            (a, b) if a > 0.0 && b > 0.0 => Some(b / a),
            _ => None,
        }
    }

    /// Whether some allocations are larger in the second recording by one of these factors, and all others have sizes that also
    /// occur in the first.
    pub(super) fn grows_in_part(&self, factors: &[f64]) -> bool {
        let (Some(a), Some(b)) = (self.sizes.a.all(), self.sizes.b.all()) else { return false };
        let is_larger = |&size: &u64| {
            let by = |&factor: &f64| a.iter().any(|&from| alike(size as f64 / from as f64, factor));
            factors.iter().any(by)
        };
        a != b && b.iter().all(|size| a.contains(size) || is_larger(size)) && b.iter().any(is_larger)
    }
}

/// One of the two recordings at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct SideAt<'h> {
    pub(super) history: &'h History,
    pub(super) frames: &'h Frames,
    pub(super) categories: &'h AllocationCategories,
    pub(super) moment: Moment,
}

impl<'h> SideAt<'h> {
    fn coded(&self) -> Coded<'h> {
        Coded { trace: self.history.trace(), frames: self.frames }
    }
}

/// The data about two recordings that the rules examine.
#[derive(Debug)]
pub(super) struct StackComparison {
    pub(super) rows: Vec<Row>,
    /// All distinct stacks, innermost place first; one of them is empty.
    pub(super) stacks: Vec<Vec<PlaceId>>,
    /// The marks of each stack.
    pub(super) marks: Vec<StackMarks>,
    pub(super) places: CodePlaces,
    /// Suspected leaks by line.
    pub(super) leaks: Both<Vec<(PlaceId, LeakSuspect)>>,
    /// The recordings in which each line, or place of a free, occurs at all.
    pub(super) lines: HashMap<(Option<PlaceId>, bool), Both<bool>>,
    /// Whether both recordings have categories.
    pub(super) has_categories: bool,
}

/// The key of the allocations of one recording that belong to one row.
type Key = (Option<StackId>, bool, Option<Category>);

impl StackComparison {
    pub(super) fn of(at: Both<SideAt<'_>>) -> Self {
        let has_categories = Side::BOTH.iter().all(|&side| tells_categories(at.of(side)));
        let sums = at.map(|at| sums(at, has_categories));
        let telling: Both<HashMap<StackId, Vec<FrameId>>> =
            Both { a: telling(&at.a, &sums.a), b: telling(&at.b, &sums.b) };
        let own = |side: Side, stack| at.of(side).frames.own_frame(at.of(side).history.trace(), stack);
        let used = |side: Side| {
            let frames = telling.of(side).iter();
            let mut frames: Vec<FrameId> =
                frames.flat_map(|(&stack, frames)| frames.iter().copied().chain(own(side, stack))).collect();
            frames.sort_unstable();
            frames.dedup();
            frames
        };
        let places = CodePlaces::of(at.map(SideAt::coded), &Both { a: used(Side::A), b: used(Side::B) });
        let mut this = Self {
            rows: Vec::new(),
            stacks: Vec::new(),
            marks: Vec::new(),
            leaks: Both { a: suspects(&at.a, &places, Side::A), b: suspects(&at.b, &places, Side::B) },
            places,
            lines: HashMap::new(),
            has_categories,
        };
        let mut known: HashMap<Vec<PlaceId>, usize> = HashMap::new();
        let mut index: HashMap<(usize, Option<PlaceId>, bool, Option<Category>), usize> = HashMap::new();
        for side in Side::BOTH {
            for &((stack, freed_there, category), ref sum) in sums.of(side) {
                let frames = stack.and_then(|stack| telling.of(side).get(&stack));
                let frames = frames.into_iter().flatten();
                let key: Vec<PlaceId> = frames.filter_map(|&frame| this.places.place(side, frame)).collect();
                let number = *known.entry(key).or_insert_with_key(|key| {
                    this.stacks.push(key.clone());
                    this.stacks.len() - 1
                });
                let line = stack.and_then(|stack| own(side, stack));
                let line = line.and_then(|frame| this.places.place(side, frame));
                let row = *index.entry((number, line, freed_there, category)).or_insert_with(|| {
                    this.rows.push(Row::new(number, line, freed_there, category));
                    this.rows.len() - 1
                });
                *this.lines.entry((line, freed_there)).or_default().of_mut(side) = true;
                let row = &mut this.rows[row];
                let shown = row.stacks.of_mut(side);
                *shown = (*shown).max(stack);
                row.held.of_mut(side).add(sum.held);
                row.made.of_mut(side).add(sum.made);
                *row.kept.of_mut(side) += sum.kept;
                row.sizes.of_mut(side).add_all(&sum.sizes);
            }
        }
        let mut reader = Reader::of(&this.places);
        this.marks = this.stacks.iter().map(|stack| reader.read(stack)).collect();
        this
    }

    pub(super) fn marks(&self, row: &Row) -> &StackMarks {
        &self.marks[row.stack]
    }

    /// Returns the stack of a row, innermost place first.
    pub(super) fn stack(&self, row: &Row) -> &[PlaceId] {
        &self.stacks[row.stack]
    }

    /// Sums the held amounts of the given rows in each recording.
    pub(super) fn held(&self, rows: impl Iterator<Item = usize>) -> Both<Amount> {
        let mut sum = Both::<Amount>::default();
        for row in rows {
            for side in Side::BOTH {
                sum.of_mut(side).add(*self.rows[row].held.of(side));
            }
        }
        sum
    }
}

/// Whether most bytes at the moment have a known category.
fn tells_categories(at: &SideAt<'_>) -> bool {
    let held = || at.history.allocated_at(at.moment);
    let is_told = |allocation: &&RecordedAllocation| at.categories.category(allocation).is_told();
    let told: u64 = held().filter(is_told).map(|a| a.size).sum();
    let all: u64 = held().map(|a| a.size).sum();
    told > all / 2
}

/// Sums over allocations with the same key in one recording.
#[derive(Debug, Clone, Default)]
struct Sum {
    held: Amount,
    made: Amount,
    kept: u64,
    sizes: Sizes,
}

/// Returns all sums in a deterministic order.
fn sums(at: &SideAt<'_>, has_categories: bool) -> Vec<(Key, Sum)> {
    let mut sums: HashMap<Key, Sum> = HashMap::new();
    for allocation in &at.history.allocations {
        let RecordedAllocation { size: bytes, requested, .. } = *allocation;
        let stack = at.history.stack_of(allocation);
        let category = has_categories.then(|| at.categories.category(allocation));
        let sum = sums.entry((stack, allocation.origin == Origin::FreeOnly, category)).or_default();
        let amount = Amount { bytes, requested, count: 1 };
        sum.sizes.add(requested);
        if allocation.origin == Origin::Recorded {
            sum.made.add(amount);
        }
        if allocation.is_allocated_at(at.moment) {
            sum.held.add(amount);
            let life = allocation.freed.min(at.history.end()).index() - allocation.from.index();
            if life >= at.history.end().index().div_ceil(2) {
                sum.kept += bytes;
            }
        }
    }
    let mut sums: Vec<(Key, Sum)> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    sums
}

/// Returns the identifying frames of each stack.
fn telling(at: &SideAt<'_>, sums: &[(Key, Sum)]) -> HashMap<StackId, Vec<FrameId>> {
    sums.iter().filter_map(|&((stack, ..), _)| Some((stack?, at.coded().telling(stack?)))).collect()
}

/// Returns the suspected leaks of one recording, by place.
fn suspects(at: &SideAt<'_>, places: &CodePlaces, side: Side) -> Vec<(PlaceId, LeakSuspect)> {
    let suspects = leak_suspects(at.history, at.frames).into_iter();
    suspects.filter_map(|suspect| Some((places.place(side, suspect.line)?, suspect))).collect()
}
