//! What changed between two recordings of a device: for `vramscope diff --json`.

use serde::Serialize;
use vramscope_analysis::{
    Amount, Both, CategoryDifference, Cause, Difference, Finding, Fragmentation, LeakSuspect, LineDifference,
    Side, StackDifference,
};

use super::stacks::{Builder, FrameJson};
use crate::changes;
use crate::names::Names;

/// The same of each of two recordings.
#[derive(Debug, Serialize)]
pub(super) struct BothJson<T> {
    pub(super) a: T,
    pub(super) b: T,
}

impl<T> From<Both<T>> for BothJson<T> {
    fn from(both: Both<T>) -> Self {
        Self { a: both.a, b: both.b }
    }
}

/// What changed between two recordings of a device, at a moment of each.
#[derive(Debug, Serialize)]
pub struct DifferenceJson {
    /// The event right before the moment; null before the first.
    at_event: BothJson<Option<usize>>,
    /// Allocated then.
    allocated_bytes: BothJson<u64>,
    /// Most telling first.
    what_changed: Vec<FindingJson>,
    /// Of the allocated bytes; empty where one recording does not tell.
    categories: Vec<CategoryDifferenceJson>,
    /// Of the allocated bytes; those that differ most come first.
    lines: Vec<LineDifferenceJson>,
    stacks: Vec<StackDifferenceJson>,
    /// Lost to rounding inside of the blocks.
    internal_fragmentation_bytes: BothJson<Option<u64>>,
    /// Reserved and not active.
    external_fragmentation_bytes: BothJson<Option<u64>>,
    /// How many requests failed.
    ooms: BothJson<usize>,
}

/// One thing that changed.
#[derive(Debug, Serialize)]
struct FindingJson {
    /// The rule that found it, see [`Cause::name`].
    kind: &'static str,
    /// It says why, and not only where.
    explains: bool,
    text: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// More than one percent of all that differs.
    counts: bool,
    categories: Vec<CategoryDifferenceJson>,
    lines: Vec<LineDifferenceJson>,
    /// Of `leak`: the lines that pile up.
    #[serde(skip_serializing_if = "Option::is_none")]
    leaks: Option<BothJson<Vec<SuspectJson>>>,
    /// Of `scaled` and `type`: how many times as large.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SuspectJson {
    key: String,
    allocations: u64,
    kept: u64,
    kept_bytes: u64,
}

#[derive(Debug, Serialize)]
struct CategoryDifferenceJson {
    category: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
}

#[derive(Debug, Serialize)]
struct LineDifferenceJson {
    /// The line, named as in the recording that has it, in B if both have.
    key: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Over the whole run.
    allocations: BothJson<u64>,
    /// The recording that alone has it; null where both have.
    only_in: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct StackDifferenceJson {
    /// Innermost frame first, in B if both have it.
    stack: Vec<FrameJson>,
    category: Option<String>,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Over the whole run.
    allocations: BothJson<u64>,
}

impl DifferenceJson {
    /// What changed, with the names of both recordings.
    pub fn new(of: &Difference, names: &Both<Names<'_>>) -> Self {
        let builders = names.map(|&names| Builder::new(names, None));
        let stack = |stack: &StackDifference| {
            let side = if stack.stacks.b.is_some() { Side::B } else { Side::A };
            StackDifferenceJson {
                stack: builders.of(side).stack(*stack.stacks.of(side)).frames,
                category: stack.category.map(|category| category.name().to_owned()),
                bytes: amount(stack.held),
                count: counts(stack.held),
                difference_bytes: difference(stack.held),
                allocations: counts(stack.made),
            }
        };
        let lines = |lines: &[LineDifference]| lines.iter().map(|of| line(of, names)).collect();
        let finding = |of: &Finding| FindingJson {
            kind: of.cause.name(),
            explains: of.cause.explains(),
            text: changes::finding(of, names),
            bytes: amount(of.held),
            count: counts(of.held),
            difference_bytes: of.difference(),
            counts: of.counts,
            categories: of.categories.iter().map(category).collect(),
            lines: lines(&of.lines),
            leaks: match &of.cause {
                Cause::Leak(suspects) => {
                    let of =
                        |side: Side| suspects.of(side).iter().map(|of| suspect(of, names.of(side))).collect();
                    Some(BothJson { a: of(Side::A), b: of(Side::B) })
                }
                _ => None,
            },
            factor: match of.cause {
                Cause::Scaled { factor, .. } | Cause::Type { factor } => Some(factor),
                _ => None,
            },
        };
        let lost = |lost: fn(&Fragmentation) -> u64| of.fragmentation.map(|of| of.as_ref().map(lost)).into();
        Self {
            at_event: of.moments.map(|moment| moment.event()).into(),
            allocated_bytes: of.counters.map(|counters| counters.allocated).into(),
            what_changed: of.findings.iter().map(finding).collect(),
            categories: of.categories.iter().map(category).collect(),
            lines: lines(&of.lines),
            stacks: of.stacks.iter().map(stack).collect(),
            internal_fragmentation_bytes: lost(|of| of.internal),
            external_fragmentation_bytes: lost(|of| of.external),
            ooms: of.ooms.into(),
        }
    }
}

fn category(of: &CategoryDifference) -> CategoryDifferenceJson {
    CategoryDifferenceJson {
        category: of.category.name().to_owned(),
        bytes: amount(of.held),
        count: counts(of.held),
        difference_bytes: difference(of.held),
    }
}

fn line(of: &LineDifference, names: &Both<Names<'_>>) -> LineDifferenceJson {
    LineDifferenceJson {
        key: changes::line(of, names),
        bytes: amount(of.held),
        count: counts(of.held),
        difference_bytes: difference(of.held),
        allocations: counts(of.made),
        only_in: of.only_in.map(side_name),
    }
}

fn suspect(of: &LeakSuspect, names: &Names<'_>) -> SuspectJson {
    let &LeakSuspect { allocations, kept, kept_bytes, .. } = of;
    SuspectJson { key: names.frame(of.line).into(), allocations, kept, kept_bytes }
}

fn amount(of: Both<Amount>) -> BothJson<u64> {
    of.map(|of| of.bytes).into()
}

fn counts(of: Both<Amount>) -> BothJson<u64> {
    of.map(|of| of.count).into()
}

fn difference(of: Both<Amount>) -> i64 {
    of.map(|of| of.bytes).difference()
}

/// A recording, as JSON names it.
pub(super) fn side_name(side: Side) -> &'static str {
    match side {
        Side::A => "a",
        Side::B => "b",
    }
}
