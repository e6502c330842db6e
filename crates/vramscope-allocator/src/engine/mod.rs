//! The caching allocator of one device.
//!
//! [`Engine`] holds an [`Arena`] for each pool and stream. A request that a cached block serves touches its
//! arena alone; what must see the whole device (growth, giving memory back, a new peak, a snapshot) takes
//! its locks in one order: the ledger of peaks, the arenas as they lie in the table, the driver, the history.
//! No foreign code runs under a lock but the device's.

mod arena;
mod core;
mod expandable;
mod free_blocks;
mod growth;
mod pending;
mod start;
mod statistics;
mod summary;
mod table;
mod unmapped;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use thiserror::Error;
use vramscope_trace::{Action, PoolId};

pub(crate) use arena::Arena;
pub(crate) use arena::{Block, BlockKey, BlockState, Locked, SegmentState};
pub(crate) use core::{Core, Driver};
pub(crate) use growth::AllocCallbacks;
pub use start::{BadLayout, StartBlock, StartSegment};
pub(crate) use statistics::ScopeKey;
pub use statistics::{AtPeak, Peaks, Stat, Statistics};
pub(crate) use summary::{Counted, Metric, Summary};

use crate::device::DeviceError;
use crate::history::{ArenaTag, Happening, StackKey, When};
use crate::hooks::HookError;
use crate::policy::Class;
use crate::sync::lock;
use crate::threads;
use statistics::{Ledger, Tally};
use table::ArenaTable;

/// A callback that frees memory when the device has none left, as a language's garbage collector does.
pub type FreeMemoryCallback = Arc<dyn Fn() + Send + Sync>;

/// Which memory a request is served from: blocks never pass from one pool or stream to another.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ArenaKey {
    /// The private pool; `(0, 0)` is the default pool.
    pub pool: PoolId,
    /// The raw stream; 0 is the default stream. Of threads' own default streams, [`threads::own_stream`].
    pub stream: u64,
}

impl ArenaKey {
    fn is_default_pool(self) -> bool {
        self.pool == PoolId::default()
    }

    fn hash(self) -> u64 {
        let mix = |a: u64, b: u64| (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        mix(mix(mix(self.pool.0, 1), self.pool.1), self.stream)
    }
}

/// A bound on reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Only the device's.
    None,
    /// This many bytes.
    Bytes(u64),
    /// This part of the device, between 0 and 1.
    Fraction(f64),
}

/// A block handed out; for a request of no bytes, none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) block: Option<BlockKey>,
    pub(crate) address: u64,
    /// Bytes of the block.
    pub(crate) size: u64,
    /// Bytes asked for.
    pub(crate) requested: u64,
    /// Of this allocation alone, in the whole process and for ever.
    pub(crate) id: u64,
}

/// Why a request was not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// There is no memory left, on the device or within the limit.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// A hook's preprocess callback refused.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The device failed in another way.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The pool is of the process that this one was forked from.
    #[error("the pool is of the process that this one was forked from; make another after the fork")]
    Forked,
}

/// There is no memory left. The message is that of CuPy's `OutOfMemoryError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The device.
    pub device_id: i32,
    /// The request, in bytes.
    pub requested: u64,
    /// The request, rounded.
    pub size: u64,
    /// Bytes reserved at the time.
    pub total: u64,
    /// The limit on them, if one is set.
    pub limit: Option<u64>,
    /// Bytes the device said were free; `None` where it did not answer.
    pub device_free: Option<u64>,
}

impl std::error::Error for OutOfMemory {}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let grouped = crate::units::grouped;
        write!(f, "Out of memory allocating {} bytes", grouped(self.size))?;
        write!(f, " (allocated so far: {} bytes", grouped(self.total))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit set to: {} bytes", grouped(limit))?;
        }
        write!(f, ").")
    }
}

/// The caching allocator of one device.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
    arenas: ArenaTable,
    ledger: Mutex<Ledger>,
    callbacks: Mutex<Vec<FreeMemoryCallback>>,
    /// Private pools by their id.
    pools: Mutex<BTreeMap<PoolId, PrivatePoolState>>,
}

#[derive(Debug, Clone, Copy)]
struct PrivatePoolState {
    no_split: bool,
    /// Nobody will allocate from it again: its cached blocks may be given back.
    released: bool,
}

/// A device of which every lock is held.
pub(crate) struct Whole<'a> {
    pub(crate) core: &'a Core,
    ledger: MutexGuard<'a, Ledger>,
    pub(crate) arenas: Vec<Locked<'a>>,
}

impl Engine {
    pub(crate) fn new(core: Core) -> Self {
        Self {
            core: Arc::new(core),
            arenas: ArenaTable::new(),
            ledger: Mutex::default(),
            callbacks: Mutex::default(),
            pools: Mutex::default(),
        }
    }

    /// The memory of one pool on one stream.
    #[inline]
    pub(crate) fn arena(&self, key: ArenaKey) -> &Arc<Arena> {
        self.arenas.get(key, || {
            let no_split = lock(&self.pools).get(&key.pool).is_some_and(|pool| pool.no_split);
            Arc::new(Arena::new(Arc::clone(&self.core), key, no_split))
        })
    }

    /// Serves a request of `requested` bytes, at least one; `rounded` is what the policy makes of it.
    ///
    /// # Errors
    /// See [`AllocError`]. Nothing is then held for the request.
    #[inline]
    pub(crate) fn malloc(
        &self,
        arena: &Arc<Arena>,
        requested: u64,
        rounded: u64,
        stack: Option<StackKey>,
        callbacks: &dyn AllocCallbacks,
    ) -> Result<Grant, AllocError> {
        if !self.core.pending.is_empty() {
            self.core.pending.process(self.core.device.as_ref(), false);
        }
        let class = self.core.policy.class(rounded);
        self.core.count_search(arena.key, class);
        {
            let mut arena = arena.lock();
            if let Some((block, size)) = arena.find(class, rounded)
                && arena.tally().has_room(requested, size)
            {
                return Ok(arena.commit(block, size, requested, stack));
            }
        }
        self.malloc_slowly(arena, class, rounded, requested, stack, callbacks)
    }

    #[cold]
    #[inline(never)]
    fn malloc_slowly(
        &self,
        arena: &Arc<Arena>,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<StackKey>,
        callbacks: &dyn AllocCallbacks,
    ) -> Result<Grant, AllocError> {
        if let Some(grant) = self.commit_record(arena, requested, stack, |arena| arena.find(class, rounded)) {
            return Ok(grant);
        }
        let held = self.grow(arena, class, rounded, requested, stack, callbacks)?;
        let block = held.block();
        let grant = self.commit_record(arena, requested, stack, |arena| {
            Some((block, arena.size_of_held(class, rounded, block)))
        });
        held.keep();
        grant.ok_or_else(|| unreachable!("a held block stays until it is committed"))
    }

    /// Hands out the block that `choose` names, of a device of which every lock is held: the bytes may be
    /// more than there ever were.
    fn commit_record(
        &self,
        arena: &Arc<Arena>,
        requested: u64,
        stack: Option<StackKey>,
        choose: impl Fn(&Locked<'_>) -> Option<(BlockKey, u64)>,
    ) -> Option<Grant> {
        let mut whole = self.whole();
        let asking = whole.arenas.iter().position(|a| std::ptr::eq(a.arena, arena.as_ref()))?;
        let (block, size) = choose(&whole.arenas[asking])?;
        let Whole { ledger, arenas, .. } = &mut whole;
        ledger.raise(&mut tallies(arenas), asking, [requested, size, size]);
        let grant = whole.arenas[asking].commit(block, size, requested, stack);
        let Whole { ledger, arenas, .. } = &mut whole;
        if ledger.has_scopes() {
            let reserved = self.core.driver().reserved.current;
            ledger.note_highest(&tallies(arenas), reserved, grant.id);
        }
        Some(grant)
    }

    /// Takes every lock.
    pub(crate) fn whole(&self) -> Whole<'_> {
        let ledger = lock(&self.ledger);
        Whole { core: &self.core, ledger, arenas: self.arenas.iter().map(|arena| arena.lock()).collect() }
    }

    /// Arenas whose cached blocks may be given back to help another: those of the default pool, then those of
    /// released private pools, each by stream.
    fn releasable(&self) -> Vec<Arc<Arena>> {
        let pools = lock(&self.pools).clone();
        let released = |pool: PoolId| pools.get(&pool).is_none_or(|p| p.released);
        let mut arenas: Vec<_> = self.arenas.iter().filter(|a| released(a.key.pool)).cloned().collect();
        arenas.sort_by_key(|a| a.key);
        arenas
    }

    /// Which memory serves a request on `stream`: for `cudaStreamPerThread`, the calling thread's own.
    #[inline]
    pub(crate) fn key(&self, pool: PoolId, stream: u64) -> ArenaKey {
        if stream == threads::STREAM_PER_THREAD { self.own_key(pool) } else { ArenaKey { pool, stream } }
    }

    #[cold]
    fn own_key(&self, pool: PoolId) -> ArenaKey {
        let key = ArenaKey { pool, stream: threads::own_stream() };
        self.arena(key).adopt();
        key
    }

    /// Gives every cached block that is whole back to the device (`free_all_blocks`, `empty_cache`): of all
    /// streams or of one.
    ///
    /// # Errors
    /// The device's first refusal; everything else was given back all the same.
    pub(crate) fn free_all_blocks(&self, stream: Option<u64>) -> Result<(), DeviceError> {
        self.core.pending.process(self.core.device.as_ref(), true);
        let stream = stream.map(|s| if s == threads::STREAM_PER_THREAD { threads::own_stream() } else { s });
        self.release(self.releasable().into_iter().filter(|a| stream.is_none_or(|s| a.key.stream == s)))
    }

    /// As [`free_all_blocks`](Self::free_all_blocks), of one private pool and without waiting for streams.
    pub(crate) fn free_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.release(self.arenas.iter().filter(|a| a.key.pool == pool).cloned())
    }

    fn release(&self, arenas: impl Iterator<Item = Arc<Arena>>) -> Result<(), DeviceError> {
        let stack = self.core.history.capture(When::Free);
        let (default, private): (Vec<_>, Vec<_>) = arenas.partition(|a| a.key.is_default_pool());
        let mut outcome = Ok(());
        // Large before small in the default pool and the other way round in private ones, as PyTorch does.
        for (arenas, classes) in
            [(default, [Class::Large, Class::Small]), (private, [Class::Small, Class::Large])]
        {
            for class in classes {
                for arena in &arenas {
                    outcome = outcome.and(arena.lock().release_cached(class, stack));
                }
            }
        }
        outcome
    }

    /// Gives the free block that begins at or around `address` back, as far as it is whole. False where there
    /// is none.
    pub(crate) fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        for arena in self.arenas.iter() {
            let mut arena = arena.lock();
            if let Some(key) = arena.free_block_around(address) {
                let before = self.core.driver().reserved.current;
                if arena.segment_of(key).expandable {
                    arena.unmap(key, None)?;
                } else {
                    arena.release_if_whole(key, None)?;
                }
                return Ok(self.core.driver().reserved.current < before);
            }
        }
        Ok(false)
    }

    /// Makes a private pool.
    pub(crate) fn create_pool(&self, no_split: bool) -> PoolId {
        let mut pools = lock(&self.pools);
        let id = PoolId(0, pools.last_key_value().map_or(0, |(id, _)| id.1) + 1);
        pools.insert(id, PrivatePoolState { no_split, released: false });
        id
    }

    /// A private pool by its id, made if there is none yet.
    pub(crate) fn add_pool(&self, id: PoolId) {
        let state = PrivatePoolState { no_split: false, released: false };
        lock(&self.pools).entry(id).or_insert(state);
    }

    /// Nobody will allocate from a private pool again.
    pub(crate) fn release_pool(&self, id: PoolId) {
        if let Some(pool) = lock(&self.pools).get_mut(&id) {
            pool.released = true;
        }
    }

    pub(crate) fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        lock(&self.callbacks).push(callback);
    }

    // ---- what it holds ----

    /// Bytes handed out, of one arena after the other.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().current[1]).sum()
    }

    /// Bytes handed out or waiting for a stream, of one arena after the other.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().current[2]).sum()
    }

    /// Free blocks, of one arena after the other.
    pub(crate) fn num_free_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().num_free_blocks() as u64).sum()
    }

    /// Bytes that [`free_all_blocks`](Self::free_all_blocks) would give back, of one arena after the other.
    pub(crate) fn releasable_bytes(&self) -> u64 {
        self.releasable().iter().map(|arena| arena.lock().releasable_bytes()).sum()
    }

    /// Bytes of free blocks in segments of which something is in use, of one arena after the other.
    pub(crate) fn inactive_split_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().inactive_split_bytes()).sum()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let Whole { ledger, mut arenas, .. } = self.whole();
        Self::statistics_of(&ledger, &mut arenas, &self.core.driver_now())
    }

    fn statistics_of(ledger: &Ledger, arenas: &mut [Locked<'_>], driver: &Driver) -> Statistics {
        let num_free_blocks = arenas.iter().map(|a| a.num_free_blocks() as u64).sum();
        Statistics {
            num_free_blocks,
            segments_allocated: driver.segments.allocated(),
            segments_freed: driver.segments.freed(),
            num_device_alloc: driver.num_device_alloc,
            num_device_free: driver.num_device_free,
            num_alloc_retries: driver.num_alloc_retries,
            num_ooms: driver.num_ooms,
            ..ledger.statistics(&tallies(arenas), &driver.reserved, &driver.device_used)
        }
    }

    /// What there is, and the peaks of a scope that begins anew, at the same moment.
    pub(crate) fn restart_scope(&self, scope: ScopeKey) -> (Statistics, Peaks) {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core.driver_now();
        let Driver { reserved, device_used, .. } = &mut *driver;
        let peaks = ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used);
        ledger.restart(scope, reserved.current);
        (Self::statistics_of(&ledger, &mut arenas, &driver), peaks)
    }

    pub(crate) fn reset_peaks(&self) {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core.driver_now();
        let driver = &mut *driver;
        ledger.reset_peaks(&mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used);
        driver.reset_peaks();
    }

    pub(crate) fn open_scope(&self) -> ScopeKey {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core.driver_now();
        let driver = &mut *driver;
        ledger.open(&mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used)
    }

    pub(crate) fn scope_peaks(&self, scope: ScopeKey) -> Peaks {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core.driver_now();
        let driver = &mut *driver;
        ledger.scope(scope, &mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used)
    }

    pub(crate) fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        lock(&self.ledger).at_peak(scope)
    }

    pub(crate) fn highest(&self, scope: ScopeKey) -> Arc<AtomicU64> {
        lock(&self.ledger).highest(scope)
    }

    pub(crate) fn close_scope(&self, scope: ScopeKey) {
        lock(&self.ledger).close(scope);
    }
}

impl Drop for Engine {
    /// Gives the cache back. Blocks in use stay with their arena until their last handle is gone.
    fn drop(&mut self) {
        if !self.core.process.is_this() {
            return;
        }
        self.core.pending.close(self.core.device.as_ref());
        let pools: Vec<PoolId> = lock(&self.pools).keys().copied().collect();
        pools.into_iter().for_each(|pool| self.release_pool(pool));
        self.free_all_blocks(None).ok();
    }
}

fn tallies<'t>(arenas: &'t mut [Locked<'_>]) -> Vec<&'t mut Tally> {
    arenas.iter_mut().map(Locked::tally).collect()
}

impl Whole<'_> {
    /// Every segment, in address order (`snapshot`, PyTorch).
    pub(crate) fn segments(&self) -> Vec<SegmentState> {
        let mut found: Vec<_> = self.arenas.iter().flat_map(Locked::segments).collect();
        found.sort_by_key(SegmentState::address);
        found
    }

    /// Puts a mark into the history: a snapshot was taken here.
    pub(crate) fn record_snapshot(&mut self) {
        let active = self.arenas.iter_mut().map(|a| a.tally().current[2]).sum();
        let what = Happening {
            action: Action::Snapshot,
            class: Class::Large,
            address: 0,
            size: active,
            block_size: 0,
            stack: None,
        };
        self.core.history.record(ArenaTag::DEVICE, what);
    }
}
