//! The report of a range of events.

use serde::Serialize;
use vramscope_analysis::{
    Amount, Holder, IntervalGroup, IntervalSummary, IntervalTotals, Moment, Origin, Peak, ProgramPart,
    Recorder,
};
use vramscope_basics::units::{bytes, count};

use crate::answers::IntervalAnswers;
use crate::fit::fit;
use crate::json::stacks::{Builder, FrameJson, StackJson, is_zero};
use crate::names::{Names, first_upper};
use crate::report::limitations::QualityJson;
use crate::shown::Shown;
use crate::text::lines::{BOLD, DIM};
use crate::text::page::{Page, TextOptions};

/// The output of `vramscope report --at A..B --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Interval"))]
pub struct IntervalJson {
    file: String,
    format: &'static str,
    devices: Vec<IntervalDeviceJson>,
}

/// The allocations and frees of the events on one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IntervalDevice"))]
struct IntervalDeviceJson {
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

impl IntervalJson {
    /// The output for `answers`; `top` limits the groups if the user asked for a limit.
    pub fn new(answers: &IntervalAnswers<'_>) -> Self {
        let names = Names { trace: &answers.recording.trace, frames: answers.frames };
        let builder = Builder::new(names, answers.top);
        Self {
            file: answers.file.to_owned(),
            format: answers.recording.format.name(),
            devices: answers.devices.iter().map(|d| builder.interval(d)).collect(),
        }
    }
}

impl Builder<'_> {
    fn interval(&self, s: &IntervalSummary) -> IntervalDeviceJson {
        let all = &s.totals.all;
        IntervalDeviceJson {
            device: s.device,
            first_event: s.part.from.index(),
            last_event: s.part.to.index().saturating_sub(1),
            name: self::title(&s.part, s.events, self.names),
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

/// The report of a range of events as text with ANSI styles.
pub fn interval_report(answers: &IntervalAnswers<'_>, options: TextOptions) -> String {
    let names = Names { trace: &answers.recording.trace, frames: answers.frames };
    let mut page = Page::new(names, Recorder::of(answers.recording), answers.advice, options);
    let all = answers.devices.iter().map(|d| d.events).sum();
    page.file(answers.file, answers.recording, all, answers.devices.len());
    for device in &answers.devices {
        page.interval(answers, device);
    }
    page.out
}

impl Page<'_> {
    fn interval(&mut self, answers: &IntervalAnswers<'_>, s: &IntervalSummary) {
        if answers.devices.len() > 1 {
            let rule = "─".repeat(self.options.width.saturating_sub(12).min(60));
            let name = self.names.device(s.device);
            self.heading(&format!("{name} {rule}"));
        }
        let all = &s.totals.all;
        let name = title(&s.part, s.events, self.names);
        let line = first_upper(&headline(&name, all, s.peak));
        self.out.push('\n');
        self.styled_words(BOLD, &format!("{line}."));
        let events = events(&s.part);
        self.heading(&format!("{:<44}{:>14}{:>12}", first_upper(&events), "bytes", "blocks"));
        self.amount("  allocated before", all.before);
        self.amount("  allocated", all.allocated);
        self.amount("  freed", all.freed());
        self.amount("    allocated before the range", all.freed_before);
        self.amount("    temporary: allocated and freed in it", all.temporary);
        self.amount("  retained: allocated and not freed", all.survived());
        let peak = match s.peak.moment.event() {
            Some(event) => format!("  peak, after event {}", count(event as u64)),
            None => "  peak, before the first event".to_owned(),
        };
        self.amount(&peak, all.at_peak);
        let rise = s.peak.bytes - all.before.bytes;
        self.line(format!("{:<44}{:>14}", "    above the bytes before the range", bytes(rise)));
        self.amount("  allocated after", all.after());
        let left_out = all.allocated.bytes - s.totals.taken.allocated.bytes;
        let heading = format!("By {}", answers.by.name());
        self.heading(&format!(
            "{heading:<13}{:>13}{:>13}{:>13}{:>13}",
            "allocated", "temporary", "retained", "at peak"
        ));
        if s.totals.taken != *all {
            self.words(2, &format!("The filter left out {} of the allocated bytes.", bytes(left_out)));
        }
        for group in s.totals.groups.iter().take(self.options.top) {
            self.spent_group(group);
        }
        if let Some(more) = s.totals.groups.len().checked_sub(self.options.top).filter(|&more| more > 0) {
            self.line(format!("  ... {} more", count(more as u64)));
        }
    }

    fn amount(&mut self, name: &str, of: Amount) {
        self.line(format!("{name:<44}{:>14}{DIM}{:>12}{DIM:#}", bytes(of.bytes), count(of.count)));
    }

    fn spent_group(&mut self, group: &IntervalGroup) {
        let IntervalGroup { origin, key, stack, totals } = group;
        let holder =
            Holder { bytes: 0, requested: 0, count: 0, origin: *origin, key: key.clone(), stack: *stack };
        let columns = [totals.allocated, totals.temporary, totals.survived(), totals.at_peak];
        let row: String = columns.iter().map(|amount| format!("{:>13}", bytes(amount.bytes))).collect();
        let label =
            fit(&self.names.holder(&holder), self.options.width.saturating_sub(13 + row.len() + 2).max(16));
        self.line(format!("{:13}{row}  {label}", ""));
        self.full_stack(*stack);
    }
}

/// The name of a part of a recording with this number of events: `backward of step 2`, `backward of step 2 (inferred)`, `step 2`,
/// `events 10 to 99`.
pub fn title(part: &ProgramPart, events: usize, names: Names<'_>) -> String {
    let step = part.step.map(|n| format!("step {}", count(n as u64 + 1)));
    let region = part.region.map(|name| Shown::of(names.trace.strings.get(name)));
    let phase = part.phase.map(|phase| phase.name().to_owned());
    let inferred = if part.is_inferred { " (inferred)" } else { "" };
    match (region.map(String::from).or(phase), step) {
        _ if part.from == Moment::START && part.to.index() == events => "the whole recording".to_owned(),
        (Some(name), Some(step)) => format!("{name} of {step}{inferred}"),
        (Some(name), None) => format!("{name}{inferred}"),
        (None, Some(step)) if part.is_step => step,
        _ => self::events(part),
    }
}

/// The events of a part: `events 10 to 99`, `event 10`, `no event`.
pub(crate) fn events(part: &ProgramPart) -> String {
    let (first, end) = (part.from.index() as u64, part.to.index() as u64);
    match end.saturating_sub(first) {
        0 => "no event".to_owned(),
        1 => format!("event {}", count(first)),
        _ => format!("events {} to {}", count(first), count(end - 1)),
    }
}

/// A summary line: `step 2: 1.20 GiB allocated, 1.10 GiB freed, peak 3.40 GiB, 96.00 MiB retained`.
pub fn headline(title: &str, totals: &IntervalTotals, peak: Peak) -> String {
    format!(
        "{title}: {} allocated, {} freed, peak {}, {} retained",
        bytes(totals.allocated.bytes),
        bytes(totals.freed().bytes),
        bytes(peak.bytes),
        bytes(totals.survived().bytes)
    )
}
