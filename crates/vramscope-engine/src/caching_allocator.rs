//! The caching allocator driven step by step, as a replay needs it.

use std::sync::{Arc, Mutex};

use vramscope_basics::lock;
use vramscope_trace::{Block, PoolId, Segment};

use crate::arena::{Arena, BlockKey};
use crate::arena_key::{ArenaKey, PLANNED};
use crate::callbacks::NoCallbacks;
use crate::device::{Device, DeviceError};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::layout::SegmentLayout;
use crate::observer::Unobserved;
use crate::plan::{Plan, PlanFollower, PlanUse};
use crate::policy::{BLOCK_UNIT, Policy};
use crate::start::{BadLayout, StartSegment};
use crate::statistics::Statistics;

/// The caching allocator of one device, without hooks, history and owning handles. Its [`Policy`] makes it PyTorch's
/// `DeviceCachingAllocator` or CuPy's `SingleDeviceMemoryPool`.
///
/// This is the engine of the pools in `vramscope-allocator`. Here the caller supplies the inputs that the program or the driver
/// supplies there: the pool and stream of each request, the time at which other streams are done with a freed block, and the segments
/// on the device at the start.
///
/// ```
/// use std::sync::Arc;
/// use vramscope_engine::{CachingAllocator, Policy, TorchRelease, VirtualDevice};
/// use vramscope_trace::{PoolId, TorchSettings};
///
/// let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
/// let allocator = CachingAllocator::new(policy, Arc::new(VirtualDevice::with_capacity(1 << 30)))?;
/// let block = allocator.malloc(PoolId::default(), 0, 3_000_000)?;
/// assert_eq!(block.size(), 3_000_320);
/// let pending = block.free_requested();
/// assert_eq!(allocator.statistics().active.current, 3_000_320);
/// pending.free_completed();
/// assert_eq!(allocator.reserved_bytes(), 20 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CachingAllocator {
    engine: Engine<Unobserved>,
    plan: Option<Followed>,
}

/// A plan and the position of the program in it.
struct Followed {
    plan: Arc<Plan>,
    follower: Mutex<PlanFollower>,
}

/// An allocated block. Dropping it does not free it.
#[must_use = "the block stays in use until it is freed"]
pub struct LiveBlock {
    arena: Arc<Arena<Unobserved>>,
    key: BlockKey,
    address: u64,
    size: u64,
}

/// A block that was on the device at the start.
pub enum Installed {
    /// An allocated block.
    Live(LiveBlock),
    /// A block that its owner freed, but another stream still uses.
    Pending(PendingBlock),
}

/// A freed block that other streams still use.
#[must_use = "the block is not available until its streams are done"]
pub struct PendingBlock {
    arena: Arc<Arena<Unobserved>>,
    number: u64,
    size: u64,
}

impl CachingAllocator {
    /// Creates an allocator on `device` with the rules of `policy`.
    ///
    /// # Errors
    /// If the policy requires a feature that the device does not support, or the device does not respond.
    pub fn new(policy: Policy, device: Arc<dyn Device>) -> Result<Self, DeviceError> {
        Ok(Self { engine: Engine::new(device, 0, policy, Unobserved)?, plan: None })
    }

    /// Serves all later requests that follow `plan` from their planned addresses, in one expandable segment for each stream, or for all if
    /// they share one. All other requests are served by the policy. On a device without virtual memory, no request is planned.
    pub fn follow_plan(&mut self, plan: Arc<Plan>) {
        let follower = Mutex::new(PlanFollower::new(Arc::clone(&plan)));
        self.plan = Some(Followed { plan, follower });
    }

    /// Whether a plan is followed.
    pub fn has_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns how the requests since [`follow_plan`](Self::follow_plan) were served; `None` without a plan.
    pub fn plan_use(&self) -> Option<PlanUse> {
        let usage = self.plan.as_ref().map(|plan| lock(&plan.follower).usage)?;
        Some(PlanUse { waits: self.engine.plan_waits(), ..usage })
    }

    /// Serves a request at its planned address, if the plan has one and it is available.
    fn malloc_planned(
        &self,
        Followed { plan, follower }: &Followed,
        pool: PoolId,
        stream: u64,
        size: u64,
    ) -> Option<LiveBlock> {
        // A size that overflows exceeds every device and every plan.
        let bytes = size.checked_next_multiple_of(BLOCK_UNIT)?;
        let mut follower = lock(follower);
        if follower.take_release() {
            self.engine.release_cache().ok();
        }
        follower.set_exchanges(self.engine.plan_exchanges());
        let place = follower.place(pool, stream, bytes)?;
        let arena = self.engine.arena(plan.arena(stream));
        let Ok(placed) = self.engine.malloc_planned(arena, place, size, None, &NoCallbacks);
        let grant = placed.inspect_err(|&why| follower.usage.not_placed(bytes, Some(why))).ok()?;
        Some(LiveBlock {
            arena: Arc::clone(arena),
            key: grant.block,
            address: grant.address,
            size: grant.size,
        })
    }

    /// Allocates `size` bytes from a pool on a stream; 0 counts as 1. The first use of a private pool's id creates the pool: it splits
    /// blocks, and keeps its cache until [`release_pool`](Self::release_pool).
    ///
    /// # Errors
    /// See [`EngineError`].
    #[inline]
    pub fn malloc(&self, pool: PoolId, stream: u64, size: u64) -> Result<LiveBlock, EngineError> {
        let size = size.max(1);
        if let Some(plan) = &self.plan
            && let Some(block) = self.malloc_planned(plan, pool, stream, size)
        {
            return Ok(block);
        }
        let arena = self.engine.arena(ArenaKey { pool, stream });
        let rounded = self.engine.policy().round_size(size);
        let (grant, arena) = if let Some(Followed { plan, .. }) = &self.plan {
            let planned = self.engine.arena(plan.arena(stream));
            let served = self.engine.malloc_beside_plan(arena, planned, size, rounded, None, &NoCallbacks)?;
            (served.0, if served.1 { planned } else { arena })
        } else {
            (self.engine.malloc(arena, size, rounded, None, &NoCallbacks)?, arena)
        };
        let arena = Arc::clone(arena);
        Ok(LiveBlock { arena, key: grant.block, address: grant.address, size: grant.size })
    }

    /// Creates a private pool, if it does not exist. Its blocks serve no other pool.
    pub fn create_pool(&self, pool: PoolId) {
        self.engine.add_pool(pool);
    }

    /// Marks a private pool as no longer used, so that its cached blocks may be released.
    pub fn release_pool(&self, pool: PoolId) {
        self.engine.release_pool(pool);
    }

    /// Releases the cached segments of one pool that contain no block in use (`emptyCache` for one pool).
    ///
    /// # Errors
    /// The first error of the device.
    pub fn empty_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.engine.free_pool(pool)
    }

    /// Waits for the streams of every freed block, then releases all cached segments that contain no block in use (`emptyCache`).
    ///
    /// # Errors
    /// The first error of the device.
    pub fn empty_cache(&self) -> Result<(), DeviceError> {
        self.engine.free_all_blocks(None)
    }

    /// Releases the cached segment that contains `address`. In an expandable segment, releases the whole pages of the free block that
    /// contains `address`. Returns false if nothing was released.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        self.engine.release_at(address)
    }

    /// Adds a segment with its blocks that was on the device before the first step. The device must already count its addresses as
    /// taken. Returns the blocks in the given order.
    ///
    /// # Errors
    /// If blocks overlap or are outside the segment. Nothing is added then.
    pub fn install(&self, segment: &StartSegment) -> Result<Vec<Installed>, BadLayout> {
        let arena = self.engine.arena(ArenaKey { pool: segment.pool, stream: segment.stream });
        let keys = self.engine.install(arena, segment)?;
        let installed = keys.into_iter().zip(&segment.blocks).map(|(key, block)| {
            let (arena, size) = (Arc::clone(arena), block.size);
            if block.pending {
                let number = arena.wait_for_completion(key);
                Installed::Pending(PendingBlock { arena, number, size })
            } else {
                Installed::Live(LiveBlock { arena, key, address: block.address, size })
            }
        });
        Ok(installed.collect())
    }

    /// Returns the bytes taken from the device.
    #[inline]
    pub fn reserved_bytes(&self) -> u64 {
        self.engine.reserved_bytes()
    }

    /// Returns the bytes allocated or waiting for another stream.
    pub fn active_bytes(&self) -> u64 {
        self.engine.active_bytes()
    }

    /// Returns the current and peak values of the five kinds of bytes, and counts.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// Returns all segments with their blocks in address order, as in a snapshot without stacks. An expandable segment yields one entry for
    /// each run of mapped addresses.
    pub fn segments(&self) -> Vec<(Segment, Vec<Block>)> {
        let locked = self.engine.lock_all();
        locked.segments().iter().map(SegmentLayout::without_stacks).collect()
    }
}

impl LiveBlock {
    /// Returns the address of the block's first byte on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the size of the block in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the block is at its planned address.
    pub fn is_planned(&self) -> bool {
        self.arena.key().pool == PLANNED
    }

    /// Frees the block. It is available again at once.
    #[inline]
    pub fn free(self) {
        self.arena.free(self.key, None);
    }

    /// Frees the block while other streams still use it. It is available again once they are done.
    pub fn free_requested(self) -> PendingBlock {
        let number = self.arena.free_requested(self.key);
        PendingBlock { arena: self.arena, number, size: self.size }
    }
}

impl Installed {
    /// Returns the size of the block in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Live(block) => block.size,
            Self::Pending(block) => block.size,
        }
    }
}

impl PendingBlock {
    /// Returns the size of the block in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reports that the other streams are done: the block is available again. Does nothing if the allocator has already waited for the
    /// streams, as it does before it releases its cache.
    pub fn free_completed(self) {
        self.arena.free_completed(self.number);
    }
}

#[cfg(test)]
mod tests;
