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
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use vramscope_trace::TorchSettings;

    use super::*;
    use crate::device::DEVICE_PAGE as PAGE;
    use crate::plan::PlannedRequest;
    use crate::{TorchRelease, VirtualDevice};

    const STREAMS: [u64; 2] = [0, 0x55];

    /// Plans whose places overlap at random.
    fn plan() -> impl Strategy<Value = Plan> {
        let request = (1u64..9000, 0u32..2, prop::option::weighted(0.9, any::<u64>()));
        let requests = prop::collection::vec(request, 0..30);
        (requests.clone(), requests, 1u64..8, any::<bool>()).prop_map(|(startup, step, pages, is_shared)| {
            let segment = pages * PAGE;
            let place = |(units, stream, at): (u64, u32, Option<u64>)| {
                let size = (units * 512).min(segment);
                let offset = at.map(|at| at % ((segment - size) / 512 + 1) * 512);
                PlannedRequest { size, stream, offset }
            };
            let place = |list: Vec<_>| list.into_iter().map(place).collect();
            if is_shared {
                Plan::shared(segment, place(startup), place(step)).unwrap()
            } else {
                Plan::new(vec![segment; 2], place(startup), place(step)).unwrap()
            }
        })
    }

    fn policies() -> impl Strategy<Value = Policy> {
        let torch = |conf| Policy::torch(&TorchSettings::parse(conf).unwrap(), TorchRelease::new(2, 11));
        let expandable = torch("expandable_segments:True");
        prop_oneof![Just(torch("")), Just(expandable), Just(Policy::cupy())]
    }

    enum Held {
        Live(LiveBlock),
        Pending(PendingBlock, u64),
    }

    impl Held {
        fn range(&self) -> (u64, u64) {
            match self {
                Self::Live(block) => (block.address(), block.address() + block.size()),
                Self::Pending(block, address) => (*address, address + block.size()),
            }
        }

        fn free(self) {
            match self {
                Self::Live(block) => block.free(),
                Self::Pending(block, _) => block.free_completed(),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Follows the plan, leaves it, frees early and late, and empties the cache, on devices that run out of memory.
        #[test]
        fn blocks_in_use_never_overlap_under_any_plan(
            plan in plan(),
            policy in policies(),
            mib in 4u64..160,
            steps in prop::collection::vec((0u8..16, any::<usize>(), 1u64..9000), 1..200),
        ) {
            let capacity = mib << 20;
            let device = Arc::new(VirtualDevice::with_capacity(capacity));
            let mut allocator = CachingAllocator::new(policy, device).unwrap();
            let all: Vec<PlannedRequest> = plan.startup().iter().chain(plan.step()).copied().collect();
            allocator.follow_plan(Arc::new(plan));
            let mut held: Vec<Held> = Vec::new();
            let (mut next, mut requests) = (0, 0);
            for (what, which, units) in steps {
                let planned = all.get(next % all.len().max(1)).copied();
                let request = match (what, planned) {
                    (0..8, Some(planned)) => {
                        next += 1;
                        Some((planned.size, planned.stream))
                    }
                    (8 | 9, _) => Some((units * 512, which as u32 % 2)),
                    _ => None,
                };
                if let Some((size, stream)) = request {
                    requests += 1;
                    let stream = STREAMS[stream as usize];
                    let served = allocator.malloc(PoolId::default(), stream, size);
                    // A request that released the cache has waited for all streams.
                    if allocator.statistics().num_alloc_retries > 0 {
                        held.retain(|held| matches!(held, Held::Live(_)));
                    }
                    let Ok(block) = served else { continue };
                    prop_assert!(block.size() >= size);
                    let (from, to) = (block.address(), block.address() + block.size());
                    for other in &held {
                        let (other_from, other_to) = other.range();
                        prop_assert!(to <= other_from || other_to <= from);
                    }
                    held.push(Held::Live(block));
                } else if what == 15 {
                    // Blocks that wait for a stream become free here.
                    held.retain(|held| matches!(held, Held::Live(_)));
                    allocator.empty_cache().unwrap();
                } else if !held.is_empty() {
                    let index = which % held.len();
                    match held.swap_remove(index) {
                        Held::Live(block) if what == 14 => {
                            let address = block.address();
                            held.push(Held::Pending(block.free_requested(), address));
                        }
                        other => other.free(),
                    }
                }
                let s = allocator.statistics();
                prop_assert!(s.reserved.current <= capacity);
                prop_assert!(s.active.current <= s.reserved.current);
                let ranges = held.iter().map(|h| h.range().1 - h.range().0);
                prop_assert!(s.active.current >= ranges.sum::<u64>());
            }
            prop_assert_eq!(allocator.plan_use().unwrap().all().requests, requests);
            held.into_iter().for_each(Held::free);
            allocator.empty_cache().unwrap();
            let s = allocator.statistics();
            prop_assert_eq!((s.reserved.current, s.active.current, s.allocated.current), (0, 0, 0));
            prop_assert!(allocator.segments().is_empty());
        }
    }

    /// A plan of small blocks and of one with 16 MiB, in a segment of 18 MiB.
    fn with_a_large_block() -> (CachingAllocator, Vec<u64>) {
        let sizes = vec![512, 1024, 1536, 2048, 16 << 20];
        let offsets = [16 << 20, (16 << 20) + 512, (16 << 20) + 1536, (16 << 20) + 3072, 0];
        let place = |(&size, offset)| PlannedRequest { size, stream: 0, offset: Some(offset) };
        let step = sizes.iter().zip(offsets).map(place).collect();
        let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
        let mut allocator =
            CachingAllocator::new(policy, Arc::new(VirtualDevice::with_capacity(1 << 30))).unwrap();
        allocator.follow_plan(Arc::new(Plan::new(vec![18 << 20], Vec::new(), step).unwrap()));
        (allocator, sizes)
    }

    fn step(allocator: &CachingAllocator, sizes: &[u64]) {
        let malloc = |&size: &u64| allocator.malloc(PoolId::default(), 0, size).unwrap();
        let blocks: Vec<LiveBlock> = sizes.iter().map(malloc).collect();
        blocks.into_iter().for_each(LiveBlock::free);
    }

    #[test]
    fn free_memory_of_a_plan_is_released_before_other_requests_take_more() {
        let (allocator, sizes) = with_a_large_block();
        step(&allocator, &sizes);
        assert_eq!(allocator.reserved_bytes(), 18 << 20);
        let other = allocator.malloc(PoolId::default(), 0, 12 << 20).unwrap();
        assert_eq!(allocator.reserved_bytes(), 12 << 20);
        other.free();
        // The memory of the other request is released in turn.
        step(&allocator, &sizes);
        assert_eq!((allocator.reserved_bytes(), allocator.statistics().reserved.peak), (18 << 20, 18 << 20));
        assert_eq!(allocator.engine.plan_exchanges(), 1);
    }

    #[test]
    fn a_program_whose_steps_need_both_memories_runs_without_its_plan() {
        let (allocator, sizes) = with_a_large_block();
        for steps in 1..=6 {
            step(&allocator, &sizes);
            step(&allocator, &[12 << 20]);
            let planned = allocator.plan_use().unwrap().planned.requests;
            assert_eq!(planned, 5 * steps.min(5), "step {steps}");
            let peak = allocator.statistics().reserved.peak;
            assert!(steps > 5 || peak == 18 << 20, "step {steps}: {peak}");
        }
    }

    #[test]
    fn planned_blocks_have_their_addresses_and_pages_are_mapped_where_they_are_used() {
        let at = |size: u64, offset| PlannedRequest { size, stream: 0, offset: Some(offset) };
        let requests = vec![at(3 * PAGE, PAGE), at(512, 8 * PAGE - 512)];
        let plan = Plan::new(vec![8 * PAGE], Vec::new(), requests).unwrap();
        let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
        let device = Arc::new(VirtualDevice::with_capacity(100 * PAGE));
        let mut allocator = CachingAllocator::new(policy, device).unwrap();
        allocator.follow_plan(Arc::new(plan));
        let a = allocator.malloc(PoolId::default(), 0, 3 * PAGE).unwrap();
        assert_eq!(allocator.reserved_bytes(), 3 * PAGE);
        let b = allocator.malloc(PoolId::default(), 0, 100).unwrap();
        assert_eq!(b.address() - a.address(), 7 * PAGE - 512);
        assert_eq!(allocator.reserved_bytes(), 4 * PAGE);
        assert!(a.is_planned() && b.is_planned());
        // Its place is in use, so the request is served as without a plan.
        let c = allocator.malloc(PoolId::default(), 0, 3 * PAGE).unwrap();
        assert!(!c.is_planned());
        assert_eq!(allocator.plan_use().unwrap().in_use.requests, 1);
        [a, b, c].into_iter().for_each(LiveBlock::free);
        allocator.empty_cache().unwrap();
        assert_eq!(allocator.reserved_bytes(), 0);
    }
}
