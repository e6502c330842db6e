//! The profiler's time of each event of a recording.

use vramscope_trace::Action;

use super::{Anchor, nanoseconds};
use crate::history::{History, Moment, RecordedAllocation};
use crate::timeline::Axis;

/// The profiler's time of each event of a device, and the thread of those that the profiler saw.
#[derive(Debug, Clone)]
pub struct OperatorClock {
    /// The profiler's time of each event in nanoseconds, never decreasing. Events before the first and after the last known one are at
    /// the ends of time if the recording has no times.
    times: Vec<i64>,
    /// The recording's own time of each event in microseconds, never decreasing.
    recorded_us: Option<Vec<i64>>,
    /// The difference of the clocks, if it is constant.
    offset_ns: Option<i64>,
    /// The events that the profiler saw, with their threads, in order.
    threads: Vec<(u32, i64)>,
}

/// The memory that an operator allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorMemory {
    /// Bytes and number of the blocks that it allocated.
    pub bytes: u64,
    /// Number of these blocks.
    pub count: u64,
    /// The index of the largest.
    pub largest: Option<usize>,
    /// Bytes of the blocks that were still allocated at its end.
    pub kept_bytes: u64,
    /// Number of these blocks.
    pub kept_count: u64,
    /// Whether only the blocks of its own thread count; without memory events in the trace, threads are unknown.
    pub of_thread: bool,
}

impl OperatorClock {
    /// `anchors` are in order of their events. With `is_constant`, the difference of the clocks is `offset_ns` all the time.
    pub(super) fn new(
        history: &History,
        recorded_us: Option<Vec<i64>>,
        anchors: &[Anchor],
        offset_ns: Option<i64>,
        is_constant: bool,
    ) -> Self {
        let count = history.device().events.len();
        let mut times = Vec::with_capacity(count);
        let mut next = anchors.iter().peekable();
        let first = anchors.first().zip(recorded_us.as_ref());
        let first =
            first.and_then(|(a, us)| Some(a.at_ns.saturating_sub(nanoseconds(*us.get(a.event as usize)?))));
        let mut offset = if is_constant { offset_ns } else { first.or(offset_ns) };
        let mut last = i64::MIN;
        for event in 0..count {
            let us = recorded_us.as_ref().map(|times| nanoseconds(times[event]));
            let at = match (next.next_if(|anchor| anchor.event as usize == event), us) {
                (Some(anchor), us) => {
                    if let (Some(us), false) = (us, is_constant) {
                        offset = Some(anchor.at_ns.saturating_sub(us));
                    }
                    anchor.at_ns
                }
                (None, Some(us)) => us.saturating_add(offset.unwrap_or(0)),
                (None, None) if next.peek().is_none() => i64::MAX,
                (None, None) => last,
            };
            let at = next.peek().map_or(at, |anchor| at.min(anchor.at_ns));
            last = last.max(at);
            times.push(last);
        }
        let threads = anchors.iter().map(|anchor| (anchor.event, anchor.thread)).collect();
        Self { times, recorded_us, offset_ns: offset_ns.filter(|_| is_constant), threads }
    }

    /// The profiler's time of an event in nanoseconds.
    pub fn time(&self, event: usize) -> Option<i64> {
        self.times.get(event).copied()
    }

    /// The thread of an event, if the profiler saw it.
    pub fn thread(&self, event: usize) -> Option<i64> {
        let at = self.threads.binary_search_by_key(&(event as u64), |&(event, _)| u64::from(event)).ok()?;
        Some(self.threads[at].1)
    }

    /// The last moment before the first event from `start_ns` on, and the last moment up to `end_ns`.
    pub fn moments(&self, start_ns: i64, end_ns: i64) -> (Moment, Moment) {
        let first = self.times.partition_point(|&t| t < start_ns);
        let last = self.times.partition_point(|&t| t <= end_ns).max(first);
        (Moment::from_index(first), Moment::from_index(last))
    }

    /// The position of a time on an axis. On the axis of events, times between two events are between their positions. `None` for the axis
    /// of time if the recording has no times.
    pub fn position(&self, axis: Axis, ns: i64) -> Option<f64> {
        let after = self.times.partition_point(|&t| t <= ns);
        let (before, next) = (after.checked_sub(1), self.times.get(after));
        let part = match (before, next) {
            (Some(before), Some(&next)) => between(ns, self.times[before], next),
            _ => 0.0,
        };
        match axis {
            Axis::Events => Some(after as f64 + part),
            Axis::Time => {
                let recorded = self.recorded_us.as_ref()?;
                let origin = *recorded.first()?;
                if let Some(offset) = self.offset_ns {
                    let own = ns.saturating_sub(offset).saturating_sub(nanoseconds(origin));
                    return Some(own as f64 / 1000.0);
                }
                let since = |event: usize| recorded[event].saturating_sub(origin) as f64;
                Some(match (before, next) {
                    (Some(before), Some(_)) => since(before) + part * (since(after) - since(before)),
                    // Beyond the recording, the clocks go on alike.
                    (Some(before), None) => {
                        since(before) + ns.saturating_sub(self.times[before]) as f64 / 1000.0
                    }
                    (None, Some(&next)) => since(0) - next.saturating_sub(ns) as f64 / 1000.0,
                    (None, None) => 0.0,
                })
            }
        }
    }

    /// The time at a position on an axis: the inverse of [`position`](Self::position).
    pub fn time_at(&self, axis: Axis, position: f64) -> i64 {
        let inside = |after: usize, part: f64| {
            let (from, to) = (self.times[after - 1], self.times[after]);
            from.saturating_add((to.saturating_sub(from) as f64 * part) as i64)
        };
        let (Some(&first), Some(&last)) = (self.times.first(), self.times.last()) else { return 0 };
        match axis {
            Axis::Events => {
                let after = position.max(0.0) as usize;
                match after {
                    // All times before the first event have the position 0.
                    0 if position <= 0.0 => i64::MIN,
                    0 => first,
                    _ if after >= self.times.len() => i64::MAX,
                    _ => inside(after, position.fract()),
                }
            }
            Axis::Time => {
                let Some(recorded) = &self.recorded_us else { return 0 };
                let origin = recorded.first().copied().unwrap_or(0);
                if let Some(offset) = self.offset_ns {
                    return ((position * 1000.0) as i64)
                        .saturating_add(nanoseconds(origin))
                        .saturating_add(offset);
                }
                let since = |event: usize| recorded[event].saturating_sub(origin) as f64;
                let after = recorded.partition_point(|&us| us.saturating_sub(origin) as f64 <= position);
                match after {
                    0 => first.saturating_sub(((since(0) - position) * 1000.0) as i64),
                    _ if after == recorded.len() => {
                        last.saturating_add(((position - since(after - 1)) * 1000.0) as i64)
                    }
                    _ => {
                        let (from, to) = (since(after - 1), since(after));
                        inside(after, if to > from { (position - from) / (to - from) } else { 0.0 })
                    }
                }
            }
        }
    }

    /// The memory that a span of `thread` allocated; without a thread, that of all.
    pub fn memory(
        &self,
        history: &History,
        (start_ns, end_ns): (i64, i64),
        thread: Option<i64>,
    ) -> OperatorMemory {
        let (from, to) = self.moments(start_ns, end_ns);
        let thread = thread.filter(|_| !self.threads.is_empty());
        let mut memory = OperatorMemory { of_thread: thread.is_some(), ..OperatorMemory::default() };
        let mut largest = 0;
        let actions = history.device().events.actions();
        let (from, until) = (from.index(), to.index());
        for (event, &action) in actions.iter().enumerate().take(until).skip(from) {
            let is_own = thread.is_none_or(|thread| self.thread(event) == Some(thread));
            if action != Action::Alloc || !is_own {
                continue;
            }
            let Some(id) = history.subject_number(event) else { continue };
            let RecordedAllocation { size, freed, .. } = history.allocations[id];
            memory.bytes += size;
            memory.count += 1;
            if size > largest {
                (largest, memory.largest) = (size, Some(id));
            }
            if freed > to {
                memory.kept_bytes += size;
                memory.kept_count += 1;
            }
        }
        memory
    }
}

/// Returns the part of the way from `from` to `to`, which is later than `at`.
fn between(at: i64, from: i64, to: i64) -> f64 {
    let way = to.saturating_sub(from);
    if way > 0 { at.saturating_sub(from) as f64 / way as f64 } else { 0.0 }
}
