//! Freed blocks that wait until other streams have completed the work that uses them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use vramscope_basics::lock;

use crate::device::{Device, EventId, guarded};

/// What waits for events on streams, or under numbers. `W` is what waits.
pub(crate) struct Pending<W> {
    /// The events of each stream in the order they were recorded, each with what waits for it.
    streams: Mutex<BTreeMap<u64, VecDeque<(EventId, W)>>>,
    /// How many wait for events, so that an allocation sees without the lock that there are none.
    count: AtomicUsize,
    /// What waits under a number until the caller says that its streams are done, as a replay does.
    numbered: Mutex<Numbered<W>>,
    /// Whether the engine is gone, so that what is added must be waited for at once.
    closed: AtomicBool,
}

/// What waits under numbers.
struct Numbered<W> {
    /// The last number that was given.
    last: u64,
    waiting: BTreeMap<u64, W>,
}

impl<W> Default for Pending<W> {
    fn default() -> Self {
        Self {
            streams: Mutex::default(),
            count: AtomicUsize::new(0),
            numbered: Mutex::new(Numbered { last: 0, waiting: BTreeMap::new() }),
            closed: AtomicBool::new(false),
        }
    }
}

impl<W> Pending<W> {
    /// Lets `waiting` wait for an event recorded on `stream`.
    pub(crate) fn add(&self, stream: u64, event: EventId, waiting: W) {
        self.count.fetch_add(1, Ordering::Relaxed);
        lock(&self.streams).entry(stream).or_default().push_back((event, waiting));
    }

    /// Lets `waiting` wait until it is taken by the number returned.
    pub(crate) fn add_numbered(&self, waiting: W) -> u64 {
        let mut numbered = lock(&self.numbered);
        numbered.last += 1;
        let number = numbered.last;
        numbered.waiting.insert(number, waiting);
        number
    }

    /// Takes what waits under a number; `None` where nothing does any more.
    pub(crate) fn take_numbered(&self, number: u64) -> Option<W> {
        lock(&self.numbered).waiting.remove(&number)
    }

    /// Takes everything that waits under numbers, in the order it was added.
    pub(crate) fn take_all_numbered(&self) -> Vec<W> {
        std::mem::take(&mut lock(&self.numbered).waiting).into_values().collect()
    }

    /// Whether nothing waits for an event.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Says that no later request will ask for events.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Takes what waits for events that have completed, asking for each stream's oldest event first. With `wait`, takes
    /// everything after waiting for every event.
    pub(crate) fn take_reached(&self, device: &dyn Device, wait: bool) -> Vec<W> {
        let mut done = Vec::new();
        let mut streams = lock(&self.streams);
        for queue in streams.values_mut() {
            while let Some(&(event, _)) = queue.front() {
                // Work that failed has ended too. Its error is reported where that work was started.
                let reached = if wait {
                    guarded(|| device.synchronize(event)).ok();
                    true
                } else {
                    guarded(|| device.event_done(event)).unwrap_or(true)
                };
                if !reached {
                    break;
                }
                done.extend(queue.pop_front().map(|(_, waiting)| waiting));
            }
        }
        streams.retain(|_, queue| !queue.is_empty());
        self.count.fetch_sub(done.len(), Ordering::Relaxed);
        done
    }
}
