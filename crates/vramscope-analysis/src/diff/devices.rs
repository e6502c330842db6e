//! Event-by-event comparison of two recordings of the same program.

use std::collections::HashMap;

use vramscope_trace::{Action, Events};

use super::group_peaks::{GroupPeakChange, GroupsInInterval, group_peaks_of_both};
use super::memory::{ComparedPart, DeviceHistory, Difference};
use crate::basics::{Both, Side};
use crate::groups::{By, NoProperties};
use crate::history::{EndState, History, Interval, Moment, Peaks};
use vramscope_basics::Cancel;

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

/// The bytes by which the second of two recordings is lower, negative if it is higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreedBytes {
    /// At the peak of allocated bytes of each.
    pub peak_allocated: i64,
    /// At the peak of reserved bytes of each.
    pub peak_reserved: i64,
    /// Allocated bytes at the end.
    pub end_allocated: i64,
    /// Reserved bytes at the end.
    pub end_reserved: i64,
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

impl DeviceDiff {
    /// Compares one device in two recordings: event by event as a whole, and otherwise in `parts`; `None` is the whole recording,
    /// at the peak of allocated bytes. Returns `None` if cancelled.
    pub fn of(
        devices: Both<DeviceHistory<'_>>,
        parts: Both<Option<ComparedPart>>,
        cancel: &Cancel,
    ) -> Option<Self> {
        let histories = devices.map(|of| of.history);
        let events = histories.map(|history| history.device().events.len());
        let same_at_start = same_at_start(histories);
        let rest = events.a.min(events.b) - same_at_start;
        let columns = Both { a: &histories.a.device().events, b: &histories.b.device().events };
        let alike_at_end = alike_at_end(columns, rest);
        let between = events.map(|events| same_at_start..events - alike_at_end);
        let within = |side: Side| {
            let DeviceHistory { history, frames } = *devices.of(side);
            let whole = ComparedPart { at: Moment::START, from: Moment::START, to: history.end() };
            let ComparedPart { from, to, .. } = parts.of(side).unwrap_or(whole);
            GroupsInInterval {
                history,
                frames,
                known: &NoProperties,
                interval: Interval::of(history, from, to),
            }
        };
        let within = Both { a: within(Side::A), b: within(Side::B) };
        let highest = group_peaks_of_both(within, By::Line, &|_, _| false, cancel)?;
        let difference = Difference::of(devices, parts.map(|part| part.map(|part| part.at)));
        (!cancel.is_cancelled()).then(|| Self {
            device: histories.a.device().device,
            events,
            same_at_start,
            alike_at_end,
            changed: changed(columns, between),
            end: histories.map(|history| EndState::of(history.device())),
            difference,
            highest,
        })
    }

    /// Returns the bytes that the second recording does not need any more.
    pub fn freed(&self) -> FreedBytes {
        let freed = |of: Both<u64>| of.difference().saturating_neg();
        FreedBytes {
            peak_allocated: freed(self.difference.peaks.map(|peaks: &Peaks| peaks.allocated.bytes)),
            peak_reserved: freed(self.difference.peaks.map(|peaks: &Peaks| peaks.reserved.bytes)),
            end_allocated: freed(self.end.map(|end| end.allocated)),
            end_reserved: freed(self.end.map(|end| end.reserved)),
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

fn same_at_start(histories: Both<&History>) -> usize {
    let (mut a, mut b) = (Comparable::of(histories.a), Comparable::of(histories.b));
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
    for side in Side::BOTH {
        let events = *events.of(side);
        for i in between.of(side).clone().filter(|&i| events.actions()[i] != Action::FreeCompleted) {
            let (action, size) = (events.actions()[i], events.sizes()[i]);
            let kind = kinds.entry((action, size)).or_insert(ChangedEvents {
                action,
                size,
                count: Both { a: 0, b: 0 },
                first: Both { a: None, b: None },
            });
            *kind.count.of_mut(side) += 1;
            kind.first.of_mut(side).get_or_insert(i);
        }
    }
    let mut changed: Vec<ChangedEvents> = kinds.into_values().filter(|kind| !kind.count.is_same()).collect();
    changed.sort_by_key(|kind| {
        (std::cmp::Reverse(kind.bytes()), kind.first.a, kind.first.b, kind.action, kind.size)
    });
    changed
}
