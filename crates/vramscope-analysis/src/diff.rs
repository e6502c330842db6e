//! What two recordings of the same program have in common, event by event.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_trace::{Action, Events, Trace};

use crate::both::{Both, Side};
use crate::budget::DeviceRecording;
use crate::cancel::Cancel;
use crate::counters::Peaks;
use crate::difference::{Compared, Difference};
use crate::frames::Frames;
use crate::highest::{HighestChange, Within, highest_of_both};
use crate::history::History;
use crate::holders::{By, NothingMore};
use crate::moment::Moment;
use crate::steps::Step;
use crate::stretch::Stretch;
use crate::summary::EndState;

/// One device in two recordings.
///
/// Two events are the same where the same happened (see [`Action`]), with as many bytes, on the same stream, to the same block. Streams and
/// blocks have other numbers and addresses in each run: the same is what first appeared at the same event. Addresses, times and
/// stacks are not compared.
#[derive(Debug, Clone)]
pub struct DeviceDiff {
    /// The device's number.
    pub device: i64,
    /// How many events were recorded.
    pub events: Both<usize>,
    /// How many of the first events are the same, one for one.
    pub same_at_start: usize,
    /// How many of the last events are alike: what happened, and how many bytes. None of them is among the first.
    pub alike_at_end: usize,
    /// What happened between more often in one recording than in the other, most bytes first. Completions of frees are left out.
    pub changed: Vec<ChangedEvents>,
    /// What the segments and blocks at the end add up to.
    pub end: Both<EndState>,
    /// What they hold, and what made the difference.
    pub difference: Difference,
    /// Each line at its own highest in the parts that are compared, whatever else was live then: what grew most first.
    pub highest: Vec<HighestChange>,
}

/// Events of one kind and size that one recording has more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedEvents {
    /// What happened.
    pub action: Action,
    /// Bytes of each.
    pub size: u64,
    /// How many there are between the events at the beginning and at the end that are in both.
    pub count: Both<usize>,
    /// The first of them in each recording.
    pub first: Both<Option<usize>>,
}

impl ChangedEvents {
    /// Bytes by which the recordings differ here.
    fn bytes(&self) -> u64 {
        self.size.saturating_mul(self.count.a.abs_diff(self.count.b) as u64)
    }
}

/// Some devices of a recording.
#[derive(Debug, Clone, Copy)]
pub struct Devices<'t> {
    /// The recording.
    pub trace: &'t Arc<Trace>,
    /// Whose code its frames are.
    pub frames: &'t Frames,
    /// Their positions in [`Trace::devices`].
    pub positions: &'t [usize],
}

/// A part of a recording that is compared with one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparedPart {
    /// The moment of it to look at.
    pub at: Moment,
    /// Its first moment.
    pub from: Moment,
    /// Its last moment.
    pub to: Moment,
}

impl From<&Step> for ComparedPart {
    fn from(step: &Step) -> Self {
        Self { at: step.peak_moment, from: step.from, to: step.to }
    }
}

/// Which part of a recording is compared with one of the other: `None` is all of it, at the peak of allocated bytes.
pub type PartOf<'f> = &'f dyn Fn(&History) -> Option<ComparedPart>;

/// Compares all of the devices that both recordings have, and names those that only the one or the other has.
///
/// # Panics
/// Where a trace has no device at one of its positions.
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
    /// Compares a device of two recordings, event by event and a part of each.
    ///
    /// # Panics
    /// Where a trace has no such device.
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
            let stretch = Stretch::of(history, from, to);
            Within { history, frames: devices.of(side).frames, known: &NothingMore, stretch }
        };
        let within = Both { a: within(Side::A), b: within(Side::B) };
        let compared = |side: Side| Compared {
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
            // Nobody cancels it.
            highest: highest_of_both(within, By::Line, &|_, _| false, &Cancel::default()).unwrap_or_default(),
        }
    }

    /// All events are the same, one for one.
    pub fn has_same_events(&self) -> bool {
        self.events.is_same() && self.same_at_start == self.events.a
    }

    /// The events are the same, and what they come to: the peaks, and the end.
    pub fn is_same(&self) -> bool {
        let bytes = |p: &Peaks| [p.requested, p.allocated, p.active, p.reserved].map(|peak| peak.bytes);
        self.has_same_events() && self.difference.peaks.map(bytes).is_same() && self.end.is_same()
    }
}

/// Numbers things in the order in which they first appear.
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

/// The events of a history, as they can be compared with those of another run.
struct Comparable<'h> {
    history: &'h History,
    streams: Appearance,
    blocks: Appearance,
}

impl<'h> Comparable<'h> {
    fn of(history: &'h History) -> Self {
        Self { history, streams: Appearance::default(), blocks: Appearance::default() }
    }

    /// Event number `i`; events are asked for in their order.
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
