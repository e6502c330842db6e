//! The order of work on the streams of a GPU, as far as events establish it. The checking mode keeps it apart from the pool's own tables.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope::allocator::EventId;

/// What is known about the order of work on streams. Times count the recorded events.
#[derive(Default)]
pub(super) struct StreamOrder {
    now: u64,
    /// The stream and the time of each event.
    events: HashMap<EventId, (u64, u64)>,
    /// The time up to which a stream waits for another one, by (waiting stream, other stream).
    waits: HashMap<(u64, u64), u64>,
    /// The time up to which the work of a stream is complete.
    finished: HashMap<u64, u64>,
    /// The time up to which the work of all streams is complete.
    all_finished: u64,
    /// Freed ranges: first address to the address after the last, the stream that used the range last, and the time of the free.
    freed: BTreeMap<u64, (u64, u64, u64)>,
}

impl StreamOrder {
    /// Records that an event was recorded on a stream.
    pub(super) fn recorded(&mut self, event: EventId, stream: u64) {
        self.now += 1;
        self.events.insert(event, (stream, self.now));
    }

    /// Records that a stream waits for an event.
    pub(super) fn waits(&mut self, stream: u64, event: EventId) {
        if let Some(&(other, time)) = self.events.get(&event) {
            let until = self.waits.entry((stream, other)).or_default();
            *until = time.max(*until);
        }
    }

    /// Records that the work before an event is complete.
    pub(super) fn finished(&mut self, event: EventId) {
        if let Some((stream, time)) = self.events.remove(&event) {
            let until = self.finished.entry(stream).or_default();
            *until = time.max(*until);
        }
    }

    /// Records that all work is complete.
    pub(super) fn all_finished(&mut self) {
        self.now += 1;
        self.all_finished = self.now;
    }

    /// Records that the GPU took memory back, for which it waits for all work.
    pub(super) fn released(&mut self, start: u64, size: u64) {
        self.cut(start, start.saturating_add(size));
    }

    /// Records that a block was freed, of which `stream` was the stream.
    pub(super) fn freed(&mut self, start: u64, size: u64, stream: u64) {
        let end = start.saturating_add(size);
        self.cut(start, end);
        // An event of this time was recorded before the free.
        self.freed.insert(start, (end, stream, self.now + 1));
    }

    /// Records that a stream got a block. Returns another stream that used a part of it last, and for which it does not wait.
    pub(super) fn allocated(&mut self, start: u64, size: u64, stream: u64) -> Result<(), u64> {
        let before = self.cut(start, start.saturating_add(size));
        let is_ordered = |&(other, time): &(u64, u64)| {
            let waits = self.waits.get(&(stream, other)).is_some_and(|&until| until >= time);
            let finished = self.finished.get(&other).is_some_and(|&until| until >= time);
            other == stream || waits || finished || self.all_finished >= time
        };
        before.into_iter().find(|last| !is_ordered(last)).map_or(Ok(()), |(other, _)| Err(other))
    }

    /// Removes a range from the freed ones. Returns the streams and the times of its last uses.
    fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let overlapping: Vec<_> = self
            .freed
            .range(..end)
            .rev()
            .take_while(|&(_, &(to, _, _))| to > start)
            .map(|(&from, &(to, stream, time))| (from, to, stream, time))
            .collect();
        for &(from, to, stream, time) in &overlapping {
            self.freed.remove(&from);
            if from < start {
                self.freed.insert(from, (start, stream, time));
            }
            if to > end {
                self.freed.insert(end, (to, stream, time));
            }
        }
        overlapping.into_iter().map(|(_, _, stream, time)| (stream, time)).collect()
    }
}

#[cfg(test)]
mod tests;
