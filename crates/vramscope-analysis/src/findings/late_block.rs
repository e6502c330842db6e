//! Blocks that become free too late for a request that fails.
//!
//! If another stream still uses a block (`record_stream`), its free is only requested, and the block waits for that stream. Before a
//! request fails, PyTorch's allocator waits for the streams and releases cached segments (`release_cached_blocks` in
//! `c10/cuda/CUDACachingAllocator.cpp`). Then it asks the device again, but does not look for a block again. So a block that became free
//! in between may fit but serve nothing, and the same request succeeds right after the failure (pytorch/pytorch#189504).

use vramscope_basics::count_steps;
use vramscope_trace::{Action, StackId};

use super::fragmentation::Request;
use super::oom_causes::Pending;
use crate::history::{FreeBlock, History, Layout, RecordedAllocation, is_release};

/// A free block that fits a failed request, and was not yet free when the allocator looked for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateBlock {
    /// The event of the failed request.
    pub event: usize,
    /// The stack of the failed request.
    pub stack: Option<StackId>,
    /// Bytes of the request, after rounding.
    pub request: u64,
    /// The block; of several, the smallest that fits.
    pub block: FreeBlock,
    /// Bytes in it that waited for another stream.
    pub waited: u64,
    /// The event that requested the last of these frees, and its stack.
    pub freed: (usize, Option<StackId>),
    /// Whether all of the block became free within the failed request; if not, it still waited after the request.
    pub is_free: bool,
    /// The event of a later request of this size that the block served.
    pub served: Option<usize>,
}

/// The freed blocks that waited for another stream when a request looked for a block.
pub(super) struct Waited<'h> {
    history: &'h History,
    /// The event of the request.
    event: usize,
    /// The first event within the request: frees complete and segments are released, but the program makes no other requests.
    first: usize,
}

impl<'h> Waited<'h> {
    /// The blocks that waited during the failed request of `event`.
    pub(super) fn for_request(history: &'h History, event: usize) -> Self {
        let actions = history.device().events.actions();
        let is_within = |&e: &usize| actions[e] == Action::FreeCompleted || is_release(actions[e]);
        let first = (0..event).rev().take_while(is_within).last().unwrap_or(event);
        Self { history, event, first }
    }

    /// Whether the block became free only within the request.
    fn is_late(&self, a: &RecordedAllocation) -> bool {
        let Some((freed, to)) = a.freed.event().zip(a.to.event()) else { return false };
        let stack = |e| self.history.device().events.get(e).stack;
        let is_at_once = || to <= freed + 1 && stack(freed) == stack(to);
        (self.first..self.event).contains(&to) && freed < self.first && !is_at_once()
    }

    /// The bytes that waited, in the layout after the request.
    pub(super) fn pending(&self, layout: &Layout<'_>, request: Request) -> Pending {
        // By address, and apart from each other.
        let usable = self.usable(layout, request);
        let is_fitting = |a: &&RecordedAllocation| {
            let before = usable.partition_point(|free| free.address <= a.address).checked_sub(1);
            before.is_some_and(|i| usable[i].contains(a.address))
        };
        let late = self.history.allocations.iter().filter(|_| !usable.is_empty()).filter(|a| self.is_late(a));
        let counters = layout.counters();
        Pending {
            fitting: late.filter(is_fitting).map(|a| a.size).sum(),
            waiting: counters.active.saturating_sub(counters.allocated),
        }
    }

    /// The free blocks that can serve the request, by address.
    fn usable(&self, layout: &Layout<'_>, request: Request) -> Vec<FreeBlock> {
        let free = layout.free_blocks().into_iter();
        free.filter(|free| request.cannot_use(free, &self.history.policy).is_none()).collect()
    }
}

impl LateBlock {
    /// Returns the smallest block that fits the request once all blocks have waited, given the layout after the request.
    pub(super) fn of(waited: &Waited<'_>, layout: &Layout<'_>, request: Request) -> Option<Self> {
        let &Waited { history, event, .. } = waited;
        let moment = layout.moment();
        let mut late: Vec<&RecordedAllocation> = history
            .allocations
            .iter()
            .filter(|a| (a.is_active_at(moment) && !a.is_allocated_at(moment)) || waited.is_late(a))
            .collect();
        if late.is_empty() {
            return None;
        }
        late.sort_by_key(|a| a.address);
        let inside = |block: &FreeBlock| {
            let first = late.partition_point(|a| a.address < block.address);
            let parts = late[first..].chunk_by(|_, next| block.contains(next.address)).next();
            count_steps(1 + parts.map_or(0, <[_]>::len));
            parts.filter(|parts| block.contains(parts[0].address)).unwrap_or_default()
        };
        let mut usable = waited.usable(&layout.once_waited(), request);
        usable.sort_by_key(|free| (free.size, free.address));
        let (block, parts) =
            usable.iter().map(|block| (*block, inside(block))).find(|(_, parts)| !parts.is_empty())?;
        let freed = parts.iter().filter_map(|a| a.freed.event()).max()?;
        let events = &history.device().events;
        let is_served = |&e: &usize| {
            events.actions()[e] == Action::Alloc
                && history.policy.round_size(events.sizes()[e]) == request.bytes
                && block.contains(events.get(e).address())
        };
        Some(Self {
            event,
            stack: events.get(event).stack,
            request: request.bytes,
            block,
            waited: parts.iter().map(|a| a.size).sum(),
            freed: (freed, events.get(freed).stack),
            is_free: parts.iter().all(|a| !a.is_active_at(moment)),
            served: (event + 1..events.len()).find(is_served),
        })
    }
}
