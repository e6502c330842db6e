//! The caching allocator driven a step at a time: what a replay needs.

use std::sync::Arc;

use vramscope_trace::{Block, PoolId, Segment};

use crate::arena::Arena;
use crate::arena::BlockKey;
use crate::arena_key::ArenaKey;
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
/// It is the same engine as in the pools of `vramscope-allocator`. What depends on the program or on the driver there is given
/// by the caller here: the pool and stream of each request, when other streams are done with a freed block, and what lay on the
/// device at the start.
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
    /// A block in use.
    Live(LiveBlock),
    /// A block that its owner has freed, and that another stream still uses.
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

    /// Allocates `size` bytes from a pool on a stream; 0 counts as 1. A private pool that is named for the first time is made: it
    /// splits blocks, and keeps its cache until [`release_pool`](Self::release_pool).
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

    /// Makes a private pool, where it does not exist yet. Its blocks serve no other pool.
    pub fn create_pool(&self, pool: PoolId) {
        self.engine.add_pool(pool);
    }

    /// Says that no more will be allocated from a private pool, so that its cached blocks may be given back.
    pub fn release_pool(&self, pool: PoolId) {
        self.engine.release_pool(pool);
    }

    /// Gives the cached segments of one pool back to the device, as far as nothing in them is in use (`emptyCache` of one pool).
    ///
    /// # Errors
    /// The device's first refusal.
    pub fn empty_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.engine.free_pool(pool)
    }

    /// Gives all cached segments back to the device, as far as nothing in them is in use (`emptyCache`), after waiting for the
    /// streams of every freed block.
    ///
    /// # Errors
    /// The device's first refusal.
    pub fn empty_cache(&self) -> Result<(), DeviceError> {
        self.engine.free_all_blocks(None)
    }

    /// Gives the cached segment that contains `address` back to the device; in an expandable segment, the whole pages of the free
    /// block that contains it. Returns false where nothing was given back.
    ///
    /// # Errors
    /// The device's refusal.
    pub fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        self.engine.release_at(address)
    }

    /// Puts a segment and its blocks in place that lay on the device before the first step. The device must already count its
    /// addresses as taken. Returns the blocks in the order given.
    ///
    /// # Errors
    /// Where blocks overlap or lie outside the segment; then nothing is put in place.
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

    /// Bytes taken from the device.
    #[inline]
    pub fn reserved_bytes(&self) -> u64 {
        self.engine.reserved_bytes()
    }

    /// Bytes handed out, or waiting for another stream.
    pub fn active_bytes(&self) -> u64 {
        self.engine.active_bytes()
    }

    /// Bytes of the five kinds with their peaks, and counts.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// Every segment with its blocks in address order, in the form of a snapshot without stacks. Of an expandable segment there is
    /// one for each run of mapped addresses.
    pub fn segments(&self) -> Vec<(Segment, Vec<Block>)> {
        let locked = self.engine.lock_all();
        locked.segments().iter().map(SegmentLayout::without_stacks).collect()
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

    /// Frees the block, which is then available again.
    #[inline]
    pub fn free(self) {
        self.arena.free(self.key, None);
    }

    /// Frees the block while other streams still use it: it is available once they are done.
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

    /// Says that the other streams are done, so that the block is available again. Does nothing where the allocator has waited for
    /// the streams meanwhile, as it does before it gives its cache back.
    pub fn free_completed(self) {
        self.arena.free_completed(self.number);
    }
}
