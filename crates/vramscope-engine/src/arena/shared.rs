//! Streams that share the segment of a [`Plan`](crate::Plan).
//!
//! A stream runs its work in order, but nothing orders the work of two streams. So a block at a place that another stream used last makes
//! its stream wait on the device for an event of the other one (`cudaStreamWaitEvent`). The event is recorded when the old block is freed,
//! if the plan says that another stream uses its place next, and otherwise when the new block is requested. Which stream used a place last
//! is known here, whatever the plan says. If the device cannot wait, the place counts as in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arena::LockedArena;
use crate::arena::block::BlockKey;
use crate::arena::place::{NotPlaced, StreamUse};
use crate::arena_key::{ArenaKey, PLANNED};
use crate::device::{EventId, guarded};
use crate::observer::Observer;
use crate::ranges::Ranges;

/// The streams of the blocks and of the free ranges of a shared segment.
#[derive(Default)]
pub(super) struct SharedStreams {
    /// Blocks in use.
    users: BTreeMap<BlockKey, User>,
    /// Free ranges, each with its last use.
    last: Ranges<LastUse>,
    /// The observer's number for the planned blocks of each stream.
    numbers: BTreeMap<u64, u32>,
    /// Number of events recorded so far.
    events: u64,
    /// Number of blocks so far whose stream waits for another one.
    waits: u64,
}

/// The stream of a block in use.
struct User {
    used_by: StreamUse,
    /// Size of the block in bytes. Until the block is allocated, it may have more bytes than the request.
    size: u64,
    /// The observer's number for this stream.
    number: u32,
    /// The event on the stream, once the owner has freed the block.
    event: Option<Arc<StreamEvent>>,
}

/// The last use of a free range.
#[derive(Clone)]
struct LastUse {
    stream: u64,
    /// An event on the stream after this use. All parts of a freed block have the same one.
    event: Option<Arc<StreamEvent>>,
}

/// An event on a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StreamEvent {
    /// Position in the order in which events were recorded.
    order: u64,
    id: EventId,
}

impl<O: Observer> LockedArena<'_, O> {
    /// The streams that share the segment.
    pub(super) fn streams(&self) -> Option<&SharedStreams> {
        self.state.planned.as_ref()?.shared.as_ref()
    }

    fn streams_mut(&mut self) -> Option<&mut SharedStreams> {
        self.state.planned.as_mut()?.shared.as_mut()
    }

    /// Makes a stream wait for the other streams that used parts of the half-open range `start..end` last. The range must be free.
    ///
    /// # Errors
    /// [`NotPlaced::InUse`] if the device cannot wait for a stream now. The other streams may still use the range.
    pub(super) fn wait_for_streams(&self, start: u64, end: u64, stream: u64) -> Result<(), NotPlaced> {
        let Some(shared) = self.streams() else { return Ok(()) };
        // For each other stream: the latest event, or none if a use has none.
        let mut others: BTreeMap<u64, Option<StreamEvent>> = BTreeMap::new();
        for last in shared.last.overlapping(start, end).filter(|last| last.stream != stream) {
            let event = last.event.as_deref().copied();
            let latest = others.entry(last.stream).or_insert(event);
            *latest = latest.zip(event).map(|(a, b)| a.max(b));
        }
        if others.is_empty() {
            return Ok(());
        }
        let device = self.arena.core().device();
        let waiting = self.stream_with_events(stream).ok_or(NotPlaced::InUse)?;
        for (other, event) in others {
            let waited = match event {
                Some(event) => guarded(|| device.wait_event(waiting, event.id)),
                None => {
                    let other = self.stream_with_events(other).ok_or(NotPlaced::InUse)?;
                    guarded(|| {
                        let event = device.record_event(other)?;
                        let waited = device.wait_event(waiting, event);
                        waited.and(device.discard_event(event))
                    })
                }
            };
            waited.map_err(|_| NotPlaced::InUse)?;
        }
        Ok(())
    }

    /// Returns the device's handle of a stream, on which events may be recorded and awaited now. An event of a stream that is captured would
    /// be a part of its graph.
    fn stream_with_events(&self, stream: u64) -> Option<u64> {
        let stream = self.arena.observer().device_stream(stream)?;
        let is_capturing = self.arena.shared.is_capturing()
            || guarded(|| Ok(self.arena.core().device().is_capturing(stream))).unwrap_or(true);
        (!is_capturing).then_some(stream)
    }

    /// Sets the stream of a held block of `size` bytes, after [`wait_for_streams`](Self::wait_for_streams).
    pub(super) fn set_stream(&mut self, key: BlockKey, size: u64, used_by: StreamUse) {
        let start = self.block(key).address;
        let arena = self.arena;
        let Some(shared) = self.streams_mut() else { return };
        let removed = shared.last.remove(start, start + size);
        shared.waits += u64::from(removed.iter().any(|last| last.stream != used_by.stream));
        let number = *shared.numbers.entry(used_by.stream).or_insert_with(|| {
            if used_by.stream == arena.key.stream {
                return arena.number;
            }
            arena.observer().add_arena(ArenaKey { pool: PLANNED, stream: used_by.stream })
        });
        shared.users.insert(key, User { used_by, size, number, event: None });
        self.discard_events(removed);
    }

    /// Records an event on the stream of a block that its owner frees, if another stream uses its place next.
    #[cold]
    pub(super) fn mark_freed(&mut self, key: BlockKey) {
        let user = self.streams().and_then(|shared| shared.users.get(&key));
        let Some(used_by) = user.map(|user| user.used_by).filter(|used_by| used_by.is_handed_over) else {
            return;
        };
        // Without an event, one is recorded at the next request for the place.
        let Some(stream) = self.stream_with_events(used_by.stream) else { return };
        let Ok(id) = guarded(|| self.arena.core().device().record_event(stream)) else { return };
        if let Some(shared) = self.streams_mut() {
            shared.events += 1;
            let event = Arc::new(StreamEvent { order: shared.events, id });
            shared.users.entry(key).and_modify(|user| user.event = Some(event));
        }
    }

    /// Records the last use of a block that becomes free.
    #[cold]
    pub(super) fn end_use(&mut self, key: BlockKey) {
        let start = self.block(key).address;
        let Some(shared) = self.streams_mut() else { return };
        let Some(User { used_by, size, event, .. }) = shared.users.remove(&key) else { return };
        let removed = shared.last.replace(start, start + size, LastUse { stream: used_by.stream, event });
        self.discard_events(removed);
    }

    /// Forgets the uses of memory that the device has taken back: it waits for all work before.
    pub(super) fn forget_uses(&mut self, start: u64, end: u64) {
        if let Some(shared) = self.streams_mut() {
            let removed = shared.last.remove(start, end);
            self.discard_events(removed);
        }
    }

    /// Discards the events of uses that no range has any more.
    fn discard_events(&self, uses: Vec<LastUse>) {
        let device = self.arena.core().device();
        for event in uses.into_iter().filter_map(|last| last.event).filter_map(Arc::into_inner) {
            // The device keeps an event that it does not discard until it is closed.
            guarded(|| device.discard_event(event.id)).ok();
        }
    }

    /// The stream of a block in use.
    pub(super) fn stream_of(&self, key: BlockKey) -> u64 {
        let user = self.streams().and_then(|shared| shared.users.get(&key));
        user.map_or(self.arena.key.stream, |user| user.used_by.stream)
    }

    /// The observer's number for the events of a block.
    pub(super) fn number_of(&self, key: BlockKey) -> u32 {
        let user = self.streams().and_then(|shared| shared.users.get(&key));
        user.map_or(self.arena.number, |user| user.number)
    }

    /// Returns how many blocks so far made their streams wait for others.
    pub(crate) fn waits(&self) -> u64 {
        self.streams().map_or(0, |shared| shared.waits)
    }
}
