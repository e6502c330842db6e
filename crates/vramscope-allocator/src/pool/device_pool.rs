//! One device of a pool.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use vramscope_trace::PoolId;

use vramscope_engine::{
    ArenaKey, AtPeak, DeviceError, Engine, FreeMemoryCallback, MemoryInfo, OutOfMemory, Peaks, ScopeKey,
    Statistics,
};

use super::pool_observer::PoolObserver;
use super::{AllocError, Allocation, Limit, LimitError, MemoryPool, memory_summary};
use crate::history::When;
use crate::hooks::{AllocationHooks, DeviceHooks, Hooks, HooksAtMalloc, MallocGuard};
use crate::threads;

/// Called when a request fails for want of memory; see [`MemoryPool::on_oom`](super::MemoryPool::on_oom).
pub type OomObserver = Arc<dyn Fn(&MemoryPool, &OutOfMemory) + Send + Sync>;

/// The part of a [`MemoryPool`](super::MemoryPool) that is on one device: what CuPy calls a
/// `SingleDeviceMemoryPool`.
pub struct DevicePool {
    pub(super) engine: Arc<Engine<PoolObserver>>,
    pub(super) pool: Weak<super::Inner>,
}

impl DevicePool {
    /// The device's number.
    pub fn device_id(&self) -> i32 {
        self.engine.device_id()
    }

    /// Takes `size` bytes on the default stream.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc(&self, size: u64) -> Result<Allocation, AllocError> {
        self.malloc_in(ArenaKey::default(), size)
    }

    /// Takes `size` bytes on a stream: they are used again only by requests on the same stream. Stream 2,
    /// `cudaStreamPerThread`, is another one on every thread, as in CuPy; recordings number them from 2^52 on.
    ///
    /// # Errors
    /// See [`AllocError`].
    #[inline]
    pub fn malloc_on(&self, stream: u64, size: u64) -> Result<Allocation, AllocError> {
        self.malloc_in(self.key(PoolId::default(), stream), size)
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

    /// A request that hooks are told of. `malloc_postprocess` is called however it ends.
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

    /// The pool and stream whose memory serves a request on `stream`; for `cudaStreamPerThread`, the calling thread's own.
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

    /// Bytes of the block for a request (`_round_size`, CuPy). A request of 0 bytes needs none: CuPy returns no memory for it, and
    /// PyTorch does not ask its allocator.
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
        let arena = self.engine.arena(key);
        if size == 0 {
            return Ok(Allocation::of_no_bytes(arena));
        }
        let stack = self.engine.observer().history.capture(When::Malloc);
        match self.engine.malloc(arena, size, rounded, stack, &DeviceHooks(hooks)) {
            Ok(grant) => Ok(Allocation::new(arena, grant, at_malloc)),
            Err(e) => Err(self.observe_error(e.into())),
        }
    }

    #[cold]
    fn observe_error(&self, error: AllocError) -> AllocError {
        if let (AllocError::OutOfMemory(e), Some(inner)) = (&error, self.pool.upgrade()) {
            MemoryPool { inner }.observe(e);
        }
        error
    }

    // ---- CuPy's words ----

    /// Bytes of blocks in use (allocated).
    pub fn used_bytes(&self) -> u64 {
        self.engine.allocated_bytes()
    }

    /// Bytes in the cache: reserved and not in use.
    pub fn free_bytes(&self) -> u64 {
        self.total_bytes().saturating_sub(self.used_bytes())
    }

    /// Bytes taken from the device: reserved.
    pub fn total_bytes(&self) -> u64 {
        self.engine.reserved_bytes()
    }

    /// The number of free blocks in the cache.
    pub fn n_free_blocks(&self) -> u64 {
        self.engine.num_free_blocks()
    }

    /// Bounds reserved bytes. 0, as bytes or as a fraction, is no limit (`set_limit`, CuPy).
    ///
    /// # Errors
    /// Where a fraction is not between 0 and 1.
    pub fn set_limit(&self, limit: Limit) -> Result<(), LimitError> {
        match limit {
            Limit::Fraction(x) if !(0.0..=1.0).contains(&x) => return Err(LimitError::Fraction(x)),
            Limit::None | Limit::Bytes(0) | Limit::Fraction(0.0) => self.engine.set_limit(None),
            Limit::Bytes(bytes) => self.engine.set_limit(Some(bytes)),
            Limit::Fraction(x) => self.engine.set_memory_fraction(x)?,
        }
        Ok(())
    }

    /// The bound on reserved bytes; 0 is none.
    pub fn get_limit(&self) -> u64 {
        self.engine.limit().unwrap_or(0)
    }

    /// Gives every cached block that is whole back to the device (`free_all_blocks`, CuPy; `empty_cache`,
    /// PyTorch), after waiting for streams that still use freed blocks.
    ///
    /// # Errors
    /// The device's first refusal. What it refused stays in the cache; all else was given back.
    pub fn free_all_blocks(&self) -> Result<(), DeviceError> {
        self.engine.free_all_blocks(None)
    }

    /// CuPy's old name of [`free_all_blocks`](Self::free_all_blocks).
    ///
    /// # Errors
    /// As for [`free_all_blocks`](Self::free_all_blocks).
    #[deprecated(note = "Use free_all_blocks instead.")]
    pub fn free_all_free(&self) -> Result<(), DeviceError> {
        self.free_all_blocks()
    }

    /// As [`free_all_blocks`](Self::free_all_blocks), for blocks of one stream.
    ///
    /// # Errors
    /// As for [`free_all_blocks`](Self::free_all_blocks).
    pub fn free_all_blocks_of(&self, stream: u64) -> Result<(), DeviceError> {
        let is_own = stream == threads::STREAM_PER_THREAD;
        self.engine.free_all_blocks(Some(if is_own { threads::own_stream() } else { stream }))
    }

    // ---- PyTorch's words ----

    /// Bytes of the five kinds, and counts (`torch.cuda.memory_stats`).
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics()
    }

    /// The table of `torch.cuda.memory_summary`. `abbreviated` leaves out the rows of the large and of the small pool. A number
    /// that is not counted, such as the highest number of allocations or the peak of one of the two pools, is `n/a`.
    /// [`statistics`](Self::statistics) has the numbers that are counted. The time grows with the number of blocks, which are
    /// all visited.
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

    /// Bytes that [`free_all_blocks`](Self::free_all_blocks) would give back to the device now. The time grows with the number
    /// of free blocks.
    pub fn releasable_bytes(&self) -> u64 {
        self.engine.releasable_bytes()
    }

    /// Bytes of free blocks in segments of which something is in use (`inactive_split_bytes` of PyTorch). In an
    /// expandable segment, addresses without memory count as in use. The time grows with the number of free blocks.
    pub fn inactive_split_bytes(&self) -> u64 {
        self.engine.inactive_split_bytes()
    }

    /// Peaks begin anew from what is there now (`torch.cuda.reset_peak_memory_stats`). Open scopes keep theirs.
    pub fn reset_peak_stats(&self) {
        self.engine.reset_peaks();
    }

    /// Watches peaks from here on. Other open scopes and resets of the device's peaks do not change what it sees.
    pub fn peak_scope(&self) -> PeakScope {
        PeakScope { engine: Arc::clone(&self.engine), key: self.engine.open_scope() }
    }

    /// What the device says of its memory (`mem_get_info`).
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.engine.memory_info()
    }

    /// Calls `callback` to free memory when a request finds none, as CuPy calls `gc.collect()` and PyTorch a
    /// `FreeMemoryCallback`. No lock is held, so that it may drop allocations of this pool. A callback that owns a handle of
    /// the pool keeps the pool alive for ever.
    pub fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        self.engine.add_free_memory_callback(callback);
    }

    /// Makes a private pool: what is allocated from it shares no block with anything else
    /// (`torch.cuda.MemPool`).
    pub fn private_pool(&self) -> PrivatePool<'_> {
        PrivatePool { device: self, id: self.engine.create_pool(false) }
    }

    /// A private pool whose blocks are handed out whole (`MemPool(no_split=True)`).
    pub fn private_pool_without_splits(&self) -> PrivatePool<'_> {
        PrivatePool { device: self, id: self.engine.create_pool(true) }
    }
}

/// Memory of its own on one device. When it is dropped, its cached blocks may be given back; those in use
/// stay until they are freed.
pub struct PrivatePool<'d> {
    device: &'d DevicePool,
    id: PoolId,
}

impl PrivatePool<'_> {
    /// The pool's id in snapshots.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// Takes `size` bytes on a stream.
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

/// Watches the highest values of the five kinds of bytes from when it was made until it is dropped. Scopes may nest and
/// overlap.
#[must_use = "a scope watches until it is dropped"]
pub struct PeakScope {
    engine: Arc<Engine<PoolObserver>>,
    key: ScopeKey,
}

impl PeakScope {
    /// The highest values so far. What was live when the scope began counts.
    pub fn peaks(&self) -> Peaks {
        self.engine.scope_peaks(self.key)
    }

    /// What there was at the one moment at which most was allocated.
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

    /// The [id](crate::Allocation::id) of the allocation that reached the peak of allocated bytes; 0 where nothing rose above
    /// what was allocated when the scope began. It changes as the peak rises, and is read without a lock. A hook that is told of
    /// an allocation compares the two ids to learn whether that allocation was the peak, while it runs on the thread and the
    /// stack that made it.
    pub fn highest_allocation(&self) -> Arc<AtomicU64> {
        self.engine.highest(self.key)
    }

    /// Returns the statistics now and the highest values so far, and begins anew from here on. Both are of the same moment, so
    /// that no peak is lost between two calls.
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
    pub fn restart(&mut self) -> (Statistics, Peaks) {
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
