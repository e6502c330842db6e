//! What changed between two recordings of the same program, at a moment of each: what they hold, and what made the difference.

mod marks;
mod rows;
mod rules;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use vramscope_trace::{Action, Category, StackId, TorchSettings, Trace};

use crate::amount::Amount;
use crate::both::{Both, Side};
use crate::counters::{Counters, Peaks};
use crate::fragmentation::{Fragmentation, largest_request};
use crate::frames::Frames;
use crate::history::{History, Quality};
use crate::layout::Layout;
use crate::moment::Moment;
use crate::places::Place;
use crate::purposes::Purposes;
pub use marks::{FEATURES, Feature};
use rows::{Evidence, SideAt};
pub use rules::{Cause, RULES, Rule};

/// What changed from one recording of a device to another.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The moments that are compared: without another choice the peaks of allocated bytes.
    pub moments: Both<Moment>,
    /// Bytes of each kind at these moments.
    pub counters: Both<Counters>,
    /// The highest value of each counter.
    pub peaks: Both<Peaks>,
    /// What made the difference, most telling first.
    pub findings: Vec<Finding>,
    /// What the allocated bytes were for, most bytes of difference first; empty where one of the two does not tell.
    pub categories: Vec<CategoryDifference>,
    /// Who held the allocated bytes by line, most bytes of difference first, and those without a difference last.
    pub lines: Vec<LineDifference>,
    /// Who held the allocated bytes by stack, in the same order.
    pub stacks: Vec<StackDifference>,
    /// Fragmentation at the moments; `None` where no request is known to tell it for.
    pub fragmentation: Both<Option<Fragmentation>>,
    /// How often a request failed.
    pub ooms: Both<usize>,
    /// How far the numbers can be trusted.
    pub quality: Both<Quality>,
}

/// One thing that changed, and how much it is of the difference.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Why, or at least where.
    pub cause: Cause,
    /// What it holds of the allocated bytes at the moments that are compared; of [`Cause::Unused`] the bytes that are
    /// reserved and not allocated at the peaks of reserved bytes.
    pub held: Both<Amount>,
    /// What of it each category holds, most bytes of difference first; empty where one of the recordings does not tell.
    pub categories: Vec<CategoryDifference>,
    /// The lines of it that differ, most first.
    pub lines: Vec<LineDifference>,
    /// It is more than one percent of all that differs.
    pub counts: bool,
}

impl Finding {
    /// Bytes by which the second recording holds more.
    pub fn difference(&self) -> i64 {
        self.held.map(|held| held.bytes).difference()
    }
}

/// What a category holds.
#[derive(Debug, Clone, Copy)]
pub struct CategoryDifference {
    /// What it is for.
    pub category: Category,
    /// The allocated bytes at the moments that are compared.
    pub held: Both<Amount>,
}

/// What a line of code holds.
#[derive(Debug, Clone, Copy)]
pub struct LineDifference {
    /// The line, or the function where its lines are not where they were, in each recording that has it.
    pub places: Both<Option<Place>>,
    /// It was live before recording began, and only its free was recorded: the place is where that was.
    pub freed_there: bool,
    /// What it holds at the moments that are compared.
    pub held: Both<Amount>,
    /// What it allocated in the whole recording.
    pub made: Both<Amount>,
    /// The recording that alone has it, at whatever moment.
    pub only_in: Option<Side>,
}

impl LineDifference {
    /// The recording to name it in: the second, where it is there.
    pub fn side(&self) -> Side {
        if self.places.b.is_some() { Side::B } else { Side::A }
    }

    /// Where it is, in the recording of [`side`](Self::side).
    pub fn place(&self) -> Place {
        self.places.b.or(self.places.a).unwrap_or(Place::NoStack)
    }
}

/// What a stack holds.
#[derive(Debug, Clone, Copy)]
pub struct StackDifference {
    /// The stack in each recording that has it, or one of those that differ in compiled code alone; `None` also of what has no stack.
    pub stacks: Both<Option<StackId>>,
    /// What it is for, where both recordings tell.
    pub category: Option<Category>,
    /// It was live before recording began, and only its free was recorded: the stack is the free's.
    pub freed_there: bool,
    /// What it holds at the moments that are compared.
    pub held: Both<Amount>,
    /// What it allocated in the whole recording.
    pub made: Both<Amount>,
}

/// A device of one recording, to be compared with that of another.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'h> {
    /// The device.
    pub history: &'h History,
    /// Whose code the frames of its recording are.
    pub frames: &'h Frames,
    /// The moment to look at; `None` is the peak of allocated bytes.
    pub at: Option<Moment>,
}

/// Of the bytes that differ, the part below which something is of no account, one in so many.
const OF_NO_ACCOUNT: u64 = 100;

impl Difference {
    /// Compares a device in two recordings.
    pub fn of(compared: Both<Compared<'_>>) -> Self {
        let peaks = compared.map(|of| of.history.peaks());
        let moment = |side: Side| compared.of(side).at.unwrap_or(peaks.of(side).allocated.moment);
        let moments = Both { a: moment(Side::A), b: moment(Side::B) };
        let purposes = compared.map(|of| Purposes::of(of.history));
        let at = |side: Side| {
            let Compared { history, frames, .. } = *compared.of(side);
            SideAt { history, frames, purposes: purposes.of(side), moment: *moments.of(side) }
        };
        let evidence = Evidence::of(Both { a: at(Side::A), b: at(Side::B) });
        let all: Vec<usize> = (0..evidence.rows.len()).collect();
        let layout = |side: Side| Layout::at(compared.of(side).history, *moments.of(side));
        let layouts = Both { a: layout(Side::A), b: layout(Side::B) };
        let fragmentation = |side: Side| {
            let history = compared.of(side).history;
            Some(Fragmentation::in_layout(history, layouts.of(side), largest_request(history)?))
        };
        let unused = |side: Side| {
            let peak = peaks.of(side).reserved;
            let allocated = compared.of(side).history.counters_at(peak.moment).allocated;
            Amount { bytes: peak.bytes.saturating_sub(allocated), ..Amount::default() }
        };
        Self {
            moments,
            counters: layouts.map(Layout::counters),
            findings: findings(&evidence, Both { a: unused(Side::A), b: unused(Side::B) }),
            categories: categories(&evidence, &all),
            lines: lines(&evidence, all.iter().copied()),
            stacks: stacks(&evidence),
            fragmentation: Both { a: fragmentation(Side::A), b: fragmentation(Side::B) },
            ooms: compared
                .map(|of| of.history.device().events.actions().iter().filter(|&&a| a == Action::Oom).count()),
            quality: compared.map(|of| of.history.quality),
            peaks,
        }
    }
}

/// What the rules find, in order: what explains comes before what only tells where, each by how much it changed; what is of no
/// account comes last.
fn findings(evidence: &Evidence, unused: Both<Amount>) -> Vec<Finding> {
    let whole: u64 =
        evidence.rows.iter().map(|row| row.difference().unsigned_abs()).fold(0, u64::saturating_add);
    let counts = |held: Both<Amount>| {
        let bytes = held.a.bytes.abs_diff(held.b.bytes);
        bytes > 0 && bytes >= whole / OF_NO_ACCOUNT
    };
    let by_rules = rules::ask(evidence).into_iter().map(|found| {
        let held = evidence.held(found.rows.iter().copied());
        let categories = categories(evidence, &found.rows);
        let differing = found.rows.into_iter().filter(|&row| evidence.rows[row].difference() != 0);
        Finding {
            cause: found.cause,
            held,
            categories,
            lines: lines(evidence, differing),
            counts: counts(held),
        }
    });
    let of_segments = (unused.a.bytes != unused.b.bytes).then(|| Finding {
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
        (!of.counts, !cause.explains(), !cause.has_consequences(), Reverse(bytes))
    });
    all
}

fn categories(evidence: &Evidence, rows: &[usize]) -> Vec<CategoryDifference> {
    if !evidence.has_categories {
        return Vec::new();
    }
    let of = |category: Category| {
        let rows = rows.iter().copied().filter(|&row| evidence.rows[row].category == Some(category));
        CategoryDifference { category, held: evidence.held(rows) }
    };
    let mut all: Vec<CategoryDifference> = Category::ALL.map(of).into_iter().collect();
    all.retain(|of| of.held.a.count + of.held.b.count > 0);
    all.sort_by_key(|of| by_difference(of.held));
    all
}

/// Those that differ most come first; of those that do not those that hold most.
fn by_difference(held: Both<Amount>) -> Reverse<(u64, u64)> {
    Reverse((held.a.bytes.abs_diff(held.b.bytes), held.b.bytes))
}

/// The lines of some rows.
fn lines(evidence: &Evidence, rows: impl Iterator<Item = usize>) -> Vec<LineDifference> {
    let mut lines: BTreeMap<_, LineDifference> = BTreeMap::new();
    for row in rows.map(|row| &evidence.rows[row]) {
        let place = |side: Side| match row.line {
            Some(line) => evidence.places.get(line).in_recording(side),
            None => Some(Place::NoStack),
        };
        let line = lines.entry((row.line, row.freed_there)).or_insert_with(|| LineDifference {
            places: Both { a: place(Side::A), b: place(Side::B) },
            freed_there: row.freed_there,
            held: Both::default(),
            made: Both::default(),
            only_in: evidence.lines.get(&(row.line, row.freed_there)).and_then(only),
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

/// One of the two alone.
fn only(has: &Both<bool>) -> Option<Side> {
    match (has.a, has.b) {
        (true, false) => Some(Side::A),
        (false, true) => Some(Side::B),
        _ => None,
    }
}

fn stacks(evidence: &Evidence) -> Vec<StackDifference> {
    let mut stacks: Vec<StackDifference> = evidence
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

/// A setting of the allocator that two recordings were made with differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// Its key in `PYTORCH_CUDA_ALLOC_CONF`.
    pub key: String,
    /// Its value there; `None` where nothing says it.
    pub values: Both<Option<String>>,
}

/// The settings of the allocator that differ. What one recording leaves out and nobody has set there is not known, and does not
/// count.
pub fn changed_settings(traces: Both<&Trace>) -> Vec<SettingDifference> {
    let settings = traces.map(|trace| trace.settings.clone().unwrap_or_default());
    let in_conf = |settings: &TorchSettings| -> BTreeMap<String, String> {
        settings.in_conf().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let values = settings.map(|settings| in_conf(&settings.in_force()));
    let set = settings.map(|settings| in_conf(&settings.conf));
    let keys: BTreeSet<&String> = values.a.keys().chain(values.b.keys()).collect();
    let differs = |key: &&String| match (values.a.get(*key), values.b.get(*key)) {
        (Some(a), Some(b)) => a != b,
        _ => set.a.contains_key(*key) || set.b.contains_key(*key),
    };
    let value = |side: Side, key: &String| values.of(side).get(key).cloned();
    let difference = |key: &String| SettingDifference {
        key: key.clone(),
        values: Both { a: value(Side::A, key), b: value(Side::B, key) },
    };
    keys.into_iter().filter(differs).map(difference).collect()
}
