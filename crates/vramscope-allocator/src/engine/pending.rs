//! Blocks that were freed while another stream still used them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::arena::{Arena, BlockKey};
use crate::device::{Device, EventId, guarded};
use crate::history::{StackKey, When};
use crate::sync::lock;
use crate::threads;

/// Marks in streams, in the order they were set, each with the block that waits for it.
#[derive(Default)]
pub(crate) struct Pending {
    streams: Mutex<BTreeMap<u64, VecDeque<Waiting>>>,
    /// How many wait: lets an allocation pass without the lock.
    count: AtomicUsize,
    /// Blocks whose streams a replay speaks for, in the order they were freed.
    told: Mutex<Told>,
    /// The pool is gone, so nobody will look again: blocks are waited for when they are freed.
    closed: AtomicBool,
}

#[derive(Default)]
struct Told {
    last: u64,
    waiting: BTreeMap<u64, (Arc<Arena>, BlockKey)>,
}

struct Waiting {
    event: EventId,
    arena: Arc<Arena>,
    block: BlockKey,
}

impl Pending {
    /// A block waits for `streams` (`insert_events`). Where a stream cannot be marked, as that of another thread, the
    /// whole device is waited for.
    pub(crate) fn add(&self, arena: &Arc<Arena>, block: BlockKey, streams: Vec<u64>) {
        for stream in streams {
            let mark = |stream| guarded(|| arena.core.device.record_event(stream)).ok();
            match threads::stream_to_mark(stream).and_then(mark) {
                Some(event) => {
                    let waiting = Waiting { event, arena: Arc::clone(arena), block };
                    self.count.fetch_add(1, Ordering::Relaxed);
                    lock(&self.streams).entry(stream).or_default().push_back(waiting);
                }
                None => {
                    guarded(|| arena.core.device.synchronize_device()).ok();
                    arena.lock().stream_done(block, None);
                }
            }
        }
        if self.closed.load(Ordering::Relaxed) {
            self.process(arena.core.device.as_ref(), true);
        }
    }

    /// A block waits until [`complete`](Self::complete) is told of it by the number returned, or until every
    /// stream is waited for.
    pub(crate) fn add_told(&self, arena: &Arc<Arena>, block: BlockKey) -> u64 {
        let mut told = lock(&self.told);
        told.last += 1;
        let number = told.last;
        told.waiting.insert(number, (Arc::clone(arena), block));
        number
    }

    /// The streams have got past a block, if it still waits.
    pub(crate) fn complete(&self, number: u64) {
        let waiting = lock(&self.told).waiting.remove(&number);
        if let Some((arena, block)) = waiting {
            arena.lock().stream_done(block, None);
        }
    }

    /// Waits for every mark, now and whenever one is added later.
    pub(crate) fn close(&self, device: &dyn Device) {
        self.closed.store(true, Ordering::Relaxed);
        self.process(device, true);
    }

    /// Nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Frees what its streams have got past, looking at each stream's oldest marks first (`process_events`);
    /// or waits for every mark (`synchronize_and_free_events`).
    #[cold]
    pub(crate) fn process(&self, device: &dyn Device, wait: bool) {
        if wait {
            let told = std::mem::take(&mut lock(&self.told).waiting);
            for (arena, block) in told.into_values() {
                arena.lock().stream_done(block, None);
            }
        }
        let mut done = Vec::new();
        {
            let mut streams = lock(&self.streams);
            for queue in streams.values_mut() {
                while let Some(waiting) = queue.front() {
                    // Work that failed is over too: its error belongs to whoever started it.
                    let reached = if wait {
                        guarded(|| device.synchronize(waiting.event)).ok();
                        true
                    } else {
                        guarded(|| device.event_done(waiting.event)).unwrap_or(true)
                    };
                    if !reached {
                        break;
                    }
                    done.extend(queue.pop_front());
                }
            }
            streams.retain(|_, queue| !queue.is_empty());
            self.count.fetch_sub(done.len(), Ordering::Relaxed);
        }
        let Some(first) = done.first() else { return };
        let stack: Option<StackKey> = first.arena.core.history.capture(When::Free);
        for Waiting { arena, block, .. } in done {
            arena.lock().stream_done(block, stack);
        }
    }
}
