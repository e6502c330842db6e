//! Rules that find the causes of a difference. Each rule knows one kind of change. It takes the stacks that the change explains
//! and leaves the others to the later rules.
//!
//! To add a rule, add its row to [`RULES`], with an example; a test checks the rule against it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use vramscope_basics::count_steps;
use vramscope_trace::Category;

use super::code_places::{CodePlace, PlaceId};
use super::features::{FEATURES, Feature};
use super::rows::{Row, StackComparison, alike};
use crate::basics::{Both, Side};
use crate::findings::LeakSuspect;
use crate::groups::Amount;

/// Why two recordings hold different amounts of memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The live allocations of some lines keep growing, with the evidence from each recording in which they do.
    Leak(Both<Vec<LeakSuspect>>),
    /// One recording repeats parts of the forward pass inside the backward pass: activation checkpointing.
    Recomputed {
        /// The recording that repeats them.
        by: Side,
    },
    /// The optimizers, or the state of the same optimizer, differ.
    Optimizer {
        /// One place of each optimizer's `step`.
        steps: Both<Vec<CodePlace>>,
    },
    /// Almost all long-lived allocations are larger by the same factor: the data types differ.
    Type {
        /// The size in the second recording relative to the first.
        factor: f64,
    },
    /// The parameters differ.
    Model {
        /// Bytes and number of the parameters.
        parameters: Both<Amount>,
    },
    /// Only one recording uses a feature, as its stacks show.
    Feature {
        /// The feature.
        feature: &'static Feature,
        /// The recording that uses it.
        by: Side,
    },
    /// Several stacks hold allocations that are larger by the same factor.
    Scaled {
        /// The size in the second recording relative to the first.
        factor: f64,
        /// Number of stacks whose allocations are larger by the factor or by its square.
        stacks: usize,
        /// Number of these stacks whose allocations are larger by the square.
        squared: usize,
        /// Whether each of these stacks holds the same number of allocations at both compared moments.
        same_count: bool,
        /// Bytes of long-lived allocations that are equally large in both recordings.
        same_kept: u64,
        /// Whether the parameters are known and equally large in both recordings.
        same_parameters: bool,
    },
    /// The same requests are served from larger or smaller blocks.
    Blocks,
    /// Several stacks hold more, or fewer, allocations of the same size.
    Repeated {
        /// Number of these stacks.
        stacks: usize,
    },
    /// The unused memory (reserved but not allocated) at the peaks of reserved bytes differs.
    Unused,
    /// No other rule applies: a category's bytes differ.
    Category(Category),
    /// No other rule applies: a line's bytes differ.
    Line,
}

impl Cause {
    /// The name of the rule that finds this cause.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Leak(_) => "leak",
            Self::Recomputed { .. } => "recomputed",
            Self::Optimizer { .. } => "optimizer",
            Self::Type { .. } => "type",
            Self::Model { .. } => "model",
            Self::Feature { .. } => "feature",
            Self::Scaled { .. } => "scaled",
            Self::Blocks => "blocks",
            Self::Repeated { .. } => "repeated",
            Self::Unused => "unused",
            Self::Category(_) => "category",
            Self::Line => "line",
        }
    }

    /// Whether the cause says why the memory differs, and not only where.
    pub fn explains(&self) -> bool {
        !matches!(self, Self::Unused | Self::Blocks | Self::Category(_) | Self::Line)
    }

    /// Whether many of the other changes follow from this cause.
    pub(super) fn has_consequences(&self) -> bool {
        matches!(self, Self::Type { .. } | Self::Model { .. })
    }
}

/// A cause, with the stacks that it explains.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) cause: Cause,
    /// Indices into [`StackComparison::rows`].
    pub(super) rows: Vec<usize>,
}

/// A kind of change that is recognized by its effects on memory.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name, equal to that of its [`Cause`].
    pub name: &'static str,
    /// The effects by which the rule recognizes the change.
    pub shows: &'static str,
    /// Two runs that differ by this change.
    pub example: Both<&'static str>,
    find: fn(&StackComparison, &[usize]) -> Vec<Found>,
}

/// All rules, in order; each receives only the stacks that the earlier rules left.
///
/// Each line of an example describes allocations of a program: first when they are live, then the number, size, category and
/// stack (innermost frame first). `once` allocations are made before the first step and live to the end. `step` allocations are
/// made in every step and freed at its end. `kept` allocations are made in every step and never freed.
pub static RULES: &[Rule] = &[
    Rule {
        name: "leak",
        shows: "The live allocations of a line keep growing through the whole run.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 4 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:20 forward < train.py:15 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                step 5 x 4 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:20 forward < train.py:15 main
                kept 1 x 4 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:21 forward < train.py:15 main",
        },
        find: leak,
    },
    Rule {
        name: "recomputed",
        shows: "A forward pass runs inside a PyTorch frame that repeats it in the backward pass.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 16 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:20 forward < train.py:15 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                step 1 x 16 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:20 forward < torch/utils/checkpoint.py:501 checkpoint < train.py:15 main
                step 1 x 16 MiB activation at torch/nn/modules/linear.py:125 forward < model.py:20 forward < torch/utils/checkpoint.py:1103 recompute_fn < torch/utils/checkpoint.py:1120 unpack_hook",
        },
        find: recomputed,
    },
    Rule {
        name: "optimizer",
        shows: "Different functions run inside the step of PyTorch's optimizers, or their state has a different size.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                once 8 x 8 MiB optimizer_state at torch/optim/adam.py:170 _init_group < torch/optim/adam.py:236 step < torch/optim/optimizer.py:526 wrapper < train.py:17 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main",
        },
        find: optimizer,
    },
    Rule {
        name: "type",
        shows: "Almost all long-lived allocations are 2 or 4 times as large, or a half or a quarter.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                once 4 x 1 MiB parameter at train.py:9 main
                step 6 x 16 MiB activation at model.py:20 forward < train.py:15 main",
            b: "once 4 x 4 MiB parameter at train.py:9 main
                once 4 x 512 KiB parameter at train.py:9 main
                step 6 x 8 MiB activation at model.py:20 forward < train.py:15 main",
        },
        find: another_type,
    },
    Rule {
        name: "model",
        shows: "The bytes of parameters differ.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main",
            b: "once 4 x 32 MiB parameter at train.py:9 main
                step 6 x 8 MiB activation at model.py:20 forward < train.py:15 main",
        },
        find: model,
    },
    Rule {
        name: "feature",
        shows: "Only one recording has stacks with frames of a certain package or a certain part of PyTorch.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                once 2 x 25 MiB communication at torch/nn/parallel/distributed.py:835 __init__ < train.py:11 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main",
        },
        find: feature,
    },
    Rule {
        name: "scaled",
        shows: "Several stacks make allocations that are larger by the same factor or by its square.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main
                step 6 x 2 MiB activation at model.py:21 forward < train.py:15 main
                step 1 x 1 MiB input at train.py:14 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                step 6 x 12 MiB activation at model.py:20 forward < train.py:15 main
                step 6 x 6 MiB activation at model.py:21 forward < train.py:15 main
                step 1 x 3 MiB input at train.py:14 main",
        },
        find: scaled,
    },
    Rule {
        name: "blocks",
        shows: "A stack requests the same number of bytes, but its blocks are larger or smaller.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main in blocks of 10 MiB",
        },
        find: blocks,
    },
    Rule {
        name: "repeated",
        shows: "Several stacks make more, or fewer, allocations of the same size.",
        example: Both {
            a: "once 1 x 8 MiB unknown at train.py:9 main
                step 6 x 4 MiB activation at model.py:20 forward < train.py:15 main
                step 6 x 2 MiB activation at model.py:21 forward < train.py:15 main",
            b: "once 1 x 8 MiB unknown at train.py:9 main
                step 9 x 4 MiB activation at model.py:20 forward < train.py:15 main
                step 9 x 2 MiB activation at model.py:21 forward < train.py:15 main",
        },
        find: repeated,
    },
    Rule {
        name: "category",
        shows: "Differences that no rule above explains, by category, if both recordings have categories.",
        example: Both {
            a: "once 4 x 8 MiB parameter at train.py:9 main
                step 1 x 4 MiB temporary at metrics.py:20 score < train.py:15 main",
            b: "once 4 x 8 MiB parameter at train.py:9 main
                step 1 x 20 MiB temporary at metrics.py:20 score < train.py:15 main",
        },
        find: categories,
    },
    Rule {
        name: "line",
        shows: "Differences that no rule above explains, by line.",
        example: Both {
            a: "step 2 x 4 MiB at metrics.py:20 score < train.py:15 main",
            b: "step 2 x 4 MiB at metrics.py:20 score < train.py:15 main
                step 2 x 5 MiB at metrics.py:21 score < train.py:15 main",
        },
        find: lines,
    },
];

/// Applies every rule. Rows that no rule takes hold the same in both recordings.
pub(super) fn ask(comparison: &StackComparison) -> Vec<Found> {
    let mut left: Vec<usize> = (0..comparison.rows.len()).collect();
    let mut all = Vec::new();
    for rule in RULES {
        let found = (rule.find)(comparison, &left);
        let taken: HashSet<usize> = found.iter().flat_map(|found| &found.rows).copied().collect();
        count_steps(left.len());
        left.retain(|row| !taken.contains(row));
        for mut found in found {
            found.rows.sort_by_key(|&row| (Reverse(comparison.rows[row].difference().unsigned_abs()), row));
            all.push(found);
        }
    }
    all
}

/// Returns the indices of the remaining rows for which `is` returns true.
fn rows(comparison: &StackComparison, left: &[usize], is: impl Fn(&Row) -> bool) -> Vec<usize> {
    left.iter().copied().filter(|&row| is(&comparison.rows[row])).collect()
}

/// Whether the row occurs in the recording at all.
fn occurs(row: &Row, side: Side) -> bool {
    row.made.of(side).count + row.held.of(side).count > 0
}

fn leak(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let lines: HashSet<PlaceId> =
        comparison.leaks.a.iter().chain(&comparison.leaks.b).map(|&(line, _)| line).collect();
    let rows = rows(comparison, left, |row| row.line.is_some_and(|line| lines.contains(&line)));
    let suspects = comparison.leaks.map(|of| of.iter().map(|(_, suspect)| suspect.clone()).collect());
    let grows = rows.iter().any(|&row| comparison.rows[row].difference() != 0);
    grows.then_some(Found { cause: Cause::Leak(suspects), rows }).into_iter().collect()
}

fn recomputed(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let is_recomputed = |row: &Row| comparison.marks(row).recomputed.is_some();
    let recomputes = |side| comparison.rows.iter().any(|row| is_recomputed(row) && occurs(row, side));
    let Some(by) = (Both { a: recomputes(Side::A), b: recomputes(Side::B) }).only() else {
        return Vec::new();
    };
    let inside = comparison.rows.iter().filter_map(|row| {
        Some(&comparison.stack(row)[..comparison.marks(row).recomputed?]).filter(|stack| !stack.is_empty())
    });
    // The forward pass calls the same functions from other places.
    let inside: HashSet<&[PlaceId]> = inside.collect();
    let lengths: BTreeSet<usize> = inside.iter().map(|stack| stack.len()).collect();
    let is_of_them = |row: &Row| {
        let stack = comparison.stack(row);
        let begins = |&length: &usize| stack.get(..length).is_some_and(|begin| inside.contains(begin));
        is_recomputed(row) || lengths.iter().any(begins)
    };
    vec![Found { cause: Cause::Recomputed { by }, rows: rows(comparison, left, is_of_them) }]
}

fn optimizer(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let is_state = |row: &Row| row.category == Some(Category::OptimizerState);
    let rows = rows(comparison, left, |row| comparison.marks(row).optimizer.is_some() || is_state(row));
    // One file holds one optimizer; its options decide which of its functions run.
    let mut steps: Both<HashMap<usize, CodePlace>> = Both::default();
    for row in rows.iter().map(|&row| &comparison.rows[row]) {
        let Some(step) = comparison.marks(row).optimizer else { continue };
        let step = comparison.places.get(step);
        for side in Side::BOTH.into_iter().filter(|&side| occurs(row, side)) {
            steps
                .of_mut(side)
                .entry(step.file_number)
                .or_insert_with(|| step.in_recording(side).unwrap_or(CodePlace::NoStack));
        }
    }
    let files = steps.map(|steps| steps.keys().copied().collect::<HashSet<usize>>());
    let kept = |side: Side| rows.iter().map(|&row| *comparison.rows[row].kept.of(side)).sum::<u64>();
    if files.is_same() && kept(Side::A) == kept(Side::B) {
        return Vec::new();
    }
    let in_order = |steps: &HashMap<usize, CodePlace>| {
        let mut steps: Vec<_> = steps.iter().collect();
        steps.sort_unstable_by_key(|(file, _)| **file);
        steps.into_iter().map(|(_, &place)| place).collect()
    };
    vec![Found { cause: Cause::Optimizer { steps: steps.map(in_order) }, rows }]
}

/// The share of the sizes of long-lived allocations that must be larger by the factor.
const ALMOST_ALL: f64 = 0.85;

fn another_type(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let stays = |row: &Row, side: Side| match row.category {
        Some(category) => category == Category::Parameter && row.held.of(side).count > 0,
        None => *row.kept.of(side) > 0 && *row.kept.of(side) == row.held.of(side).bytes,
    };
    let sizes = |side: Side| {
        let rows = left.iter().map(|&row| &comparison.rows[row]).filter(|row| stays(row, side));
        rows.flat_map(|row| row.sizes.of(side).iter()).collect::<BTreeSet<u64>>()
    };
    let (a, b) = (sizes(Side::A), sizes(Side::B));
    // With different layers, sizes grow by different factors; with a different data type, all grow by the same.
    let all_by = |&factor: &f64| {
        // If any size is alike, then one of the two nearest.
        let from = |size: u64| {
            count_steps(1);
            let was = (size as f64 / factor) as u64;
            let nearest = a.range(..=was).next_back().into_iter().chain(a.range(was..).find(|&&of| of > was));
            nearest.into_iter().any(|&was| alike(was as f64 * factor, size as f64))
        };
        let is_larger = b.iter().filter(|&&size| from(size)).count();
        a != b && a.len() >= SEVERAL && is_larger as f64 >= ALMOST_ALL * b.len() as f64
    };
    let Some(factor) = [0.25, 0.5, 2.0, 4.0].into_iter().find(all_by) else { return Vec::new() };
    let goes_along = |row: &Row| {
        let is_of_model = row.category.is_some_and(|category| OF_MODEL.contains(&category));
        let is_larger = || row.growth_of_each().is_some_and(|growth| alike(growth, factor));
        let stays = Side::BOTH.iter().any(|&side| stays(row, side));
        is_of_model || is_larger() || stays || row.grows_in_part(&[factor])
    };
    vec![Found { cause: Cause::Type { factor }, rows: rows(comparison, left, goes_along) }]
}

/// Categories whose bytes grow with the number of parameters.
const OF_MODEL: [Category; 4] =
    [Category::Parameter, Category::Buffer, Category::Gradient, Category::OptimizerState];

/// Sums the parameters of both recordings; `None` if either has none.
fn parameters(comparison: &StackComparison) -> Option<Both<Amount>> {
    let all = 0..comparison.rows.len();
    let rows = all.filter(|&row| comparison.rows[row].category == Some(Category::Parameter));
    Some(comparison.held(rows)).filter(|of| of.a.bytes > 0 && of.b.bytes > 0)
}

fn model(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let of = |categories: &[Category]| {
        rows(comparison, left, |row| row.category.is_some_and(|category| categories.contains(&category)))
    };
    let Some(parameters) = parameters(comparison).filter(|of| of.a.requested != of.b.requested) else {
        return Vec::new();
    };
    vec![Found { cause: Cause::Model { parameters }, rows: of(&OF_MODEL) }]
}

fn feature(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let mut taken = HashSet::new();
    let mut all = Vec::new();
    for (number, feature) in FEATURES.iter().enumerate() {
        let has = |row: &Row| comparison.marks(row).features.contains(&number);
        let uses = |side| comparison.rows.iter().any(|row| has(row) && occurs(row, side));
        let Some(by) = (Both { a: uses(Side::A), b: uses(Side::B) }).only() else { continue };
        let rows: Vec<usize> =
            rows(comparison, left, has).into_iter().filter(|&row| taken.insert(row)).collect();
        all.push(Found { cause: Cause::Feature { feature, by }, rows });
    }
    all
}

/// The smallest number of stacks that counts as a common change.
const SEVERAL: usize = 2;

/// Number of factors that are tried, taken from the stacks that changed most.
const MOST_FACTORS: usize = 50;

fn scaled(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let weight = |row: &Row| row.difference().unsigned_abs();
    let mut factors: Vec<(u64, f64)> = left
        .iter()
        .map(|&row| &comparison.rows[row])
        .filter_map(|row| Some((weight(row), row.growth_of_each()?)))
        .filter(|&(weight, growth)| weight > 0 && !alike(growth, 1.0))
        .collect();
    factors.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    factors.truncate(MOST_FACTORS);
    let by = |row: &Row, factor: f64| {
        row.growth_of_each().is_some_and(|growth| alike(growth, factor)) || row.grows_in_part(&[factor])
    };
    let by_either = |row: &Row, factor: f64| {
        by(row, factor) || by(row, factor * factor) || row.grows_in_part(&[factor, factor * factor])
    };
    let support = |factor: f64| {
        let rows = left.iter().map(|&row| &comparison.rows[row]).filter(|row| by_either(row, factor));
        rows.map(|row| u128::from(weight(row))).sum::<u128>()
    };
    let mut best: Option<(u128, f64)> = None;
    for &(_, factor) in &factors {
        let support = support(factor);
        if best.is_none_or(|(most, _)| support > most) {
            best = Some((support, factor));
        }
    }
    let Some((_, factor)) = best else { return Vec::new() };
    let goes_along = |row: &Row| row.difference() != 0 && (row.difference() > 0) == (factor > 1.0);
    let rows_by = rows(comparison, left, |row| goes_along(row) && by_either(row, factor));
    if rows_by.len() < SEVERAL {
        return Vec::new();
    }
    let is_squared = |row: &Row| row.growth_of_each().is_some_and(|growth| alike(growth, factor * factor));
    let is_same_count = |&row: &usize| comparison.rows[row].held.map(|held| held.count).is_same();
    let stays = rows(comparison, left, |row| row.kept.is_same() && row.kept.a == row.held.a.bytes);
    let cause = Cause::Scaled {
        factor,
        stacks: rows_by.len(),
        squared: rows_by.iter().filter(|&&row| is_squared(&comparison.rows[row])).count(),
        same_count: rows_by.iter().all(is_same_count),
        same_kept: stays.iter().map(|&row| comparison.rows[row].kept.a).sum(),
        same_parameters: parameters(comparison).is_some_and(|of| of.a.requested == of.b.requested),
    };
    vec![Found { cause, rows: rows_by }]
}

fn blocks(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let asks_for = |of: &Amount| (of.count, of.requested);
    let rows = rows(comparison, left, |row| row.held.map(asks_for).is_same() && row.difference() != 0);
    (!rows.is_empty()).then_some(Found { cause: Cause::Blocks, rows }).into_iter().collect()
}

fn repeated(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    // At moments in different parts of a step, the counts differ too. So the number of allocations in the whole run must differ
    // as well.
    let more = |of: Both<Amount>| of.b.count as f64 / of.a.count as f64;
    let is_repeated = |row: &Row| {
        let same_size = row.growth_of_each().is_some_and(|growth| alike(growth, 1.0));
        let [held, made] = [row.held, row.made].map(more);
        same_size && !row.held.map(|held| held.count).is_same() && (held / made).ln().abs() < 0.1
    };
    let candidates = rows(comparison, left, is_repeated);
    let rises = |row: usize| comparison.rows[row].difference() > 0;
    let bytes = |rises_too: bool| {
        let rows = candidates.iter().filter(|&&row| rises(row) == rises_too);
        rows.map(|&row| u128::from(comparison.rows[row].difference().unsigned_abs())).sum::<u128>()
    };
    let mostly_rises = bytes(true) >= bytes(false);
    let rows: Vec<usize> = candidates.iter().copied().filter(|&row| rises(row) == mostly_rises).collect();
    let stacks = rows.len();
    (stacks >= SEVERAL).then_some(Found { cause: Cause::Repeated { stacks }, rows }).into_iter().collect()
}

fn categories(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    if !comparison.has_categories {
        return Vec::new();
    }
    let of = |category| rows(comparison, left, |row| row.category == Some(category) && row.difference() != 0);
    let found = Category::ALL.map(|category| Found { cause: Cause::Category(category), rows: of(category) });
    found.into_iter().filter(|found| !found.rows.is_empty()).collect()
}

fn lines(comparison: &StackComparison, left: &[usize]) -> Vec<Found> {
    let mut by_line: HashMap<(Option<PlaceId>, bool), Vec<usize>> = HashMap::new();
    for row in rows(comparison, left, |row| row.difference() != 0) {
        let of = &comparison.rows[row];
        by_line.entry((of.line, of.freed_there)).or_default().push(row);
    }
    let mut all: Vec<_> = by_line.into_iter().collect();
    all.sort_unstable_by_key(|(line, _)| *line);
    all.into_iter().map(|(_, rows)| Found { cause: Cause::Line, rows }).collect()
}
