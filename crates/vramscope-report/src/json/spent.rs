//! JSON of `vramscope report --at A..B --json`.

use serde::Serialize;
use vramscope_analysis::{Amount, IntervalGroup, IntervalSummary, IntervalTotals, Origin};

use super::quality::QualityJson;
use super::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::answers::SpanAnswers;
use crate::names::Names;
use crate::spent;

/// The output of `vramscope report --at A..B --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Interval"))]
pub struct SpanJson {
    file: String,
    format: &'static str,
    devices: Vec<SpanDeviceJson>,
}

/// The allocations and frees of the events on one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IntervalDevice"))]
struct SpanDeviceJson {
    device: i64,
    first_event: usize,
    last_event: usize,
    /// The name of the step or region, or the range of events.
    name: String,
    highest_allocated_bytes: u64,
    /// Event index of the peak of allocated bytes in the range; null before the recording's first event.
    highest_event: Option<usize>,
    /// The peak minus the allocated bytes before the first event.
    rise_bytes: u64,
    /// For all allocations.
    #[serde(flatten)]
    all: SpentJson,
    /// For the allocations that match `--filter`.
    filtered: SpentJson,
    groups: Vec<SpentGroupJson>,
    quality: QualityJson,
}

/// Amounts of allocations in a range of events.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Spent"))]
struct SpentJson {
    before: AmountJson,
    allocated: AmountJson,
    freed: AmountJson,
    freed_from_before: AmountJson,
    temporary: AmountJson,
    survived: AmountJson,
    at_highest: AmountJson,
    after: AmountJson,
}

/// Bytes and blocks.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Amount"))]
struct AmountJson {
    bytes: u64,
    requested_bytes: u64,
    count: u64,
}

/// The allocations and frees of one group.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IntervalGroup"))]
struct SpentGroupJson {
    /// The shared property of the group, named as in the text report.
    key: String,
    preexisting: Option<bool>,
    #[serde(flatten)]
    spent: SpentJson,
    /// The stack that allocated the most bytes.
    stack: Vec<FrameJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    freed_at: Vec<FrameJson>,
    #[serde(skip_serializing_if = "is_zero")]
    frames_left_out: usize,
}

impl AmountJson {
    fn of(Amount { bytes, requested, count }: Amount) -> Self {
        Self { bytes, requested_bytes: requested, count }
    }
}

impl SpentJson {
    fn of(totals: &IntervalTotals) -> Self {
        Self {
            before: AmountJson::of(totals.before),
            allocated: AmountJson::of(totals.allocated),
            freed: AmountJson::of(totals.freed()),
            freed_from_before: AmountJson::of(totals.freed_before),
            temporary: AmountJson::of(totals.temporary),
            survived: AmountJson::of(totals.survived()),
            at_highest: AmountJson::of(totals.at_peak),
            after: AmountJson::of(totals.after()),
        }
    }
}

impl SpanJson {
    /// The output for `answers`; `top` limits the groups if the user asked for a limit.
    pub fn new(answers: &SpanAnswers<'_>, top: Option<usize>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let builder = Builder::new(names, top);
        Self {
            file: answers.file.to_owned(),
            format: answers.recording.format.name(),
            devices: answers.devices.iter().map(|d| builder.span(d)).collect(),
        }
    }
}

impl Builder<'_> {
    fn span(&self, s: &IntervalSummary) -> SpanDeviceJson {
        let all = &s.totals.all;
        SpanDeviceJson {
            device: s.device,
            first_event: s.part.from.index(),
            last_event: s.part.to.index().saturating_sub(1),
            name: spent::title(&s.part, s.events, self.names),
            highest_allocated_bytes: s.peak.bytes,
            highest_event: s.peak.moment.event(),
            rise_bytes: s.peak.bytes - all.before.bytes,
            all: SpentJson::of(all),
            filtered: SpentJson::of(&s.totals.taken),
            groups: s
                .totals
                .groups
                .iter()
                .take(self.top.unwrap_or(usize::MAX))
                .map(|g| self.spent_group(g))
                .collect(),
            quality: QualityJson::new(&s.quality),
        }
    }

    fn spent_group(&self, g: &IntervalGroup) -> SpentGroupJson {
        let StackJson { frames, left_out } = self.stack(g.stack);
        let (stack, freed_at) =
            if g.origin == Some(Origin::FreeOnly) { (Vec::new(), frames) } else { (frames, Vec::new()) };
        SpentGroupJson {
            key: self.names.key(&g.key).into(),
            preexisting: g.origin.map(|origin| origin != Origin::Recorded),
            spent: SpentJson::of(&g.totals),
            stack,
            freed_at,
            frames_left_out: left_out,
        }
    }
}
