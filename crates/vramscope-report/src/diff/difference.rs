//! Differences between two recordings of a device, for `vramscope diff --json`.

use serde::Serialize;
use vramscope_analysis::{
    Amount, Both, CategoryDifference, Cause, Difference, Finding, Fragmentation, LeakSuspect, LineDifference,
    Side, StackDifference,
};

use crate::diff::changes;
use crate::json::stacks::{Builder, FrameJson};
use crate::names::Names;

/// The values of both recordings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Both_{T}"))]
pub(crate) struct BothJson<T> {
    pub(crate) a: T,
    pub(crate) b: T,
}

impl<T> From<Both<T>> for BothJson<T> {
    fn from(both: Both<T>) -> Self {
        Self { a: both.a, b: both.b }
    }
}

/// Differences between two recordings of a device, at one event of each.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Difference"))]
pub struct DifferenceJson {
    /// Event index of the comparison; null before the first event.
    at_event: BothJson<Option<usize>>,
    /// Allocated bytes at that event.
    allocated_bytes: BothJson<u64>,
    /// Most relevant first.
    what_changed: Vec<FindingJson>,
    /// Allocated bytes by category; empty if the categories of a recording are unknown.
    categories: Vec<CategoryDifferenceJson>,
    /// Allocated bytes by line; largest difference first.
    lines: Vec<LineDifferenceJson>,
    stacks: Vec<StackDifferenceJson>,
    /// Bytes lost to rounding inside blocks.
    internal_fragmentation_bytes: BothJson<Option<u64>>,
    /// Bytes reserved and not active.
    external_fragmentation_bytes: BothJson<Option<u64>>,
    /// Number of failed requests.
    ooms: BothJson<usize>,
}

/// One difference.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Finding"))]
struct FindingJson {
    /// The rule that found the difference.
    kind: &'static str,
    /// Whether it explains why, and not only where.
    explains: bool,
    text: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Whether it is more than one percent of the total difference.
    counts: bool,
    categories: Vec<CategoryDifferenceJson>,
    lines: Vec<LineDifferenceJson>,
    /// For `leak`: the leaking lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    leaks: Option<BothJson<Vec<SuspectJson>>>,
    /// For `scaled` and `type`: the ratio of the sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
}

/// A line whose allocations keep growing.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DifferenceLeak"))]
struct SuspectJson {
    key: String,
    allocations: u64,
    kept: u64,
    kept_bytes: u64,
}

/// A category's bytes in two recordings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CategoryDifference"))]
struct CategoryDifferenceJson {
    category: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
}

/// A line's bytes in two recordings; `only_in` names the recording if only one has the line.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LineDifference"))]
struct LineDifferenceJson {
    /// The line; named as in B if both recordings have it.
    key: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Allocations over the whole run.
    allocations: BothJson<u64>,
    /// The only recording that has the line; null if both have it.
    only_in: Option<&'static str>,
}

/// A stack's bytes in two recordings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StackDifference"))]
struct StackDifferenceJson {
    /// Innermost frame first; from B if both recordings have the stack.
    stack: Vec<FrameJson>,
    category: Option<String>,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Allocations over the whole run.
    allocations: BothJson<u64>,
}

impl DifferenceJson {
    /// The differences in `of`, with `names` of both recordings.
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

/// The name of a recording in JSON.
pub(crate) fn side_name(side: Side) -> &'static str {
    match side {
        Side::A => "a",
        Side::B => "b",
    }
}
