//! The timeline: stacked live memory over events or time, drawn at any zoom. The drawing time depends on the window, not on the
//! length of the recording.
//!
//! Each pixel column shows the moment in it with the most live bytes (`basics::range_max` finds it in a column of four bytes for each moment).
//! So no peak is lost at any zoom. `picture` walks the allocations that are live at those moments once, oldest first. Each column grows
//! from the bottom: it adds bytes, and starts a run of rows only when it passes the middle of a row. Time depends on the allocations
//! shown, not on the length of the recording. `lifetimes` stores the live allocations every few thousand moments. `bands` sums bytes by
//! category at the same moments. `first_difference` compares the outlines of two parts.

mod bands;
mod clock;
mod first_difference;
mod lifetimes;
mod picture;

use std::sync::{Arc, OnceLock};

pub use bands::{Bands, Span};
pub use first_difference::FirstDifference;
pub use picture::{NO_COLUMN, Picture};
use serde::Deserialize;
use vramscope_trace::Events;

use clock::Clock;
use lifetimes::Lifetimes;
use picture::Stack;

use crate::basics::{Column, RangeMax, beside};
use crate::history::{Counters, History, Interval, Moment, Peak, Peaks, RecordedAllocation};
use vramscope_basics::Cancel;

/// A kind of bytes, and the items that the timeline stacks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteKind {
    /// Live allocations with their requested bytes, until their blocks are available again.
    Requested,
    /// Live allocations with their block sizes, until they are freed.
    Allocated,
    /// Live allocations with their block sizes, until the blocks are available again.
    Active,
    /// Reserved ranges.
    Reserved,
}

impl ByteKind {
    /// All kinds, in the order used by [`View::highest`].
    pub const ALL: [Self; 4] = [Self::Requested, Self::Allocated, Self::Active, Self::Reserved];

    fn of(self, counters: Counters) -> u64 {
        match self {
            Self::Requested => counters.requested,
            Self::Allocated => counters.allocated,
            Self::Active => counters.active,
            Self::Reserved => counters.reserved,
        }
    }
}

/// The unit of a picture's horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Moments: moment `n` is drawn between `n` and `n + 1`.
    Events,
    /// Microseconds after the first event; without recorded times, the axis counts events.
    Time,
}

/// The part of the timeline to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureWindow {
    /// The kind of bytes to stack.
    pub stacked: ByteKind,
    /// The unit of the horizontal axis.
    pub axis: Axis,
    /// The start of the window, in the unit of the axis.
    pub from: f64,
    /// The end of the window, in the unit of the axis.
    pub to: f64,
    /// Number of pixel columns, at most [`LARGEST_SIDE`].
    pub width: u16,
    /// Number of pixel rows, at most [`LARGEST_SIDE`].
    pub height: u16,
    /// Bytes at the lower edge.
    pub low: f64,
    /// Bytes at the upper edge; `None` fits the picture to the highest value.
    pub high: Option<f64>,
    /// If `high` is `None`: also leave room for the line of reserved bytes above the stack.
    pub fit_reserved: bool,
}

/// The largest width and height of a picture, in pixels.
pub const LARGEST_SIDE: u16 = 16_384;

/// The factor by which a fitted picture is higher than the highest value.
const HEADROOM: f64 = 1.04;

/// A picture, with the peaks in each of its pixel columns.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The picture. Its items are allocations of the history, or reserved ranges.
    pub picture: Picture,
    /// The exact peak in each pixel column, in the order of [`ByteKind::ALL`]; 0 outside of the recording.
    pub highest: [Vec<u64>; 4],
}

impl View {
    fn nothing() -> Self {
        Self { picture: Picture::default(), highest: Default::default() }
    }
}

/// The moments that the pixel columns show.
struct Shown {
    /// For each pixel column, an index into `moment`; [`NO_COLUMN`] if there is none.
    column: Vec<u32>,
    /// The moments, ascending.
    moment: Vec<u32>,
}

impl Shown {
    /// Chooses, in each range of moments, the first one at which `counter` is highest.
    fn highest(counter: &RangeMax, ranges: &[Option<(usize, usize)>]) -> Self {
        let mut moment: Vec<u32> = Vec::new();
        let mut column = Vec::with_capacity(ranges.len());
        for range in ranges {
            column.push(range.map_or(NO_COLUMN, |(a, b)| {
                let shown = counter.position(a, b) as u32;
                if moment.last() != Some(&shown) {
                    moment.push(shown);
                }
                (moment.len() - 1) as u32
            }));
        }
        Self { column, moment }
    }
}

/// A history prepared for drawing.
#[derive(Debug, Clone)]
pub struct Timeline {
    history: Arc<History>,
    /// Each kind of bytes at every moment, in the order of [`ByteKind::ALL`].
    counters: [RangeMax; 4],
    /// The lifetimes of active allocations; created on first use.
    active: OnceLock<Lifetimes>,
    /// The lifetimes of allocations until they are freed.
    allocated: Lifetimes,
    reserved: Lifetimes,
    clock: Option<Clock>,
}

impl Timeline {
    /// Prepares `history` for drawing; time and memory grow with the number of events.
    pub fn of(history: Arc<History>) -> Self {
        let moments = history.device().events.len() + 1;
        // One core computes the lifetimes, another the counters.
        let (counters, (allocated, reserved, clock)) = std::thread::scope(|scope| {
            let lifetimes = beside(scope, || {
                let allocations = (0u32..).zip(&history.allocations);
                let ranges = (0u32..).zip(&history.reserved);
                let allocated = Lifetimes::of(allocations.map(|(id, a)| (id, a.from, a.freed)), moments);
                let reserved = Lifetimes::of(ranges.map(|(id, r)| (id, r.from, r.to)), moments);
                (allocated, reserved, Clock::of(history.device()))
            });
            let bits = history.allocations.iter().map(|a| [a.requested, a.size]);
            let [requested, block] = bits.fold([0; 2], |[r, b], [requested, size]| [r | requested, b | size]);
            let reserved = history.reserved.iter().fold(0, |bits, r| bits | r.size);
            let mut columns = [requested, block, block, reserved].map(|bits| Column::of_sums(bits, moments));
            for (_, counters) in history.walk() {
                for (column, kind) in columns.iter_mut().zip(ByteKind::ALL) {
                    column.push(kind.of(counters));
                }
            }
            let [requested, allocated, active, reserved] = columns;
            let first = beside(scope, || [requested, allocated].map(RangeMax::new));
            let [third, fourth] = [active, reserved].map(RangeMax::new);
            let [first, second] = first();
            ([first, second, third, fourth], lifetimes())
        });
        Self { history, counters, active: OnceLock::new(), allocated, reserved, clock }
    }

    /// Returns a timeline of the allocations for which `keeps` returns true; `None` if cancelled. Reserved ranges and reserved bytes stay
    /// those of the whole recording. Time and memory grow with the number of events.
    pub fn only(&self, keeps: impl Fn(usize) -> bool, cancel: &Cancel) -> Option<Self> {
        let moments = self.moments();
        let allocations = &self.history.allocations;
        let kept: Vec<u32> = (0..allocations.len()).filter(|&id| keeps(id)).map(|id| id as u32).collect();
        let those = || kept.iter().map(|&id| (id, &allocations[id as usize]));
        let sums = |bytes: fn(&RecordedAllocation) -> u64, end: fn(&RecordedAllocation) -> Moment| {
            if cancel.is_cancelled() {
                return None;
            }
            let bits = those().fold(0, |bits, (_, a)| bits | bytes(a));
            let lives = those().map(|(_, a)| (a.from, end(a), bytes(a)));
            let mut changes = vec![0i128; moments];
            for (from, to, bytes) in lives.filter(|(from, to, _)| from < to) {
                // Allocations that are never freed have no change at their ends.
                for (at, change) in [(from, i128::from(bytes)), (to, -i128::from(bytes))] {
                    if let Some(sum) = changes.get_mut(at.index()) {
                        *sum += change;
                    }
                }
            }
            let mut column = Column::of_sums(bits, moments);
            let mut sum = 0;
            for change in changes {
                sum += change;
                column.push(u64::try_from(sum).unwrap_or(u64::MAX));
            }
            Some(RangeMax::new(column))
        };
        let counters = [
            sums(|a| a.requested, |a| a.to)?,
            sums(|a| a.size, |a| a.freed)?,
            sums(|a| a.size, |a| a.to)?,
            self.counters[3].clone(),
        ];
        let active = Lifetimes::of(those().map(|(id, a)| (id, a.from, a.to)), moments);
        let allocated = Lifetimes::of(those().map(|(id, a)| (id, a.from, a.freed)), moments);
        let (history, reserved, clock) = (self.history.clone(), self.reserved.clone(), self.clock.clone());
        Some(Self { history, counters, active: active.into(), allocated, reserved, clock })
    }

    /// Returns the history.
    #[inline]
    pub fn history(&self) -> &History {
        &self.history
    }

    fn events(&self) -> &Events {
        &self.history.device().events
    }

    /// Returns the number of moments of the recording: the number of events plus one.
    pub fn moments(&self) -> usize {
        self.counters[0].values().len()
    }

    /// Returns the counters at `moment`; after the end, those at the end.
    pub fn counters_at(&self, moment: Moment) -> Counters {
        let at = moment.index().min(self.moments() - 1);
        let [requested, allocated, active, reserved] = [0, 1, 2, 3].map(|k| self.value(k, at));
        Counters { requested, allocated, active, reserved }
    }

    /// Returns the peaks over the whole recording, with their first moments.
    pub fn peaks(&self) -> Peaks {
        self.peaks_within(Moment::START, Moment::from_index(self.moments() - 1))
    }

    /// Returns the peaks at the moments `from..=to`, with their first moments.
    pub fn peaks_within(&self, from: Moment, to: Moment) -> Peaks {
        let last = to.index().min(self.moments() - 1);
        let first = from.index().min(last);
        let [requested, allocated, active, reserved] = [0, 1, 2, 3].map(|k: usize| {
            let at = self.counters[k].position(first, last);
            Peak { bytes: self.value(k, at), moment: Moment::from_index(at) }
        });
        Peaks { requested, allocated, active, reserved }
    }

    fn active(&self) -> &Lifetimes {
        self.active.get_or_init(|| {
            let allocations = (0u32..).zip(&self.history.allocations);
            Lifetimes::of(allocations.map(|(id, a)| (id, a.from, a.to)), self.moments())
        })
    }

    /// Returns a kind of bytes at a moment of the recording.
    fn value(&self, kind: usize, at: usize) -> u64 {
        self.counters[kind].values().get(at).unwrap_or_default()
    }

    /// Returns the indices of the allocations that are active at `moment`, oldest first.
    pub fn active_at(&self, moment: Moment) -> Vec<u32> {
        let active = self.active();
        active.at(moment.index() as u32).into_iter().map(|p| active.id(p)).collect()
    }

    /// Returns the interval between two moments, in time that grows with the number of allocations in it.
    pub fn interval(&self, from: Moment, to: Moment) -> Interval {
        let [first, last] = [from, to].map(|moment| moment.index().min(self.moments() - 1));
        let at = self.counters[1].position(first, last.max(first));
        Interval {
            from,
            to,
            peak: Peak { bytes: self.value(1, at), moment: Moment::from_index(at) },
            allocations: self.allocated.between(first as u32, last as u32).collect(),
        }
    }

    /// Returns the indices of the reserved ranges at `moment`, oldest first.
    pub fn reserved_at(&self, moment: Moment) -> Vec<u32> {
        self.reserved.at(moment.index() as u32).into_iter().map(|p| self.reserved.id(p)).collect()
    }

    /// Returns the microseconds from the first event to `moment`; `None` without recorded times, and before the first event.
    pub fn time_of(&self, moment: Moment) -> Option<i64> {
        self.clock.as_ref()?.get(self.events(), moment.event()?)
    }

    /// Returns the microseconds from the first event to the last; `None` without recorded times.
    pub fn duration(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.last(self.events()))
    }

    /// Draws a window.
    pub fn view(&self, window: &PictureWindow) -> View {
        self.view_unless(window, &Cancel::default()).unwrap_or_else(View::nothing)
    }

    /// Draws a window; returns `None` if cancelled.
    pub fn view_unless(&self, window: &PictureWindow, cancel: &Cancel) -> Option<View> {
        let span = Span { axis: window.axis, from: window.from, to: window.to, width: window.width };
        let (lifetimes, counter) = match window.stacked {
            ByteKind::Requested => (self.active(), &self.counters[0]),
            ByteKind::Allocated => (&self.allocated, &self.counters[1]),
            ByteKind::Active => (self.active(), &self.counters[2]),
            ByteKind::Reserved => (&self.reserved, &self.counters[3]),
        };
        let ranges = self.ranges(&span);
        let highest: [Vec<u64>; 4] = std::array::from_fn(|kind| {
            let of = |r: &Option<(usize, usize)>| r.map_or(0, |(a, b)| self.counters[kind].highest(a, b));
            ranges.iter().map(of).collect()
        });
        let Shown { column, moment } = Shown::highest(counter, &ranges);
        let top = |kind: usize| highest[kind].iter().copied().max().unwrap_or(0);
        let fitted = || {
            let stacked = top(window.stacked as usize);
            let room = if window.fit_reserved { stacked.max(top(3)) } else { stacked };
            (room.max(1) as f64 * HEADROOM).max(window.low + 1.0)
        };
        let high = window.high.filter(|&high| high > window.low).unwrap_or_else(fitted);
        let history = &self.history;
        let bytes: &dyn Fn(u32) -> u64 = match window.stacked {
            ByteKind::Requested => &|id| history.allocations[id as usize].requested,
            ByteKind::Allocated | ByteKind::Active => &|id| history.allocations[id as usize].size,
            ByteKind::Reserved => &|id| history.reserved[id as usize].size,
        };
        let height = window.height.clamp(1, LARGEST_SIDE);
        let picture = Picture::paint(&Stack { lifetimes, bytes }, moment, window.low, high, height, cancel);
        (!cancel.is_cancelled()).then_some(View { picture: Picture { column, ..picture }, highest })
    }

    /// Returns the first and the last moment of each pixel column; `None` outside of the recording.
    fn ranges(&self, span: &Span) -> Vec<Option<(usize, usize)>> {
        let width = span.width.clamp(1, LARGEST_SIDE);
        // Neighboring columns share exactly the same edge, and the last edge is that of the window.
        let edge = |column: u16| match column {
            c if c == width => span.to,
            c => span.from + f64::from(c) * (span.to - span.from) / f64::from(width),
        };
        (0..width).map(|c| self.moments_between(span.axis, edge(c), edge(c + 1))).collect()
    }

    /// Returns the first and the last moment between `from` and `to` on the axis; `None` outside of the recording.
    fn moments_between(&self, axis: Axis, from: f64, to: f64) -> Option<(usize, usize)> {
        let last = self.moments() - 1;
        match (axis, &self.clock) {
            (Axis::Time, Some(clock)) => {
                let events = self.events();
                let end = clock.last(events);
                if to < 0.0 || from > end as f64 {
                    return None;
                }
                // Events at the very first time belong to the first pixel.
                let first = if from <= 0.0 { 0 } else { clock.partition_point(events, |t| t as f64 <= from) };
                Some((first, clock.partition_point(events, |t| t as f64 <= to)))
            }
            _ => {
                let first = from.floor().max(0.0);
                if to <= 0.0 || first > last as f64 {
                    return None;
                }
                Some((first as usize, (to.ceil() - 1.0).clamp(first, last as f64) as usize))
            }
        }
    }
}
