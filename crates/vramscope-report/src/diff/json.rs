//! JSON of `vramscope diff --json`.

use serde::Serialize;
use vramscope_analysis::{
    Both, ChangedEvents, DeviceDiff, FreedBytes, GroupPeakChange, Moment, Peaks, SettingDifference,
};
use vramscope_trace::Event;

use crate::answers::{Compared, DiffAnswers};
use crate::diff::changes;
use crate::diff::difference::{BothJson, DifferenceJson, side_name};
use crate::names::Names;

/// The output of `vramscope diff --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Diff"))]
pub struct DiffJson {
    files: BothJson<String>,
    /// Whether the recordings do not differ.
    same: bool,
    devices: Vec<DeviceDiffJson>,
    /// Devices that only one recording used.
    only: BothJson<Vec<i64>>,
    /// Allocator settings that differ.
    settings: Vec<SettingJson>,
}

/// A setting, as in `PYTORCH_CUDA_ALLOC_CONF`; null if it is not recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SettingDifference"))]
struct SettingJson {
    key: String,
    a: Option<String>,
    b: Option<String>,
}

/// The differences on one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DeviceDiff"))]
struct DeviceDiffJson {
    device: i64,
    same: bool,
    #[serde(flatten)]
    difference: DifferenceJson,
    /// Each line at its own peak; largest growth first.
    highest_lines: Vec<HighestJson>,
    same_events: bool,
    events: BothJson<usize>,
    same_events_at_start: usize,
    alike_events_at_end: usize,
    /// The first differing event of each recording; null if all events are the same, and for a recording that has ended.
    first_difference: Option<BothJson<Option<EventJson>>>,
    changed: Vec<ChangedJson>,
    peak_requested_bytes: BothJson<u64>,
    peak_allocated_bytes: BothJson<u64>,
    peak_active_bytes: BothJson<u64>,
    peak_reserved_bytes: BothJson<u64>,
    end_allocated_bytes: BothJson<u64>,
    end_reserved_bytes: BothJson<u64>,
    end_segments: BothJson<usize>,
    /// With `--promised`: the bytes that the change should free, and those that it freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<PromiseJson>,
}

/// The bytes that a change should free, and those by which B is lower than A; negative if B is higher.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Promise"))]
struct PromiseJson {
    promised_bytes: u64,
    peak_allocated_bytes: i64,
    peak_reserved_bytes: i64,
    end_allocated_bytes: i64,
    end_reserved_bytes: i64,
    /// A verdict, then the peaks and the end, in sentences.
    sentences: Vec<String>,
}

impl PromiseJson {
    fn new(promised: u64, freed: &FreedBytes) -> Self {
        Self {
            promised_bytes: promised,
            peak_allocated_bytes: freed.peak_allocated,
            peak_reserved_bytes: freed.peak_reserved,
            end_allocated_bytes: freed.end_allocated,
            end_reserved_bytes: freed.end_reserved,
            sentences: changes::promise(promised, freed),
        }
    }
}

/// The bytes of a line at its own peak, independent of other allocations.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HighestLine"))]
struct HighestJson {
    /// The line; named as in B if both recordings have it.
    key: String,
    bytes: BothJson<u64>,
    count: BothJson<u64>,
    difference_bytes: i64,
    /// Event index of that peak, its first occurrence; null before the first event, and if the recording lacks the line.
    at_event: BothJson<Option<usize>>,
    /// The only recording that has the line; null if both have it.
    only_in: Option<&'static str>,
}

/// An event of one of two recordings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DiffEvent"))]
struct EventJson {
    event: usize,
    action: &'static str,
    bytes: u64,
    /// The line of user code.
    key: String,
}

/// Events of one kind and size, of which one recording has more.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ChangedEvents"))]
struct ChangedJson {
    action: &'static str,
    bytes: u64,
    count: BothJson<usize>,
    /// The first of these events in each recording.
    first: BothJson<Option<EventJson>>,
}

impl DiffJson {
    /// The output for `answers`.
    pub fn new(answers: &DiffAnswers<'_>) -> Self {
        Self {
            files: answers.recordings.map(|of| of.file.to_owned()).into(),
            same: answers.is_same(),
            devices: answers.devices.iter().map(|device| DeviceDiffJson::new(device, answers)).collect(),
            only: answers.only.clone().into(),
            settings: answers.settings.iter().map(setting).collect(),
        }
    }
}

impl DeviceDiffJson {
    fn new(diff: &DeviceDiff, answers: &DiffAnswers<'_>) -> Self {
        let recordings = &answers.recordings;
        let events = |numbers: Both<Option<usize>>| BothJson {
            a: numbers.a.and_then(|number| EventJson::new(&recordings.a, diff.device, number)),
            b: numbers.b.and_then(|number| EventJson::new(&recordings.b, diff.device, number)),
        };
        let changed = |changed: &ChangedEvents| ChangedJson {
            action: changed.action.name(),
            bytes: changed.size,
            count: changed.count.into(),
            first: events(changed.first),
        };
        let first = Some(diff.same_at_start);
        let peak = |of: fn(&Peaks) -> u64| diff.difference.peaks.map(of).into();
        let names = recordings.map(Compared::names);
        Self {
            device: diff.device,
            same: diff.is_same(),
            difference: DifferenceJson::new(&diff.difference, &names),
            highest_lines: diff.highest.iter().map(|change| highest(change, &names)).collect(),
            same_events: diff.has_same_events(),
            events: diff.events.into(),
            same_events_at_start: diff.same_at_start,
            alike_events_at_end: diff.alike_at_end,
            first_difference: (!diff.has_same_events()).then(|| events(Both { a: first, b: first })),
            changed: diff.changed.iter().map(changed).collect(),
            peak_requested_bytes: peak(|p| p.requested.bytes),
            peak_allocated_bytes: peak(|p| p.allocated.bytes),
            peak_active_bytes: peak(|p| p.active.bytes),
            peak_reserved_bytes: peak(|p| p.reserved.bytes),
            end_allocated_bytes: diff.end.map(|end| end.allocated).into(),
            end_reserved_bytes: diff.end.map(|end| end.reserved).into(),
            end_segments: diff.end.map(|end| end.segments).into(),
            promise: answers.promised.map(|promised| PromiseJson::new(promised, &diff.freed())),
        }
    }
}

impl EventJson {
    fn new(of: &Compared<'_>, device: i64, number: usize) -> Option<Self> {
        let Event { action, size, stack, .. } = of.event(device, number)?;
        Some(Self { event: number, action: action.name(), bytes: size, key: of.names().place(stack).into() })
    }
}

fn setting(of: &SettingDifference) -> SettingJson {
    SettingJson { key: of.key.clone(), a: of.values.a.clone(), b: of.values.b.clone() }
}

fn highest(of: &GroupPeakChange, names: &Both<Names<'_>>) -> HighestJson {
    let held = of.group.held();
    HighestJson {
        key: changes::holder(&of.group, names),
        bytes: held.map(|held| held.bytes).into(),
        count: held.map(|held| held.count).into(),
        difference_bytes: held.map(|held| held.bytes).difference(),
        at_event: of.moments.map(|moment| moment.and_then(Moment::event)).into(),
        only_in: of.group.only_in().map(side_name),
    }
}
