//! Operators and kernels of a `torch.profiler` trace beside the memory of a recording.
//!
//! - `clock`: the profiler's time of each recorded event, and the memory of an operator.
//! - `sequence`: finds a sequence of sizes in another one.

mod clock;
mod sequence;

use std::sync::Arc;

use vramscope_trace::{Action, MemoryChange, OperatorTrace};

use crate::history::{History, Moment, event_times};
pub use clock::{OperatorClock, OperatorMemory};

/// How the clocks of a trace and a recording were related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignedBy {
    /// Both have the time since the Unix epoch.
    Clock,
    /// The allocations of the trace are a part of those of the recording, in order.
    Sequence,
}

/// The relation between the clock of a trace and the events of a recording.
#[derive(Debug, Clone)]
pub struct Alignment {
    /// How the clocks were related.
    pub by: AlignedBy,
    /// The trace's clock minus that of the recording, in nanoseconds: the median over the matched events, or 0 without any. `None` if the
    /// recording has no times.
    pub offset_ns: Option<i64>,
    /// Number of allocations of the trace that are those of the recording.
    pub matched: usize,
    /// Number of allocations of the trace in the recorded part of the program.
    pub compared: usize,
    /// Number of other places of the recording where a part of the trace fits as well, if nothing shows which one is right. Its operators
    /// may then be of another repetition. 0 for alignments by the clock.
    pub other_places: usize,
    /// The clock of each history, in their order.
    pub clocks: Vec<Arc<OperatorClock>>,
}

/// Why a trace cannot be shown beside a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAligned {
    /// The trace has no spans.
    #[error("the trace has no operators, kernels or annotations")]
    Empty,
    /// There is nothing to relate them by.
    #[error(
        "the trace and the recording are of different times, and the trace has no memory events to match; profile with `profile_memory=True`"
    )]
    NothingToMatch,
    /// The allocations differ.
    #[error(
        "the trace is of another run: {matched} of its {compared} allocations are in the recording, by their times and by their order"
    )]
    OtherRun {
        /// Number of allocations of the trace that are in the recording.
        matched: usize,
        /// Number of allocations of the trace.
        compared: usize,
    },
    /// The program repeats itself, and nothing shows which repetition the trace is of.
    #[error(
        "the allocations of the trace match those of the recording at {places} places, and their clocks differ; profile and record in one run"
    )]
    Ambiguous {
        /// Number of places.
        places: usize,
    },
}

/// The largest difference of the two clocks, and of two readings within one allocation, in nanoseconds. Both are converted from the same
/// counter; measured differences are a few microseconds.
const TOLERANCE_NS: i64 = 1_000_000;

/// A matched event: its index, the profiler's time, and the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    event: u32,
    at_ns: i64,
    thread: i64,
}

impl Alignment {
    /// Relates the clock of `trace` to the events of the devices of one recording.
    ///
    /// # Errors
    /// Fails if the trace is not of the same run, or if that cannot be determined.
    pub fn of(histories: &[&History], trace: &OperatorTrace) -> Result<Self, NotAligned> {
        let range = trace.range().filter(|_| !trace.lanes.is_empty()).ok_or(NotAligned::Empty)?;
        let devices: Vec<Device<'_>> =
            histories.iter().map(|history| Device::of(history, &trace.memory)).collect();
        let matched = match by_clock(&devices, range) {
            Ok(aligned) => return Ok(aligned),
            Err(matched) => matched,
        };
        let compared = devices.iter().map(|device| device.allocations().count()).sum();
        if compared == 0 {
            return Err(NotAligned::NothingToMatch);
        }
        by_sequence(&devices)?.ok_or(NotAligned::OtherRun { matched, compared })
    }
}

/// A device of the recording, and what the trace has of it.
struct Device<'h> {
    history: &'h History,
    /// The time of each event in microseconds; `None` if an event has none.
    times: Option<Vec<i64>>,
    changes: Vec<&'h MemoryChange>,
}

impl<'h> Device<'h> {
    fn of(history: &'h History, memory: &'h [MemoryChange]) -> Self {
        let number = history.device().device;
        let changes = memory.iter().filter(|change| change.device == number).collect();
        Self { history, times: event_times(history.device()), changes }
    }

    /// The allocations of the trace.
    fn allocations(&self) -> impl Iterator<Item = &'h MemoryChange> {
        self.changes.iter().copied().filter(|change| change.bytes > 0)
    }

    /// The first and the last time of the recording, in nanoseconds.
    fn range(&self) -> Option<(i64, i64)> {
        let times = self.times.as_ref()?;
        Some((nanoseconds(*times.first()?), nanoseconds(*times.last()?)))
    }

    /// The number of allocations of the trace from the first event of the recording to the last, for this offset. `anchors` are the matches
    /// for it. At the ends, where the two readings of the clock may differ by less than the distance of two allocations, the first and the
    /// last match decide.
    fn compared(&self, offset_ns: i64, anchors: &[Anchor]) -> usize {
        let Some((first, last)) = self.range() else { return 0 };
        let (first, last) = (first.saturating_add(offset_ns), last.saturating_add(offset_ns));
        let times = anchors.iter().map(|anchor| anchor.at_ns);
        let first = times.clone().fold(first, i64::min);
        let last = times.fold(last, i64::max);
        self.allocations().filter(|change| (first..=last).contains(&change.at_ns)).count()
    }

    /// The events that are those of the trace: the same address at the same time, and the same size. `offset_ns` is the difference of the
    /// clocks.
    fn matches(&self, offset_ns: i64) -> Vec<Anchor> {
        let Some(times) = &self.times else { return Vec::new() };
        let events = &self.history.device().events;
        let requested = events.actions().iter().any(|a| matches!(a, Action::FreeRequested | Action::Free));
        let free = if requested { Action::FreeRequested } else { Action::FreeCompleted };
        let mut recorded: Vec<(u64, bool, i64, u32)> = Vec::new();
        for (event, (&action, &us)) in (0..).zip(events.actions().iter().zip(times)) {
            let is_free = action == free || action == Action::Free;
            if is_free || action == Action::Alloc {
                let address = events.get(event as usize).address_or_free;
                recorded.push((address, is_free, nanoseconds(us), event));
            }
        }
        recorded.sort_unstable();
        // Distances in time, with the positions of the change and of the event.
        let mut pairs: Vec<(u64, usize, usize)> = Vec::new();
        for (position, change) in self.changes.iter().enumerate() {
            let at = change.at_ns.saturating_sub(offset_ns);
            let key = (change.address, change.bytes < 0, at, 0);
            let place = recorded.partition_point(|one| *one < key);
            let near = place.saturating_sub(MOST_NEAR)..(place + MOST_NEAR).min(recorded.len());
            let fits = |&i: &usize| {
                let (address, is_free, ns, event) = recorded[i];
                (address, is_free) == (change.address, change.bytes < 0)
                    && ns.abs_diff(at) <= TOLERANCE_NS.unsigned_abs()
                    && (is_free || self.has_size(event, change.bytes.unsigned_abs()))
            };
            pairs.extend(near.filter(fits).map(|i| (recorded[i].2.abs_diff(at), position, i)));
        }
        // The nearest pairs first: a program may allocate the same block again within a millisecond.
        pairs.sort_unstable();
        let (mut is_matched, mut taken) = (vec![false; self.changes.len()], vec![false; recorded.len()]);
        let mut anchors = Vec::new();
        for (_, position, found) in pairs {
            if !is_matched[position] && !taken[found] {
                (is_matched[position], taken[found]) = (true, true);
                let change = self.changes[position];
                anchors.push(Anchor { event: recorded[found].3, at_ns: change.at_ns, thread: change.thread });
            }
        }
        anchors.sort_unstable_by_key(|anchor| anchor.event);
        anchors
    }

    /// Whether the allocation of this event may have a block of `bytes`.
    fn has_size(&self, event: u32, bytes: u64) -> bool {
        self.history
            .subject(event as usize)
            .is_some_and(|a| a.size == bytes || a.requested == bytes || a.size_inferred)
    }

    /// Number of anchors that are allocations.
    fn allocations_among(&self, anchors: &[Anchor]) -> usize {
        let actions = self.history.device().events.actions();
        anchors.iter().filter(|anchor| actions[anchor.event as usize] == Action::Alloc).count()
    }

    /// The differences of the clocks at some events.
    fn differences(&self, anchors: &[Anchor]) -> Vec<i64> {
        let times = self.times.as_deref().unwrap_or_default();
        let difference = |anchor: &Anchor| {
            let us = times.get(anchor.event as usize)?;
            Some(anchor.at_ns.saturating_sub(nanoseconds(*us)))
        };
        anchors.iter().filter_map(difference).collect()
    }
}

/// Maximum number of events that are compared with one of the trace, on each side of its time.
const MOST_NEAR: usize = 8;

/// Aligns by the clock. If that fails, returns the number of allocations that match.
fn by_clock(devices: &[Device<'_>], (first, last): (i64, i64)) -> Result<Alignment, usize> {
    let overlaps = |device: &Device<'_>| {
        device.range().is_some_and(|(from, to)| first <= to + TOLERANCE_NS && from - TOLERANCE_NS <= last)
    };
    if !devices.iter().any(overlaps) {
        return Err(0);
    }
    let has_memory = devices.iter().any(|device| device.allocations().next().is_some());
    let rough: Vec<_> = devices.iter().map(|device| device.matches(0)).collect();
    let differences = devices.iter().zip(&rough).flat_map(|(device, anchors)| device.differences(anchors));
    let offset_ns = median(differences.collect()).unwrap_or(0);
    let anchors: Vec<_> = devices.iter().map(|device| device.matches(offset_ns)).collect();
    let matched =
        devices.iter().zip(&anchors).map(|(device, anchors)| device.allocations_among(anchors)).sum();
    let compared =
        devices.iter().zip(&anchors).map(|(device, anchors)| device.compared(offset_ns, anchors)).sum();
    if has_memory && (compared == 0 || matched * 2 < compared) {
        return Err(matched);
    }
    let clock = |(device, anchors): (&Device<'_>, &Vec<Anchor>)| {
        Arc::new(OperatorClock::new(device.history, device.times.clone(), anchors, Some(offset_ns), true))
    };
    let clocks = devices.iter().zip(&anchors).map(clock).collect();
    Ok(Alignment {
        by: AlignedBy::Clock,
        offset_ns: Some(offset_ns),
        matched,
        compared,
        other_places: 0,
        clocks,
    })
}

/// Aligns by the sequence of the allocations' sizes. `None` if the recording does not have it.
fn by_sequence(devices: &[Device<'_>]) -> Result<Option<Alignment>, NotAligned> {
    let mut found = Vec::new();
    for device in devices {
        found.push(sequence_of(device)?);
    }
    let compared = found.iter().map(|found| found.compared).sum();
    let other_places = found.iter().map(|found| found.other_places).max().unwrap_or(0);
    let anchors: Vec<_> = found.into_iter().map(|found| found.anchors).collect();
    let matched = anchors.iter().map(Vec::len).sum();
    if matched == 0 {
        return Ok(None);
    }
    let differences = devices.iter().zip(&anchors).flat_map(|(device, anchors)| device.differences(anchors));
    let offset_ns = median(differences.collect());
    let clock = |(device, anchors): (&Device<'_>, &Vec<Anchor>)| {
        Arc::new(OperatorClock::new(device.history, device.times.clone(), anchors, offset_ns, false))
    };
    let clocks = devices.iter().zip(&anchors).map(clock).collect();
    Ok(Some(Alignment { by: AlignedBy::Sequence, offset_ns, matched, compared, other_places, clocks }))
}

/// The allocations of a device that are those of the trace, by their order.
#[derive(Default)]
struct InOrder {
    anchors: Vec<Anchor>,
    /// Number of allocations of the trace that have a place in the recording.
    compared: usize,
    /// As in [`Alignment`].
    other_places: usize,
}

/// Finds the allocations of the trace among those of a device by their order.
fn sequence_of(device: &Device<'_>) -> Result<InOrder, NotAligned> {
    let traced: Vec<&MemoryChange> = device.allocations().collect();
    let mut recorded: Vec<_> =
        device.history.allocations.iter().filter(|a| !a.is_preexisting() && a.from > Moment::START).collect();
    recorded.sort_by_key(|a| a.from);
    let sizes: Vec<u64> = traced.iter().map(|change| change.bytes.unsigned_abs()).collect();
    let of: Vec<u64> = recorded.iter().map(|a| a.size).collect();
    let pairs = |shift: i64| {
        let pair = |(i, change): (usize, &&MemoryChange)| {
            let at = usize::try_from(i as i64 + shift).ok()?;
            let a = recorded.get(at).filter(|a| a.size == change.bytes.unsigned_abs())?;
            let event = u32::try_from(a.from.event()?).ok()?;
            let anchor = Anchor { event, at_ns: change.at_ns, thread: change.thread };
            Some((anchor, a.address == change.address))
        };
        traced.iter().enumerate().filter_map(pair).collect::<Vec<_>>()
    };
    let place = |shift: sequence::Shift| {
        let pairs = pairs(shift.by);
        let same = pairs.iter().filter(|(_, is_same)| *is_same).count();
        let first = shift.by.min(0).unsigned_abs() as usize;
        let end = (of.len() as i64 - shift.by).clamp(0, sizes.len() as i64) as usize;
        let anchors = pairs.into_iter().map(|(anchor, _)| anchor).collect();
        Place { same, compared: end.saturating_sub(first), is_best: shift.is_best, anchors }
    };
    // Of several places, those with the same addresses, then the one that keeps the distances in time, then the one with the most
    // allocations.
    let mut places: Vec<Place> = sequence::shifts(&sizes, &of).into_iter().map(place).collect();
    let most = places.iter().filter(|place| place.is_best).map(|place| place.same).max().unwrap_or(0);
    places.retain(|place| !place.is_best || place.same == most);
    let share = places.iter().find(|place| place.is_best).map_or(0.0, Place::share_of_addresses);
    places.retain(|place| place.share_of_addresses() >= share);
    let best: Vec<usize> = (0..places.len()).filter(|&i| places[i].is_best).collect();
    let (at, other_places) = match (clearest(device, &places), &best[..]) {
        (Some(clearest), _) => (clearest, 0),
        (None, []) => return Ok(InOrder::default()),
        (None, &[only]) => (only, places.len() - 1),
        (None, _) => return Err(NotAligned::Ambiguous { places: best.len() }),
    };
    let Place { anchors, compared, .. } = places.swap_remove(at);
    Ok(InOrder { anchors, compared, other_places })
}

/// The position of the only place, or of the place with clearly the smallest differences of the distances in time.
fn clearest(device: &Device<'_>, places: &[Place]) -> Option<usize> {
    let mut spread: Vec<(u64, usize)> = (0..)
        .zip(places)
        .map(|(i, place)| {
            let differences = device.differences(&place.anchors);
            let middle = median(differences.clone());
            let apart = |middle: i64| median(differences.iter().map(|d| d.abs_diff(middle)).collect());
            (middle.and_then(apart).unwrap_or(u64::MAX), i)
        })
        .collect();
    spread.sort_unstable();
    match spread[..] {
        [(_, only)] => Some(only),
        [(best, i), (next, _), ..] if best.saturating_mul(CLEARLY) < next => Some(i),
        _ => None,
    }
}

/// A place of the trace in the recording.
struct Place {
    /// Number of allocations with the same address.
    same: usize,
    /// Number of allocations of the trace for which the recording has one there.
    compared: usize,
    /// Whether no other place has more allocations of the same size.
    is_best: bool,
    /// The allocations of the same size.
    anchors: Vec<Anchor>,
}

impl Place {
    /// The share of allocations that also have the same address.
    fn share_of_addresses(&self) -> f64 {
        self.same as f64 / self.anchors.len().max(1) as f64
    }
}

/// The distances in time at the right place differ by this factor less than those at any other. Two steps of a program differ by more
/// microseconds than two readings of one clock.
const CLEARLY: u64 = 3;

/// Returns the median; the lower of two. `None` without values.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

fn nanoseconds(us: i64) -> i64 {
    us.saturating_mul(1000)
}
