//! What waits for other streams.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use vramscope_basics::lock;

use crate::device::{Device, EventId, guarded};

/// Marks in streams, in the order they were set, each with what waits for it.
pub(crate) struct Pending<W> {
    streams: Mutex<BTreeMap<u64, VecDeque<(EventId, W)>>>,
    /// How many wait: lets an allocation pass without the lock.
    count: AtomicUsize,
    /// What waits until somebody says that its streams are done, as a replay does, by number.
    told: Mutex<Numbered<W>>,
    /// Nobody will look again: what is added is waited for at once.
    closed: AtomicBool,
}

struct Numbered<W> {
    last: u64,
    waiting: BTreeMap<u64, W>,
}

impl<W> Default for Pending<W> {
    fn default() -> Self {
        Self {
            streams: Mutex::default(),
            count: AtomicUsize::new(0),
            told: Mutex::new(Numbered { last: 0, waiting: BTreeMap::new() }),
            closed: AtomicBool::new(false),
        }
    }
}

impl<W> Pending<W> {
    /// `waiting` waits for a mark in `stream`.
    pub(crate) fn add(&self, stream: u64, event: EventId, waiting: W) {
        self.count.fetch_add(1, Ordering::Relaxed);
        lock(&self.streams).entry(stream).or_default().push_back((event, waiting));
    }

    /// `waiting` waits until it is taken by the number returned.
    pub(crate) fn add_told(&self, waiting: W) -> u64 {
        let mut told = lock(&self.told);
        told.last += 1;
        let number = told.last;
        told.waiting.insert(number, waiting);
        number
    }

    /// What waits under a number, if it still does.
    pub(crate) fn take_told(&self, number: u64) -> Option<W> {
        lock(&self.told).waiting.remove(&number)
    }

    /// All that waits under numbers, in the order it was added.
    pub(crate) fn take_all_told(&self) -> Vec<W> {
        std::mem::take(&mut lock(&self.told).waiting).into_values().collect()
    }

    /// Nothing waits for a mark.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// From here on nobody will look again.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// What its streams have got past, looking at each stream's oldest marks first; or all, after waiting for every mark.
    pub(crate) fn take_reached(&self, device: &dyn Device, wait: bool) -> Vec<W> {
        let mut done = Vec::new();
        let mut streams = lock(&self.streams);
        for queue in streams.values_mut() {
            while let Some(&(event, _)) = queue.front() {
                // Work that failed is over too: its error belongs to whoever started it.
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
