//! Fragmentation: reserved memory that is unusable, inside blocks and between them.

use vramscope_engine::Policy;
use vramscope_trace::{Action, PoolId, SegmentKind};

use crate::history::{Counters, FreeBlock, History, Layout, Moment};

/// The properties of a request that decide which free block can serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the requested block, after rounding.
    pub bytes: u64,
    /// The stream of the block.
    pub stream: u64,
    /// The pool of the block, if recorded.
    pub pool: Option<PoolId>,
}

/// Why a free block cannot serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unusable {
    /// It meets all other conditions but is smaller than the request.
    TooSmall,
    /// It belongs to another stream.
    OtherStream,
    /// It belongs to the small pool and the request is large, or vice versa.
    OtherSize,
    /// It belongs to another private pool, or to the default pool while the request is for a private one.
    OtherPool,
    /// It is large enough, but `max_split_size` does not allow to split it.
    NotSplit,
}

impl Request {
    /// Returns why `free` cannot serve this request under the allocator's rules; `None` if it can.
    pub fn cannot_use(&self, free: &FreeBlock, policy: &Policy) -> Option<Unusable> {
        let default = PoolId::default();
        let wrong_size = free.kind != SegmentKind::Unknown && free.kind != policy.kind(self.bytes);
        if self.pool.unwrap_or(default) != free.pool.unwrap_or(default) {
            Some(Unusable::OtherPool)
        } else if wrong_size {
            Some(Unusable::OtherSize)
        } else if free.stream != self.stream {
            Some(Unusable::OtherStream)
        } else if free.size < self.bytes {
            Some(Unusable::TooSmall)
        } else if !policy.may_serve(self.bytes, free.size) {
            Some(Unusable::NotSplit)
        } else {
            None
        }
    }
}

/// Free blocks that cannot serve a request for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusableBlocks {
    /// Why these blocks cannot serve the request.
    pub why: Unusable,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Number of these blocks.
    pub blocks: usize,
    /// The largest of these blocks.
    pub largest: FreeBlock,
}

/// Unusable reserved memory at one moment, in bytes. Memory inside blocks and memory between blocks are kept apart, not combined
/// into one ratio, because they have different remedies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragmentation {
    /// The moment of all these numbers.
    pub moment: Moment,
    /// Bytes lost to rounding inside blocks: allocated minus requested.
    pub internal: u64,
    /// Bytes between blocks: reserved minus active.
    pub external: u64,
    /// Part of `external` in entirely free segments, which the allocator can release to the device.
    pub whole_segments: u64,
    /// Number of free blocks.
    pub free_blocks: usize,
    /// The largest free block.
    pub largest: Option<FreeBlock>,
    /// The request for which `usable` and `unusable` are computed.
    pub request: Request,
    /// Part of `external` in blocks that can serve the request.
    pub usable: u64,
    /// The rest of `external`, by reason, most bytes first.
    pub unusable: Vec<UnusableBlocks>,
}

impl Fragmentation {
    /// Computes the fragmentation at `moment` for one more `request`.
    pub fn at(history: &History, moment: Moment, request: Request) -> Self {
        Self::in_layout(history, &Layout::at(history, moment), request)
    }

    /// Computes the fragmentation of a layout of `history` for one more `request`.
    pub(crate) fn in_layout(history: &History, layout: &Layout<'_>, request: Request) -> Self {
        let requested: u64 = layout.allocated().map(|a| a.requested).sum();
        let free = layout.free_blocks();
        Self::of(layout.moment(), layout.counters(), requested, &free, request, &history.policy)
    }

    /// Computes the fragmentation from the `counters` and the free blocks; `requested` is the sum of the requested bytes of all
    /// allocated blocks.
    pub(crate) fn of(
        moment: Moment,
        counters: Counters,
        requested: u64,
        free: &[FreeBlock],
        request: Request,
        policy: &Policy,
    ) -> Self {
        let Counters { allocated, active, reserved, .. } = counters;
        let mut unusable: Vec<UnusableBlocks> = Vec::new();
        let mut usable = 0;
        for &block in free {
            let Some(why) = request.cannot_use(&block, policy) else {
                usable += block.size;
                continue;
            };
            match unusable.iter_mut().find(|u| u.why == why) {
                None => unusable.push(UnusableBlocks { why, bytes: block.size, blocks: 1, largest: block }),
                Some(u) => {
                    u.bytes += block.size;
                    u.blocks += 1;
                    if block.size > u.largest.size {
                        u.largest = block;
                    }
                }
            }
        }
        unusable.sort_by_key(|u| std::cmp::Reverse((u.bytes, u.why)));
        Self {
            moment,
            internal: allocated.saturating_sub(requested),
            external: reserved.saturating_sub(active),
            whole_segments: free.iter().filter(|b| b.whole_segment).map(|b| b.size).sum(),
            free_blocks: free.len(),
            largest: free.iter().copied().max_by_key(|b| b.size),
            request,
            usable,
            unusable,
        }
    }

    /// Bytes of `external` that cannot serve the request.
    pub fn unusable_bytes(&self) -> u64 {
        self.unusable.iter().map(|u| u.bytes).sum()
    }
}

/// Returns the largest request of the recording. Fragmentation is computed for it if no request failed.
pub fn largest_request(history: &History) -> Option<Request> {
    let events = &history.device().events;
    let sizes = events.actions().iter().zip(events.sizes()).enumerate();
    let allocs = sizes.filter(|&(_, (&action, _))| action == Action::Alloc);
    let recorded = allocs.max_by_key(|&(_, (_, &size))| size).map(|(event, _)| {
        let e = events.get(event);
        let tags = history.trace().tags.get(e.tags);
        Request { bytes: history.policy.round_size(e.size), stream: tags.stream, pool: tags.pool }
    });
    recorded.or_else(|| {
        let largest = history.allocations.iter().max_by_key(|a| a.size)?;
        Some(Request { bytes: largest.size, stream: largest.stream, pool: None })
    })
}
