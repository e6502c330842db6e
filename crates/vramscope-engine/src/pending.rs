//! Freed blocks that wait until other streams have completed the work that uses them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use vramscope_basics::lock;

use crate::device::{Device, EventId, guarded};

/// Items that wait for events on streams, or under numbers. `W` is the item type.
pub(crate) struct Pending<W> {
    /// The events of each stream in recording order, each with its item.
    streams: Mutex<BTreeMap<u64, VecDeque<(EventId, W)>>>,
    /// Number of items that wait for events. Allocations read it without a lock to see whether there are none.
    count: AtomicUsize,
    /// Items that wait under a number until the caller reports that their streams are done, as a replay does.
    numbered: Mutex<Numbered<W>>,
    /// Whether the engine was dropped. New items are then waited for immediately.
    closed: AtomicBool,
}

/// Items that wait under numbers.
struct Numbered<W> {
    /// The last number given out.
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
    /// Adds an item that waits for an event on `stream`.
    pub(crate) fn add(&self, stream: u64, event: EventId, waiting: W) {
        self.count.fetch_add(1, Ordering::Relaxed);
        lock(&self.streams).entry(stream).or_default().push_back((event, waiting));
    }

    /// Adds an item that waits until it is taken by the returned number.
    pub(crate) fn add_numbered(&self, waiting: W) -> u64 {
        let mut numbered = lock(&self.numbered);
        numbered.last += 1;
        let number = numbered.last;
        numbered.waiting.insert(number, waiting);
        number
    }

    /// Takes the item that waits under a number, or `None` if there is none.
    pub(crate) fn take_numbered(&self, number: u64) -> Option<W> {
        lock(&self.numbered).waiting.remove(&number)
    }

    /// Takes all items that wait under numbers, in the order in which they were added.
    pub(crate) fn take_all_numbered(&self) -> Vec<W> {
        std::mem::take(&mut lock(&self.numbered).waiting).into_values().collect()
    }

    /// Whether no item waits for an event.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Marks the engine as dropped: no later request will query events.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Takes the items whose events are complete. Queries the oldest event of each stream first. With `wait`, waits for all events and
    /// takes all items.
    pub(crate) fn take_reached(&self, device: &dyn Device, wait: bool) -> Vec<W> {
        let mut done = Vec::new();
        let mut streams = lock(&self.streams);
        for queue in streams.values_mut() {
            while let Some(&(event, _)) = queue.front() {
                // Failed work has also ended. Its error is reported to the code that started it.
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
