//! Event-by-event comparison of two recordings of the same program.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_trace::{Action, Events, Trace};

use super::group_peaks::{GroupPeakChange, GroupsInInterval, group_peaks_of_both};
use super::memory::{ComparedHistory, Difference};
use crate::basics::{Both, Cancel, Side};
use crate::groups::{By, NoProperties};
use crate::history::{EndState, History, Interval, Moment, Peaks};
use crate::stacks::Frames;
use crate::steps::Step;

/// The comparison of one device in two recordings.
///
/// Two events are the same if they have the same [`Action`], the same number of bytes, the same stream and the same block.
/// Streams and blocks have different numbers and addresses in each run; they are the same if they first appeared at the same
/// event. Addresses, times and stacks are not compared.
#[derive(Debug, Clone)]
pub struct DeviceDiff {
    /// The device index.
    pub device: i64,
    /// Number of recorded events.
    pub events: Both<usize>,
    /// Number of events at the start that are the same, one by one.
    pub same_at_start: usize,
    /// Number of events at the end with equal actions and sizes. They do not overlap with the events counted by `same_at_start`.
    pub alike_at_end: usize,
    /// Events in between that one recording has more often than the other, most bytes first. Completions of frees are left out.
    pub changed: Vec<ChangedEvents>,
    /// Sums over the segments and blocks at the end.
    pub end: Both<EndState>,
    /// The difference in live memory, and its causes.
    pub difference: Difference,
    /// The peak of each line by itself within the compared parts, largest growth first. The peaks of different lines may be at
    /// different moments.
    pub highest: Vec<GroupPeakChange>,
}

/// Events of one action and size that one recording has more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedEvents {
    /// The action.
    pub action: Action,
    /// Bytes of each event.
    pub size: u64,
    /// Number of such events between the common events at the start and at the end.
    pub count: Both<usize>,
    /// The index of the first such event in each recording.
    pub first: Both<Option<usize>>,
}

impl ChangedEvents {
    /// Returns the bytes by which the recordings differ in these events.
    fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count.a.abs_diff(self.count.b) as u64)
    }
}

/// Some devices of a recording.
#[derive(Debug, Clone, Copy)]
pub struct Devices<'t> {
    /// The recording.
    pub trace: &'t Arc<Trace>,
    /// The classification of the recording's frames.
    pub frames: &'t Frames,
    /// The devices' positions in [`Trace::devices`].
    pub positions: &'t [usize],
}

/// One device of a recording.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRecording<'t> {
    /// The recording.
    pub trace: &'t Arc<Trace>,
    /// The device's position in [`Trace::devices`].
    pub position: usize,
    /// The classification of the recording's frames.
    pub frames: &'t Frames,
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
        Self { at: step.peak_moment, from: step.from, to: step.to }
    }
}

/// Chooses the part of a recording to compare. `None` compares the whole recording, at the peak of allocated bytes.
pub(crate) type PartOf<'f> = &'f dyn Fn(&History) -> Option<ComparedPart>;

/// Compares all devices that both recordings have. Also returns the indices of the devices that only one recording has. `part`
/// chooses the part of a recording to compare; `None` is the whole recording, at the peak of allocated bytes.
///
/// # Panics
/// If a trace has no device at one of its positions.
pub fn diff_devices(of: Both<Devices<'_>>, part: PartOf<'_>) -> (Vec<DeviceDiff>, Both<Vec<i64>>) {
    let used = of.map(|of| -> Vec<(i64, usize)> {
        of.positions.iter().map(|&position| (of.trace.devices[position].device, position)).collect()
    });
    let both = used.a.iter().filter_map(|&(device, a)| {
        let &(_, b) = used.b.iter().find(|(other, _)| *other == device)?;
        Some(DeviceDiff::of(Both { a: of.a.at(a), b: of.b.at(b) }, part))
    });
    let only = |of: &[(i64, usize)], others: &[(i64, usize)]| {
        let is_alone = |device: &i64| !others.iter().any(|(other, _)| other == device);
        of.iter().map(|(device, _)| *device).filter(is_alone).collect()
    };
    (both.collect(), Both { a: only(&used.a, &used.b), b: only(&used.b, &used.a) })
}

impl<'t> Devices<'t> {
    fn at(self, position: usize) -> DeviceRecording<'t> {
        let Self { trace, frames, .. } = self;
        DeviceRecording { trace, position, frames }
    }
}

impl DeviceDiff {
    /// Compares one device in two recordings, both event by event and in the chosen parts.
    ///
    /// # Panics
    /// If a trace has no such device.
    pub fn of(devices: Both<DeviceRecording<'_>>, part: PartOf<'_>) -> Self {
        let histories = devices.map(|of| History::replayed(of.trace, of.position));
        let parts = histories.map(part);
        let events = histories.map(|history| history.device().events.len());
        let same_at_start = same_at_start(&histories);
        let rest = events.a.min(events.b) - same_at_start;
        let columns = Both { a: &histories.a.device().events, b: &histories.b.device().events };
        let alike_at_end = alike_at_end(columns, rest);
        let between = events.map(|events| same_at_start..events - alike_at_end);
        let within = |side: Side| {
            let history = histories.of(side);
            let whole = ComparedPart { at: Moment::START, from: Moment::START, to: history.end() };
            let ComparedPart { from, to, .. } = parts.of(side).unwrap_or(whole);
            let interval = Interval::of(history, from, to);
            GroupsInInterval { history, frames: devices.of(side).frames, known: &NoProperties, interval }
        };
        let within = Both { a: within(Side::A), b: within(Side::B) };
        let compared = |side: Side| ComparedHistory {
            history: histories.of(side),
            frames: devices.of(side).frames,
            at: parts.of(side).map(|part| part.at),
        };
        Self {
            device: histories.a.device().device,
            events,
            same_at_start,
            alike_at_end,
            changed: changed(columns, between),
            end: histories.map(|history| EndState::of(history.device())),
            difference: Difference::of(Both { a: compared(Side::A), b: compared(Side::B) }),
            // This computation is never cancelled.
            highest: group_peaks_of_both(within, By::Line, &|_, _| false, &Cancel::default())
                .unwrap_or_default(),
        }
    }

    /// Whether all events are the same, one by one.
    pub fn has_same_events(&self) -> bool {
        self.events.is_same() && self.same_at_start == self.events.a
    }

    /// Whether the events, the peaks and the end states are all the same.
    pub fn is_same(&self) -> bool {
        let bytes = |p: &Peaks| [p.requested, p.allocated, p.active, p.reserved].map(|peak| peak.bytes);
        self.has_same_events() && self.difference.peaks.map(bytes).is_same() && self.end.is_same()
    }
}

/// Numbers values in the order of their first appearance.
#[derive(Default)]
struct Appearance {
    numbers: HashMap<u64, usize>,
}

impl Appearance {
    fn number(&mut self, thing: u64) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(thing).or_insert(next)
    }
}

/// The events of a history in a form that can be compared across runs.
struct Comparable<'h> {
    history: &'h History,
    streams: Appearance,
    blocks: Appearance,
}

impl<'h> Comparable<'h> {
    fn of(history: &'h History) -> Self {
        Self { history, streams: Appearance::default(), blocks: Appearance::default() }
    }

    /// Returns event `i`; the caller must request the events in order.
    fn next(&mut self, i: usize) -> (Action, u64, usize, Option<usize>) {
        let event = self.history.device().events.get(i);
        let stream = self.streams.number(self.history.trace().tags.get(event.tags).stream);
        let block = self.history.subject_number(i).map(|block| self.blocks.number(block as u64));
        (event.action, event.size, stream, block)
    }
}

fn same_at_start(histories: &Both<History>) -> usize {
    let (mut a, mut b) = (Comparable::of(&histories.a), Comparable::of(&histories.b));
    let shorter = histories.map(|history| history.device().events.len());
    let shorter = shorter.a.min(shorter.b);
    (0..shorter).find(|&i| a.next(i) != b.next(i)).unwrap_or(shorter)
}

fn alike_at_end(events: Both<&Events>, most: usize) -> usize {
    let kind = |events: &Events, from_end: usize| {
        let i = events.len() - 1 - from_end;
        (events.actions()[i], events.sizes()[i])
    };
    (0..most).find(|&i| kind(events.a, i) != kind(events.b, i)).unwrap_or(most)
}

fn changed(events: Both<&Events>, between: Both<std::ops::Range<usize>>) -> Vec<ChangedEvents> {
    let mut kinds: HashMap<(Action, u64), ChangedEvents> = HashMap::new();
    let mut count = |events: &Events, range: std::ops::Range<usize>, is_a: bool| {
        for i in range.filter(|&i| events.actions()[i] != Action::FreeCompleted) {
            let (action, size) = (events.actions()[i], events.sizes()[i]);
            let kind = kinds.entry((action, size)).or_insert(ChangedEvents {
                action,
                size,
                count: Both { a: 0, b: 0 },
                first: Both { a: None, b: None },
            });
            let (count, first) = if is_a {
                (&mut kind.count.a, &mut kind.first.a)
            } else {
                (&mut kind.count.b, &mut kind.first.b)
            };
            *count += 1;
            first.get_or_insert(i);
        }
    };
    count(events.a, between.a, true);
    count(events.b, between.b, false);
    let mut changed: Vec<ChangedEvents> = kinds.into_values().filter(|kind| !kind.count.is_same()).collect();
    changed.sort_by_key(|kind| {
        (std::cmp::Reverse(kind.bytes()), kind.first.a, kind.first.b, kind.action, kind.size)
    });
    changed
}
