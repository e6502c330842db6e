//! How far the GPU is, in one of two extremes. The instant GPU has always done all work. The late GPU has done the work of a stream only
//! when the program waits for it: by a synchronization, by an event, or because the queue of launches is full.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard};

use crate::machine::{lock, machine};

/// Launches that a stream queues; the next launch waits for the oldest.
const QUEUE: u64 = 1024;

/// A position in the work of a stream: the number of the last piece of work before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    stream: usize,
    work: u64,
}

#[derive(Debug, Default)]
struct Stream {
    submitted: u64,
    done: u64,
    /// The positions of other streams that work waits for, by the number of the work, in order.
    waits: VecDeque<(u64, Position)>,
}

#[derive(Debug, Default)]
struct Timeline {
    streams: BTreeMap<usize, Stream>,
}

static TIMELINE: LazyLock<Mutex<Timeline>> = LazyLock::new(Mutex::default);

impl Timeline {
    /// Submits a piece of work to a stream, which waits for another position. Waits if the queue is full.
    fn submit(&mut self, stream: usize, wait: Option<Position>) {
        let own = self.streams.entry(stream).or_default();
        own.submitted += 1;
        own.waits.extend(wait.map(|position| (own.submitted, position)));
        let full = own.submitted.saturating_sub(QUEUE);
        if full > own.done {
            self.finish(Position { stream, work: full });
        }
    }

    /// The end of the work submitted to a stream.
    fn end(&self, stream: usize) -> Position {
        Position { stream, work: self.streams.get(&stream).map_or(0, |own| own.submitted) }
    }

    fn is_done(&self, position: Position) -> bool {
        self.streams.get(&position.stream).is_none_or(|own| own.done >= position.work)
    }

    /// Finishes all work up to a position, and the work that it waits for.
    fn finish(&mut self, position: Position) {
        let mut open = vec![position];
        while let Some(Position { stream, work }) = open.pop() {
            let Some(own) = self.streams.get_mut(&stream).filter(|own| own.done < work) else { continue };
            own.done = work;
            while let Some((_, before)) = own.waits.pop_front_if(|(at, _)| *at <= work) {
                open.push(before);
            }
        }
    }

    fn finish_all(&mut self) {
        for own in self.streams.values_mut() {
            own.done = own.submitted;
            own.waits.clear();
        }
    }
}

/// The timeline of the late GPU; `None` for the instant one.
fn late() -> Option<MutexGuard<'static, Timeline>> {
    machine().state.is_late().then(|| lock(&TIMELINE))
}

/// Submits a piece of work to a stream.
pub(crate) fn submit(stream: usize) {
    if let Some(mut timeline) = late() {
        timeline.submit(stream, None);
    }
}

/// The end of the work of a stream so far; `None` on the instant GPU.
pub(crate) fn end(stream: usize) -> Option<Position> {
    late().map(|timeline| timeline.end(stream))
}

/// Makes later work of a stream wait for a position.
pub(crate) fn wait(stream: usize, position: Option<Position>) {
    if let (Some(mut timeline), Some(position)) = (late(), position)
        && !timeline.is_done(position)
    {
        timeline.submit(stream, Some(position));
    }
}

/// Whether the GPU has done the work up to a position.
pub(crate) fn is_done(position: Option<Position>) -> bool {
    position.is_none_or(|position| late().is_none_or(|timeline| timeline.is_done(position)))
}

/// The program waits for a position.
pub(crate) fn finish(position: Option<Position>) {
    if let (Some(mut timeline), Some(position)) = (late(), position) {
        timeline.finish(position);
    }
}

/// The program waits for all work of a stream.
pub(crate) fn finish_stream(stream: usize) {
    finish(end(stream));
}

/// The program waits for all work.
pub(crate) fn finish_all() {
    if let Some(mut timeline) = late() {
        timeline.finish_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_when_the_program_waits_for_it() {
        let mut timeline = Timeline::default();
        timeline.submit(1, None);
        let first = timeline.end(1);
        timeline.submit(1, None);
        assert!(!timeline.is_done(first));
        timeline.finish(first);
        assert!(timeline.is_done(first) && !timeline.is_done(timeline.end(1)));
        timeline.finish_all();
        assert!(timeline.is_done(timeline.end(1)));
    }

    #[test]
    fn a_stream_waits_for_others() {
        let mut timeline = Timeline::default();
        timeline.submit(1, None);
        let side = timeline.end(1);
        timeline.submit(2, None);
        let before = timeline.end(2);
        timeline.submit(2, Some(side));
        timeline.finish(before);
        assert!(!timeline.is_done(side), "the work before the wait does not need the other stream");
        timeline.finish(timeline.end(2));
        assert!(timeline.is_done(side));
    }

    #[test]
    fn a_full_queue_waits_for_the_oldest_work() {
        let mut timeline = Timeline::default();
        timeline.submit(1, None);
        let first = timeline.end(1);
        (1..QUEUE).for_each(|_| timeline.submit(1, None));
        assert!(!timeline.is_done(first));
        timeline.submit(1, None);
        assert!(timeline.is_done(first) && !timeline.is_done(Position { stream: 1, work: 2 }));
    }
}
