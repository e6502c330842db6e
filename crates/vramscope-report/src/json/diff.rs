//! `vramscope diff --json`.

use serde::Serialize;
use vramscope_analysis::{Both, ChangedEvents, DeviceDiff, Peaks, SettingDifference};
use vramscope_trace::Event;

use super::difference::{BothJson, DifferenceJson};
use crate::answers::{Compared, DiffAnswers};

/// `vramscope diff --json`.
#[derive(Debug, Serialize)]
pub struct DiffJson {
    files: BothJson<String>,
    /// Nothing differs.
    same: bool,
    devices: Vec<DeviceDiffJson>,
    /// Devices that only the one or the other used.
    only: BothJson<Vec<i64>>,
    /// Settings of the allocator that differ.
    settings: Vec<SettingJson>,
}

/// A setting, in the words of `PYTORCH_CUDA_ALLOC_CONF`; null where nothing says it.
#[derive(Debug, Serialize)]
struct SettingJson {
    key: String,
    a: Option<String>,
    b: Option<String>,
}

#[derive(Debug, Serialize)]
struct DeviceDiffJson {
    device: i64,
    same: bool,
    #[serde(flatten)]
    difference: DifferenceJson,
    same_events: bool,
    events: BothJson<usize>,
    same_events_at_start: usize,
    alike_events_at_end: usize,
    /// The first event that is another in each; null where all are the same, and for a recording that has ended.
    first_difference: Option<BothJson<Option<EventJson>>>,
    changed: Vec<ChangedJson>,
    peak_requested_bytes: BothJson<u64>,
    peak_allocated_bytes: BothJson<u64>,
    peak_active_bytes: BothJson<u64>,
    peak_reserved_bytes: BothJson<u64>,
    end_allocated_bytes: BothJson<u64>,
    end_reserved_bytes: BothJson<u64>,
    end_segments: BothJson<usize>,
}

#[derive(Debug, Serialize)]
struct EventJson {
    event: usize,
    action: &'static str,
    bytes: u64,
    /// The line of the user's code.
    key: String,
}

#[derive(Debug, Serialize)]
struct ChangedJson {
    action: &'static str,
    bytes: u64,
    count: BothJson<usize>,
    /// The first of them in each recording.
    first: BothJson<Option<EventJson>>,
}

impl DiffJson {
    /// What two recordings have in common, and where they part.
    pub fn new(answers: &DiffAnswers<'_>) -> Self {
        Self {
            files: answers.recordings.map(|of| of.file.to_owned()).into(),
            same: answers.is_same(),
            devices: answers
                .devices
                .iter()
                .map(|device| DeviceDiffJson::new(device, &answers.recordings))
                .collect(),
            only: answers.only.clone().into(),
            settings: answers.settings.iter().map(setting).collect(),
        }
    }
}

impl DeviceDiffJson {
    fn new(diff: &DeviceDiff, recordings: &Both<Compared<'_>>) -> Self {
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
        Self {
            device: diff.device,
            same: diff.is_same(),
            difference: DifferenceJson::new(&diff.difference, &recordings.map(Compared::names)),
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
