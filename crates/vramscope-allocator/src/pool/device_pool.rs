//! The part of a pool on one device.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use vramscope_basics::lock;
use vramscope_trace::PoolId;

use vramscope_engine::{
    ArenaKey, AtPeak, BLOCK_UNIT, DeviceError, Engine, FreeMemoryCallback, MemoryInfo, MemorySummary,
    OutOfMemory, Plan, PlanFollower, PlanUse, Policy, ScopeKey, ScopePeaks, Statistics,
};

use super::pool_observer::PoolObserver;
use super::{AllocError, Allocation, Limit, LimitError, MemoryPool, memory_summary};
use crate::history::StackKey;
use crate::history::When;
use crate::hooks::{AllocationHooks, DeviceHooks, Hooks, HooksAtMalloc, MallocGuard};
use crate::threads;

/// Called when a request fails because memory ran out; see [`MemoryPool::on_oom`](super::MemoryPool::on_oom).
pub type OomObserver = Arc<dyn Fn(&MemoryPool, &OutOfMemory) + Send + Sync>;

/// The part of a [`MemoryPool`](super::MemoryPool) on one device; CuPy calls it `SingleDeviceMemoryPool`.
pub struct DevicePool {
    pub(super) engine: Arc<Engine<PoolObserver>>,
    pub(super) pool: Weak<super::Inner>,
    /// The plan that requests follow.
    plan: OnceLock<Followed>,
    /// Bytes of a plan that a running program joins, until its memory was compared with that of the rules.
    joined: AtomicU64,
    /// Whether the rules need less memory than the plan.
    plan_dropped: AtomicBool,
}

/// A plan, and the position of the program in it.
struct Followed {
    plan: Arc<Plan>,
    follower: Mutex<PlanFollower>,
}

impl DevicePool {
    pub(super) fn new(engine: Arc<Engine<PoolObserver>>, pool: Weak<super::Inner>) -> Self {
        Self {
            engine,
            pool,
            plan: OnceLock::new(),
            joined: AtomicU64::new(0),
            plan_dropped: AtomicBool::new(false),
        }
    }

    /// Returns the device id.
    pub fn device_id(&self) -> i32 {
        self.engine.device_id()
    }

    /// Allocates `size` bytes on the default stream.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc(&self, size: u64) -> Result<Allocation, AllocError> {
        self.malloc_in(ArenaKey::default(), size)
    }

    /// Allocates `size` bytes on a stream. Only requests on the same stream reuse the memory. Stream 2, `cudaStreamPerThread`, is a
    /// different stream on every thread, as in CuPy; recordings number these streams from 2^52 on.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc_on(&self, stream: u64, size: u64) -> Result<Allocation, AllocError> {
        self.malloc_in(self.key(PoolId::default(), stream), size)
    }

    /// Allocates `size` bytes on a stream from the private pool with this id, or from the default pool for `(0, 0)`. Another library
    /// chooses the ids, such as PyTorch for its CUDA graphs. [`open_pool`](Self::open_pool) creates the pool.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc_from(&self, pool: PoolId, stream: u64, size: u64) -> Result<Allocation, AllocError> {
        self.malloc_in(self.key(pool, stream), size)
    }

    #[inline]
    fn malloc_in(&self, key: ArenaKey, size: u64) -> Result<Allocation, AllocError> {
        if !self.engine.observer().process.is_this() {
            return Err(AllocError::Forked);
        }
        match Hooks::here(&self.engine.observer().hooks, self.device_id()) {
            Hooks::None(at_malloc) => self.malloc_with(key, size, self.round_size(size), at_malloc, None),
            Hooks::Some(hooks) => self.malloc_observed(key, size, &hooks),
        }
    }

    /// Serves a request with hooks. `malloc_postprocess` runs even if the request fails or panics.
    #[inline(never)]
    fn malloc_observed(
        &self,
        key: ArenaKey,
        size: u64,
        hooks: &AllocationHooks,
    ) -> Result<Allocation, AllocError> {
        let rounded = self.round_size(size);
        hooks.malloc_preprocess(size, rounded)?;
        let mut guard = MallocGuard::new(hooks, size, rounded);
        let allocation = self.malloc_with(key, size, rounded, hooks.at_malloc(), Some(hooks));
        if let Ok(allocation) = &allocation {
            guard.succeeded(allocation.size(), allocation.address(), allocation.id());
        }
        drop(guard);
        allocation
    }

    /// Returns the pool and stream whose memory serves a request on `stream`; for `cudaStreamPerThread`, the calling thread's stream.
    #[inline]
    fn key(&self, pool: PoolId, stream: u64) -> ArenaKey {
        if stream == threads::STREAM_PER_THREAD { self.own_key(pool) } else { ArenaKey { pool, stream } }
    }

    #[cold]
    fn own_key(&self, pool: PoolId) -> ArenaKey {
        let key = ArenaKey { pool, stream: threads::own_stream() };
        self.engine.arena(key).adopt(threads::this_thread().get());
        key
    }

    /// Returns the block size for a request, in bytes (`_round_size`, CuPy). A request of 0 bytes needs no block: CuPy returns no memory
    /// for it, and PyTorch does not call its allocator.
    #[inline]
    fn round_size(&self, size: u64) -> u64 {
        if size == 0 { 0 } else { self.engine.policy().round_size(size) }
    }

    #[inline(always)]
    fn malloc_with(
        &self,
        key: ArenaKey,
        size: u64,
        rounded: u64,
        at_malloc: HooksAtMalloc,
        hooks: Option<&AllocationHooks>,
    ) -> Result<Allocation, AllocError> {
        if size == 0 {
            return Ok(Allocation::of_no_bytes(self.engine.arena(key)));
        }
        let stack = self.engine.observer().history.capture(When::Malloc);
        if let Some(plan) = self.plan.get()
            && !self.plan_dropped.load(Ordering::Relaxed)
        {
            return self.malloc_by_plan(plan, key, size, rounded, at_malloc, hooks, stack);
        }
        let arena = self.engine.arena(key);
        match self.engine.malloc(arena, size, rounded, stack, &DeviceHooks(hooks)) {
            Ok(grant) => Ok(Allocation::new(arena, grant, at_malloc)),
            Err(e) => Err(self.observe_error(e.into())),
        }
    }

    /// Serves a request at its planned address, or as without a plan.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn malloc_by_plan(
        &self,
        Followed { plan, follower: plan_follower }: &Followed,
        key: ArenaKey,
        size: u64,
        rounded: u64,
        at_malloc: HooksAtMalloc,
        hooks: Option<&AllocationHooks>,
        stack: Option<StackKey>,
    ) -> Result<Allocation, AllocError> {
        let planned = self.engine.arena(plan.arena(key.stream));
        // A size that overflows exceeds every device and every plan.
        if let Some(bytes) = size.checked_next_multiple_of(BLOCK_UNIT) {
            let mut follower = lock(plan_follower);
            if !self.engine.is_capturing() && follower.take_release() {
                drop(follower);
                self.release_for_plan();
                follower = lock(plan_follower);
            }
            follower.set_exchanges(self.engine.plan_exchanges());
            let is_dropped = self.plan_dropped.load(Ordering::Relaxed);
            let place = if is_dropped { None } else { follower.place(key.pool, key.stream, bytes) };
            drop(follower);
            if let Some(place) = place {
                let placed = self.engine.malloc_planned(planned, place, size, stack, &DeviceHooks(hooks));
                if let Ok(Ok(grant)) = placed {
                    return Ok(Allocation::new(planned, grant, at_malloc));
                }
                let why = placed.as_ref().ok().and_then(|placed| placed.err());
                lock(plan_follower).usage.not_placed(bytes, why);
                placed?.ok();
            }
        }
        let arena = self.engine.arena(key);
        match self.engine.malloc_beside_plan(arena, planned, size, rounded, stack, &DeviceHooks(hooks)) {
            Ok((grant, from_plan)) => {
                Ok(Allocation::new(if from_plan { planned } else { arena }, grant, at_malloc))
            }
            Err(e) => Err(self.observe_error(e.into())),
        }
    }

    /// Releases the cache, because the program began or ceased to follow its plan. Drops a plan that a running program joins, if it needs
    /// more memory than the rules.
    #[cold]
    fn release_for_plan(&self) {
        let before = self.engine.reserved_bytes();
        // An error of the device is that of a later request, if memory is short.
        self.engine.release_cache().ok();
        let joined = self.joined.swap(0, Ordering::Relaxed);
        if joined > 0 && self.engine.reserved_bytes().saturating_add(joined) >= before {
            self.plan_dropped.store(true, Ordering::Relaxed);
        }
    }

    #[cold]
    fn observe_error(&self, error: AllocError) -> AllocError {
        if let (AllocError::OutOfMemory(e), Some(inner)) = (&error, self.pool.upgrade()) {
            MemoryPool { inner }.observe(e);
        }
        error
    }

    // ---- CuPy's names ----

    /// Returns the bytes of live blocks (allocated).
    pub fn used_bytes(&self) -> u64 {
        self.engine.allocated_bytes()
    }

    /// Returns the cached bytes: reserved but not allocated.
    pub fn free_bytes(&self) -> u64 {
        self.total_bytes().saturating_sub(self.used_bytes())
    }

    /// Returns the bytes allocated from the device (reserved).
    pub fn total_bytes(&self) -> u64 {
        self.engine.reserved_bytes()
    }

    /// Returns the number of free blocks in the cache.
    pub fn n_free_blocks(&self) -> u64 {
        self.engine.num_free_blocks()
    }

    /// Limits reserved bytes. 0, as bytes or as a fraction, is no limit (`set_limit`, CuPy).
    ///
    /// # Errors
    /// A fraction is not between 0 and 1, or the device cannot report its size.
    pub fn set_limit(&self, limit: Limit) -> Result<(), LimitError> {
        match limit {
            Limit::Fraction(x) if !(0.0..=1.0).contains(&x) => return Err(LimitError::Fraction(x)),
            Limit::None | Limit::Bytes(0) | Limit::Fraction(0.0) => self.engine.set_limit(None),
            Limit::Bytes(bytes) => self.engine.set_limit(Some(bytes)),
            Limit::Fraction(x) => self.engine.set_memory_fraction(x)?,
        }
        Ok(())
    }

    /// Returns the limit on reserved bytes; 0 is no limit.
    pub fn get_limit(&self) -> u64 {
        self.engine.limit().unwrap_or(0)
    }

    /// Releases every unsplit cached block to the device (`free_all_blocks`, CuPy; `empty_cache`, PyTorch), after waiting for streams that
    /// still use freed blocks.
    ///
    /// # Errors
    /// The device's first error. Blocks that the device refused stay in the cache; all others were released.
    pub fn free_all_blocks(&self) -> Result<(), DeviceError> {
        self.engine.free_all_blocks(None)
    }

    /// The former name of [`free_all_blocks`](Self::free_all_blocks) in CuPy.
    ///
    /// # Errors
    /// As for [`free_all_blocks`](Self::free_all_blocks).
    #[deprecated(note = "Use free_all_blocks instead.")]
    pub fn free_all_free(&self) -> Result<(), DeviceError> {
        self.free_all_blocks()
    }

    /// Like [`free_all_blocks`](Self::free_all_blocks), for the blocks of one stream.
    ///
    /// # Errors
    /// As for [`free_all_blocks`](Self::free_all_blocks).
    pub fn free_all_blocks_of(&self, stream: u64) -> Result<(), DeviceError> {
        let is_own = stream == threads::STREAM_PER_THREAD;
        self.engine.free_all_blocks(Some(if is_own { threads::own_stream() } else { stream }))
    }

    // ---- PyTorch's names ----

    /// Limits reserved bytes to a fraction of the device (`set_per_process_memory_fraction`). A fraction of 0 allows nothing.
    ///
    /// # Errors
    /// The fraction is not between 0 and 1, or the device cannot report its size.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<(), LimitError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(LimitError::Fraction(fraction));
        }
        Ok(self.engine.set_memory_fraction(fraction)?)
    }

    /// Creates the private pool with this id, if it does not exist, and keeps its cached blocks (`beginAllocateToPool`).
    pub fn open_pool(&self, id: PoolId) {
        self.engine.add_pool(id);
    }

    /// Allows to release the cached blocks of a private pool (`releasePool`).
    pub fn release_pool(&self, id: PoolId) {
        self.engine.release_pool(id);
    }

    /// Records that the capture of a CUDA graph began. Until it ends, the pool records, queries and awaits no event, so freed blocks that
    /// other streams use are not reused, and requests do not release the cache.
    pub fn begin_capture(&self) {
        self.engine.begin_capture();
    }

    /// Records that a capture ended, successfully or not.
    pub fn end_capture(&self) {
        self.engine.end_capture();
    }

    /// Serves all later requests that follow `plan` from their planned addresses, in one expandable segment for each stream, or for all if
    /// they share one. A request at a place that another stream used last makes its stream wait for that one on the device; the stream has
    /// to exist as long as the pool. All other requests are served as without a plan. A program that differs from its plan in as many
    /// requests as half a step runs without it, until whole steps match again; at each such change, the pool releases its cache. On a device
    /// without virtual memory, no request is planned. Only the first plan counts; returns false for any other.
    pub fn follow_plan(&self, plan: Arc<Plan>) -> bool {
        let follower = Mutex::new(PlanFollower::new(Arc::clone(&plan)));
        self.plan.set(Followed { plan, follower }).is_ok()
    }

    /// Like [`follow_plan`](Self::follow_plan), for a program that runs already: the plan has the requests of one step, on these streams
    /// after the default stream. Requests get their places from the end of the current step on. Blocks from before stay where they are, and
    /// may leave many pages that cannot be released. If these pages and the plan together are not less than the bytes reserved so far, the
    /// plan is dropped.
    pub fn join_plan(&self, plan: Arc<Plan>, streams: Vec<u64>) -> bool {
        self.joined.store(plan.bytes(), Ordering::Relaxed);
        let follower = Mutex::new(PlanFollower::joining(Arc::clone(&plan), streams));
        self.plan.set(Followed { plan, follower }).is_ok()
    }

    /// Returns how the requests were served since the pool follows a plan; `None` without a plan.
    pub fn plan_use(&self) -> Option<PlanUse> {
        let usage = self.plan.get().map(|plan| lock(&plan.follower).usage)?;
        Some(PlanUse { waits: self.engine.plan_waits(), ..usage })
    }

    /// Whether the pool follows a plan whose streams share memory. The device must then know the stream of each request.
    #[inline]
    pub fn shares_streams(&self) -> bool {
        self.plan.get().is_some_and(|followed| followed.plan.shares_streams())
    }

    /// Returns the numbers of [`memory_summary`](Self::memory_summary).
    pub fn summary(&self) -> MemorySummary {
        self.engine.summary()
    }

    /// Returns the rules that the pool follows.
    pub fn policy(&self) -> &Policy {
        self.engine.policy()
    }

    /// Returns the first address and the mapped bytes of the segment that contains `address`, or `None` if no segment does
    /// (`getBaseAllocation`). The time grows with the number of blocks.
    pub fn segment_at(&self, address: u64) -> Option<(u64, u64)> {
        let segments = self.engine.lock_all().segments();
        let mut ranges = segments.iter().map(|segment| (segment.address(), segment.size()));
        ranges.find(|&(start, size)| (start..start + size).contains(&address))
    }

    /// Returns the bytes of the five kinds, and counts (`torch.cuda.memory_stats`).
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// Returns the table of `torch.cuda.memory_summary`. `abbreviated` leaves out the rows of the large and the small pool. Numbers that
    /// are not counted, such as the peak number of allocations or the peak of one of the two pools, are `n/a`.
    /// [`statistics`](Self::statistics) returns the counted numbers. The call visits every block, so its time grows with the number of
    /// blocks.
    ///
    /// ```
    /// # use vramscope_allocator::{MemoryPool, Policy};
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
    /// let block = pool.malloc(4096)?;
    /// assert!(pool.memory_summary(true).contains("| Allocated memory      |   4096 B   |"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_summary(&self, abbreviated: bool) -> String {
        memory_summary::table(self.device_id(), &self.engine.summary(), abbreviated)
    }

    /// Returns the bytes that [`free_all_blocks`](Self::free_all_blocks) would release to the device now. The time grows with the number of
    /// free blocks.
    pub fn releasable_bytes(&self) -> u64 {
        self.engine.releasable_bytes()
    }

    /// Returns the bytes of free blocks in segments with a live block (`inactive_split_bytes` of PyTorch). In an expandable segment,
    /// unmapped addresses count as live. The time grows with the number of free blocks.
    pub fn inactive_split_bytes(&self) -> u64 {
        self.engine.inactive_split_bytes()
    }

    /// Resets peaks to the current values (`torch.cuda.reset_peak_memory_stats`). Open scopes keep their peaks.
    pub fn reset_peak_stats(&self) {
        self.engine.reset_peaks();
    }

    /// Measures peaks from now on, independent of other open scopes and of resets of the device's peaks.
    pub fn peak_scope(&self) -> PeakScope {
        PeakScope { engine: Arc::clone(&self.engine), key: self.engine.open_scope() }
    }

    /// Returns the device's free and total memory, in bytes (`mem_get_info`).
    ///
    /// # Errors
    /// The device does not report its memory.
    pub fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.engine.memory_info()
    }

    /// Adds a callback that frees memory when a request finds none, as CuPy calls `gc.collect()` and PyTorch a `FreeMemoryCallback`. It
    /// runs without a lock, so it may drop allocations of this pool. A callback that owns a handle of the pool keeps the pool alive
    /// forever.
    pub fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        self.engine.add_free_memory_callback(callback);
    }

    /// Creates a private pool, which shares no block with other pools (`torch.cuda.MemPool`).
    pub fn private_pool(&self) -> PrivatePool<'_> {
        PrivatePool { device: self, id: self.engine.create_pool(false) }
    }

    /// Creates a private pool that never splits blocks (`MemPool(no_split=True)`).
    pub fn private_pool_without_splits(&self) -> PrivatePool<'_> {
        PrivatePool { device: self, id: self.engine.create_pool(true) }
    }
}

/// A private pool of memory on one device. After it is dropped, its cached blocks may be released; its live blocks stay until they are
/// freed.
pub struct PrivatePool<'d> {
    device: &'d DevicePool,
    id: PoolId,
}

impl PrivatePool<'_> {
    /// Returns the pool's id in snapshots.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Allocates `size` bytes on a stream.
    ///
    /// # Errors
    /// See [`AllocError`].
    pub fn malloc_on(&self, stream: u64, size: u64) -> Result<Allocation, AllocError> {
        self.device.malloc_in(self.device.key(self.id, stream), size)
    }
}

impl Drop for PrivatePool<'_> {
    fn drop(&mut self) {
        if self.device.engine.observer().process.is_this() {
            self.device.engine.release_pool(self.id);
        }
    }
}

/// Measures the peaks of the five kinds of bytes from its creation until it is dropped. Scopes may nest and overlap.
#[must_use = "a scope measures until it is dropped"]
pub struct PeakScope {
    engine: Arc<Engine<PoolObserver>>,
    key: ScopeKey,
}

impl PeakScope {
    /// Returns the peaks so far. Bytes that were live when the scope began count too.
    pub fn peaks(&self) -> ScopePeaks {
        self.engine.scope_peaks(self.key)
    }

    /// Returns the state at the moment of peak allocated bytes.
    ///
    /// ```
    /// # use vramscope_allocator::{MemoryPool, Policy};
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
    /// drop(pool.malloc(8192)?);
    /// let scope = pool.peak_scope();
    /// let block = pool.malloc(4096)?;
    /// let at_peak = scope.at_peak();
    /// assert_eq!((at_peak.allocated, at_peak.reserved, at_peak.inactive()), (4096, 8192, 4096));
    /// assert_eq!(at_peak.allocation, Some(block.id()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at_peak(&self) -> AtPeak {
        self.engine.at_peak(self.key)
    }

    /// Returns the [id](crate::Allocation::id) of the allocation that reached the peak of allocated bytes; 0 if allocated bytes never
    /// exceeded their value at the scope's start. The value changes as the peak rises, and is read without a lock. A hook compares it with
    /// the id of its allocation: if they are equal, this allocation is the peak, and the hook still runs on its thread and stack.
    pub fn highest_allocation(&self) -> Arc<AtomicU64> {
        self.engine.highest(self.key)
    }

    /// Returns the current statistics and the peaks so far, and restarts the scope. Both refer to the same moment, so no peak is lost
    /// between two calls.
    ///
    /// ```
    /// # use vramscope_allocator::{MemoryPool, Policy};
    /// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
    /// let mut scope = pool.peak_scope();
    /// drop(pool.malloc(4096)?);
    /// let (now, peaks) = scope.restart();
    /// assert_eq!((now.allocated.current, peaks.allocated), (0, 4096));
    /// assert_eq!((scope.peaks().allocated, now.allocated.peak), (0, 4096));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart(&mut self) -> (Statistics, ScopePeaks) {
        self.engine.restart_scope(self.key)
    }
}

impl Drop for PeakScope {
    fn drop(&mut self) {
        if self.engine.observer().process.is_this() {
            self.engine.close_scope(self.key);
        }
    }
}
