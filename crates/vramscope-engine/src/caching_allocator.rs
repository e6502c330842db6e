//! The caching allocator driven a step at a time: what a replay needs.

use std::sync::Arc;

use vramscope_trace::{Block, PoolId, Segment};

use crate::arena::Arena;
use crate::arena_key::ArenaKey;
use crate::block::BlockKey;
use crate::callbacks::NoCallbacks;
use crate::device::{Device, DeviceError};
use crate::engine::Engine;
use crate::error::AllocError;
use crate::layout::SegmentLayout;
use crate::observer::Unobserved;
use crate::policy::Policy;
use crate::start::{BadLayout, StartSegment};
use crate::statistics::Statistics;

/// The caching allocator of one device, without hooks, history and handles that free themselves: PyTorch's
/// `DeviceCachingAllocator`, or CuPy's `SingleDeviceMemoryPool`, by its [`Policy`].
///
/// It is the engine of the pools of `vramscope-allocator`. What a program or a driver decides there is said
/// here: the pool and stream of each request, when other streams are done with a freed block, what lay on
/// the device at the start.
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
}

/// A block in use. Dropping it frees nothing.
#[must_use = "the block stays in use until it is freed"]
pub struct LiveBlock {
    arena: Arc<Arena<Unobserved>>,
    key: BlockKey,
    address: u64,
    size: u64,
}

/// A block that was in place from the start.
pub enum Installed {
    /// In use.
    Live(LiveBlock),
    /// Given back, and still in use by another stream.
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
    /// An allocator of `device` by the rules of `policy`.
    ///
    /// # Errors
    /// Where the policy asks for what the device cannot do, or the device does not answer.
    pub fn new(policy: Policy, device: Arc<dyn Device>) -> Result<Self, DeviceError> {
        Ok(Self { engine: Engine::new(device, 0, policy, Unobserved)? })
    }

    /// Takes `size` bytes, at least one, from a pool on a stream. A private pool that is named for the first
    /// time is made: it splits blocks, and keeps them until [`release_pool`](Self::release_pool).
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc(&self, pool: PoolId, stream: u64, size: u64) -> Result<LiveBlock, AllocError> {
        let arena = self.engine.arena(ArenaKey { pool, stream });
        let size = size.max(1);
        let rounded = self.engine.policy().round_size(size);
        let grant = self.engine.malloc(arena, size, rounded, None, &NoCallbacks)?;
        let arena = Arc::clone(arena);
        Ok(LiveBlock { arena, key: grant.block, address: grant.address, size: grant.size })
    }

    /// Says that a private pool exists: its blocks are kept from others.
    pub fn create_pool(&self, pool: PoolId) {
        self.engine.add_pool(pool);
    }

    /// Nobody will allocate from a private pool again: its blocks need no longer be kept.
    pub fn release_pool(&self, pool: PoolId) {
        self.engine.release_pool(pool);
    }

    /// Gives every cached block of one pool that is whole back to the device (`emptyCache` of one pool).
    ///
    /// # Errors
    /// The device's first refusal.
    pub fn empty_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.engine.free_pool(pool)
    }

    /// Gives every cached block that is whole back to the device (`emptyCache`), after waiting for the streams
    /// of every freed block.
    ///
    /// # Errors
    /// The device's first refusal.
    pub fn empty_cache(&self) -> Result<(), DeviceError> {
        self.engine.free_all_blocks(None)
    }

    /// Gives the cached segment at `address` back to the device, or the whole pages of an expandable one's
    /// free block around it. False where no such block is free.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        self.engine.release_at(address)
    }

    /// Puts a segment and its blocks in place that lay on the device before the first step; the device must
    /// hold it already. Returns its blocks in the order given.
    ///
    /// # Errors
    /// Where blocks overlap or lie outside the segment; then nothing is put in place.
    pub fn install(&self, segment: &StartSegment) -> Result<Vec<Installed>, BadLayout> {
        let arena = self.engine.arena(ArenaKey { pool: segment.pool, stream: segment.stream });
        let keys = self.engine.install(arena, segment)?;
        let installed = keys.into_iter().zip(&segment.blocks).map(|(key, block)| {
            let (arena, size) = (Arc::clone(arena), block.size);
            if block.pending {
                let number = arena.wait_to_be_told(key);
                Installed::Pending(PendingBlock { arena, number, size })
            } else {
                Installed::Live(LiveBlock { arena, key, address: block.address, size })
            }
        });
        Ok(installed.collect())
    }

    /// Bytes taken from the device.
    #[inline]
    pub fn reserved_bytes(&self) -> u64 {
        self.engine.reserved_bytes()
    }

    /// Bytes handed out, or waiting for another stream.
    pub fn active_bytes(&self) -> u64 {
        self.engine.active_bytes()
    }

    /// Bytes of the five kinds, and counts.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// Every segment with its blocks, in address order, as a snapshot shows them; of an expandable segment,
    /// each run of mapped addresses. No stacks are known.
    pub fn segments(&self) -> Vec<(Segment, Vec<Block>)> {
        let whole = self.engine.whole();
        whole.segments().iter().map(SegmentLayout::without_stacks).collect()
    }
}

impl LiveBlock {
    /// First byte on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of the block.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends its use: it is available again.
    #[inline]
    pub fn free(self) {
        self.arena.free(self.key, None);
    }

    /// Ends its owner's use; other streams still use it.
    pub fn free_requested(self) -> PendingBlock {
        let number = self.arena.free_requested(self.key);
        PendingBlock { arena: self.arena, number, size: self.size }
    }
}

impl Installed {
    /// Bytes of the block.
    pub fn size(&self) -> u64 {
        match self {
            Self::Live(block) => block.size,
            Self::Pending(block) => block.size,
        }
    }
}

impl PendingBlock {
    /// Bytes of the block.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The other streams are done. Nothing happens where the allocator has waited for them meanwhile.
    pub fn free_completed(self) {
        self.arena.free_completed(self.number);
    }
}
