//! The caching allocator of one device.
//!
//! [`Engine`] holds an [`Arena`] for each pool and stream. A request that a cached block can serve locks only its arena. Operations on
//! the whole device (growth, releasing memory, a new peak, a snapshot) take the locks in this order: the ledger of peaks, the arenas in
//! table order, the device's accounts, the history. The device's code is the only foreign code that runs under a lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::{count_steps, lock};
use vramscope_trace::{Action, PoolId};

use crate::arena::{Arena, BlockKey, EngineShared, Grant, LockedArena, NotPlaced, PlannedPlace};
use crate::arena_key::{ArenaKey, PLANNED};
use crate::callbacks::AllocCallbacks;
use crate::core::{Core, DeviceAccounts};
use crate::device::{Device, DeviceError, MemoryInfo};
use crate::error::EngineError;
use crate::layout::SegmentLayout;
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, Policy};
use crate::statistics::{AtPeak, Ledger, ScopeKey, ScopePeaks, Statistics, Tally};
use crate::table::ArenaTable;

/// Arena number for events that concern the whole device.
pub const NO_ARENA: u32 = 0;

/// A callback that frees memory when the device is out of memory, such as a language's garbage collector.
pub type FreeMemoryCallback = Arc<dyn Fn() + Send + Sync>;

/// The caching allocator of one device.
pub struct Engine<O: Observer> {
    shared: Arc<EngineShared<O>>,
    arenas: ArenaTable<O>,
    ledger: Mutex<Ledger>,
    callbacks: Mutex<Vec<FreeMemoryCallback>>,
    /// Private pools by id.
    pools: Mutex<BTreeMap<PoolId, PrivatePoolState>>,
    /// How often free memory beside a plan was released for planned requests.
    exchanges: AtomicU64,
}

/// The part of the bytes of a plan that free memory beside the plan may have: less is not released for planned requests.
const KEPT_BESIDE_PLAN: u64 = 256;

#[derive(Debug, Clone, Copy)]
struct PrivatePoolState {
    /// Whether blocks are never split (`MemPool(no_split=True)`, PyTorch 2.9).
    no_split: bool,
    /// Whether the pool is no longer used, so that its cached blocks may be released.
    released: bool,
}

/// An allocated block whose request may still fail. Dropping it frees the block.
struct Granted<'a, O: Observer> {
    arena: &'a Arc<Arena<O>>,
    grant: Option<Grant>,
}

impl<O: Observer> Drop for Granted<'_, O> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant {
            self.arena.free(grant.block, None);
        }
    }
}

/// An engine with all locks held except the lock of the device's accounts: nothing on the device changes meanwhile.
pub struct LockedEngine<'a, O: Observer> {
    core: &'a Core<O>,
    pub(crate) ledger: MutexGuard<'a, Ledger>,
    pub(crate) arenas: Vec<LockedArena<'a, O>>,
}

impl<O: Observer> Engine<O> {
    /// Creates an engine on `device` with the number `device_id` and the rules of `policy`.
    ///
    /// # Errors
    /// If the policy requires expandable segments and the device does not support them, or the device does not respond.
    pub fn new(
        device: Arc<dyn Device>,
        device_id: i32,
        policy: Policy,
        observer: O,
    ) -> Result<Self, DeviceError> {
        let core = Core::new(device, device_id, policy, observer)?;
        Ok(Self {
            shared: Arc::new(EngineShared::new(core)),
            arenas: ArenaTable::new(),
            ledger: Mutex::default(),
            callbacks: Mutex::default(),
            pools: Mutex::default(),
            exchanges: AtomicU64::new(0),
        })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        self.shared.core()
    }

    /// Returns the engine's rules.
    #[inline]
    pub fn policy(&self) -> &Policy {
        self.core().policy()
    }

    /// Returns the device's number.
    pub fn device_id(&self) -> i32 {
        self.core().device_id()
    }

    /// Returns the observer of this engine's events.
    #[inline]
    pub fn observer(&self) -> &O {
        self.core().observer()
    }

    /// Returns the free bytes and the size of the device (`mem_get_info`).
    ///
    /// # Errors
    /// If the device does not respond.
    pub fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.core().device().memory_info()
    }

    /// Sets the limit on reserved bytes. `None` removes the limit; the device's size still applies.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.core().set_limit(bytes);
    }

    /// Limits reserved bytes to a fraction of the device, from 0 to 1 (`set_per_process_memory_fraction` in PyTorch).
    ///
    /// # Errors
    /// If the device does not report its size.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<(), DeviceError> {
        self.core().set_memory_fraction(fraction)
    }

    /// Limit on reserved bytes, if one is set.
    pub fn limit(&self) -> Option<u64> {
        self.core().accounts().limit()
    }

    /// Returns the memory of one pool on one stream. The first call creates it.
    #[inline]
    pub fn arena(&self, key: ArenaKey) -> &Arc<Arena<O>> {
        self.arenas.get(key, || {
            let no_split = lock(&self.pools).get(&key.pool).is_some_and(|pool| pool.no_split);
            Arc::new(Arena::new(Arc::clone(&self.shared), key, no_split))
        })
    }

    /// Serves a request of `requested` bytes, at least one. `rounded` is the size after rounding by the policy.
    ///
    /// # Errors
    /// See [`EngineError`]. No memory is held for a failed request.
    #[inline]
    pub fn malloc<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        requested: u64,
        rounded: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<Grant, EngineError<C::Refusal>> {
        let (class, cached) = self.commit_cached(arena, requested, rounded, stack);
        match cached {
            Some(grant) => Ok(grant),
            None => self
                .malloc_slowly(arena, None, class, rounded, requested, stack, callbacks)
                .map(|(grant, _)| grant),
        }
    }

    /// Like [`malloc`](Self::malloc), beside a plan whose segment is in `planned`. If no other memory is left, the request gets free
    /// memory of the plan. Also returns whether it did: then the block belongs to `planned`.
    ///
    /// # Errors
    /// As [`malloc`](Self::malloc).
    pub fn malloc_beside_plan<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        planned: &Arc<Arena<O>>,
        requested: u64,
        rounded: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<(Grant, bool), EngineError<C::Refusal>> {
        let (class, cached) = self.commit_cached(arena, requested, rounded, stack);
        match cached {
            Some(grant) => Ok((grant, false)),
            None => self.malloc_slowly(arena, Some(planned), class, rounded, requested, stack, callbacks),
        }
    }

    /// Serves a request from the cache, if this raises no peak. The block is apart from the result of its caller, which is built in memory:
    /// it stays in registers.
    #[inline(always)]
    fn commit_cached(
        &self,
        arena: &Arc<Arena<O>>,
        requested: u64,
        rounded: u64,
        stack: Option<O::Stack>,
    ) -> (Class, Option<Grant>) {
        if !self.shared.nothing_waits() {
            self.shared.process_pending(false);
        }
        let class = self.core().policy().class(rounded);
        self.core().count_search(arena.key(), class);
        (class, arena.lock_as_is().commit_cached(class, rounded, requested, stack))
    }

    /// Serves a request that may raise a peak, or that no cached block can serve.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one request")]
    fn malloc_slowly<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        planned: Option<&Arc<Arena<O>>>,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<(Grant, bool), EngineError<C::Refusal>> {
        {
            let (mut locked, asking) = self.lock_all_for(arena);
            if let Some((block, size)) = locked.arenas[asking].find(class, rounded) {
                return Ok((locked.commit(asking, block, size, requested, stack), false));
            }
        }
        let held = self.grow(arena, planned, class, rounded, requested, stack, callbacks)?;
        let from_plan = held.arena().key().pool == PLANNED;
        let (mut locked, asking) = self.lock_all_for(held.arena());
        // In the segment of a plan, the block ends where the request does: the rest has other places.
        let size = if from_plan {
            rounded
        } else {
            locked.arenas[asking].size_of_held(class, rounded, held.block())
        };
        let grant = locked.commit(asking, held.block(), size, requested, stack);
        held.keep();
        Ok((grant, from_plan))
    }

    /// Allocates a block at a planned place, or returns why it could not be placed: the caller then serves the request as any other.
    /// `arena` must be of the pool [`PLANNED`](crate::PLANNED).
    ///
    /// # Errors
    /// A callback refused to take memory from the device.
    pub fn malloc_planned<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        place: PlannedPlace,
        requested: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<Result<Grant, NotPlaced>, C::Refusal> {
        if !self.shared.nothing_waits() {
            self.shared.process_pending(false);
        }
        if let Some(placed) = arena.lock_as_is().commit_planned(place, requested, stack) {
            return Ok(placed);
        }
        let missing = arena.lock().missing_bytes(place);
        if missing > 0 {
            self.make_room_in_plan(missing);
            callbacks.alloc_preprocess(missing)?;
        }
        let placed = {
            let (mut locked, asking) = self.lock_all_for(arena);
            let held = locked.arenas[asking].hold_planned(place, stack);
            held.map(|block| locked.commit(asking, block, place.size, requested, stack))
        };
        if missing > 0 {
            // A panic in the callback must not lose the block.
            let granted = Granted { arena, grant: placed.ok() };
            callbacks.alloc_postprocess(missing, granted.grant.map_or(0, |grant| grant.address));
            std::mem::forget(granted);
        }
        Ok(placed)
    }

    /// Releases free memory beside a plan before the plan takes `more` bytes from the device, if reserved bytes would exceed their largest
    /// number so far. A small part stays: requests beside the plan would take it again in each step.
    #[cold]
    fn make_room_in_plan(&self, more: u64) {
        let excess = self.core().accounts().excess(more);
        if excess == 0 || self.is_capturing() {
            return;
        }
        let beside = self.releasable_of(false);
        let free: u64 = beside.iter().map(|arena| arena.lock().releasable_bytes()).sum();
        if free > self.reserved_bytes() / KEPT_BESIDE_PLAN {
            self.exchanges.fetch_add(1, Ordering::Relaxed);
            // The memory that the device refuses to take stays in the cache.
            self.release(beside.into_iter()).ok();
        }
    }

    /// Releases free memory of a plan before a request beside it takes `more` bytes from the device, if reserved bytes would exceed their
    /// largest number so far.
    pub(crate) fn make_room_beside_plan(&self, more: u64) {
        let mut excess = self.core().accounts().excess(more);
        if excess == 0 || self.is_capturing() {
            return;
        }
        let stack = self.observer().capture_free();
        for arena in self.releasable_of(true) {
            excess = excess.saturating_sub(arena.lock().release_planned(excess, stack));
        }
    }

    /// The arenas of planned blocks, or all others whose cache may be released.
    fn releasable_of(&self, is_planned: bool) -> Vec<Arc<Arena<O>>> {
        let all = self.releasable().into_iter();
        all.filter(|arena| (arena.key().pool == PLANNED) == is_planned).collect()
    }

    /// How often free memory beside a plan was released for planned requests so far. A program that makes this necessary in each step gains
    /// nothing from its plan.
    pub fn plan_exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// Returns how many requests so far got memory of a plan that another stream used last, so that their streams wait for it on the
    /// device.
    pub fn plan_waits(&self) -> u64 {
        let planned = self.arenas.iter().filter(|arena| arena.key().pool == PLANNED);
        planned.map(|arena| arena.lock_as_is().waits()).sum()
    }

    /// Takes all locks except the lock of the device's accounts.
    pub fn lock_all(&self) -> LockedEngine<'_, O> {
        let ledger = lock(&self.ledger);
        let arenas: Vec<_> = self.arenas.iter().map(|arena| arena.lock()).collect();
        count_steps(arenas.len());
        LockedEngine { core: self.core(), ledger, arenas }
    }

    /// Like [`lock_all`](Self::lock_all), and also returns the index of `arena` among the locked arenas.
    pub(crate) fn lock_all_for<'a>(&'a self, arena: &'a Arena<O>) -> (LockedEngine<'a, O>, usize) {
        let mut locked = self.lock_all();
        let position = locked.arenas.iter().position(|a| a.is_of(arena)).unwrap_or_else(|| {
            locked.arenas.push(arena.lock());
            locked.arenas.len() - 1
        });
        (locked, position)
    }

    /// Arenas whose cached blocks may be released at any time: of the default pool, then of released private pools, each by stream.
    pub(crate) fn releasable(&self) -> Vec<Arc<Arena<O>>> {
        let pools = lock(&self.pools).clone();
        let released = |pool: PoolId| pools.get(&pool).is_none_or(|p| p.released);
        let mut arenas: Vec<_> = self.arenas.iter().filter(|a| released(a.key().pool)).cloned().collect();
        arenas.sort_by_key(|a| a.key());
        arenas
    }

    /// Releases all whole cached blocks of all streams, or of one stream (`free_all_blocks`, `empty_cache`).
    ///
    /// # Errors
    /// The first error of the device. All other blocks are released nevertheless.
    pub fn free_all_blocks(&self, stream: Option<u64>) -> Result<(), DeviceError> {
        self.shared.process_pending(true);
        self.release(self.releasable().into_iter().filter(|a| stream.is_none_or(|s| a.key().stream == s)))
    }

    /// Like [`free_all_blocks`](Self::free_all_blocks), without waiting for the streams that still use freed blocks: these stay.
    ///
    /// # Errors
    /// As for [`free_all_blocks`](Self::free_all_blocks).
    pub fn release_cache(&self) -> Result<(), DeviceError> {
        self.release(self.releasable().into_iter())
    }

    /// Like [`free_all_blocks`](Self::free_all_blocks), for one private pool and without waiting for streams.
    pub(crate) fn free_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.release(self.arenas.iter().filter(|a| a.key().pool == pool).cloned())
    }

    fn release(&self, arenas: impl Iterator<Item = Arc<Arena<O>>>) -> Result<(), DeviceError> {
        let stack = self.observer().capture_free();
        let (default, private): (Vec<_>, Vec<_>) = arenas.partition(|a| a.key().is_default_pool());
        let mut outcome = Ok(());
        // As in PyTorch, the default pool releases large blocks first, private pools release small blocks first.
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

    /// Releases the free block that contains `address`, as far as possible. Returns false if no free block contains it, or no part of
    /// that block can be released.
    pub(crate) fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        for arena in self.arenas.iter() {
            let mut arena = arena.lock();
            if let Some(key) = arena.free_block_around(address) {
                let before = self.reserved_bytes();
                arena.release_block(key, None)?;
                return Ok(self.reserved_bytes() < before);
            }
        }
        Ok(false)
    }

    /// Creates a private pool. With `no_split`, its blocks are never split (`MemPool(no_split=True)`, PyTorch 2.9).
    pub fn create_pool(&self, no_split: bool) -> PoolId {
        let mut pools = lock(&self.pools);
        let id = PoolId(0, pools.last_key_value().map_or(0, |(id, _)| id.1) + 1);
        pools.insert(id, PrivatePoolState { no_split, released: false });
        id
    }

    /// Creates the private pool with this id, if it does not exist. Its cached blocks are kept until it is released, or released again.
    pub fn add_pool(&self, id: PoolId) {
        let state = PrivatePoolState { no_split: false, released: false };
        lock(&self.pools).entry(id).or_insert(state).released = false;
    }

    /// Records that the capture of a CUDA graph began. Until it ends, no event is recorded, queried or awaited, so blocks that other
    /// streams use stay in use, and the cache is not released for a request (`captures_underway` in PyTorch).
    pub fn begin_capture(&self) {
        self.shared.begin_capture();
    }

    /// Records that a capture ended, successfully or not.
    pub fn end_capture(&self) {
        self.shared.end_capture();
    }

    /// Whether a capture of a CUDA graph is in progress.
    pub fn is_capturing(&self) -> bool {
        self.shared.is_capturing()
    }

    /// Marks a private pool as no longer used: its cached blocks may be released.
    pub fn release_pool(&self, id: PoolId) {
        if let Some(pool) = lock(&self.pools).get_mut(&id) {
            pool.released = true;
        }
    }

    /// Adds a callback that frees memory when a request finds none. It is called without locks.
    pub fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        lock(&self.callbacks).push(callback);
    }

    /// Returns the callbacks. Callers must hold no lock when they call them.
    pub(crate) fn free_memory_callbacks(&self) -> Vec<FreeMemoryCallback> {
        lock(&self.callbacks).clone()
    }

    // ---- totals ----

    /// Returns the bytes taken from the device.
    #[inline]
    pub fn reserved_bytes(&self) -> u64 {
        self.core().reserved_bytes()
    }

    // The totals below add up the arenas one after the other. If other threads allocate meanwhile, the sum may not match any single
    // point in time.

    /// Allocated bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock_as_is().tally().allocated()).sum()
    }

    /// Returns the bytes allocated or waiting for a stream.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock_as_is().tally().active()).sum()
    }

    /// Returns the number of free blocks, summed over the arenas one after the other.
    pub fn num_free_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().num_free_blocks() as u64).sum()
    }

    /// Returns the bytes that [`free_all_blocks`](Self::free_all_blocks) would release, summed over the arenas one after the other.
    pub fn releasable_bytes(&self) -> u64 {
        self.releasable().iter().map(|arena| arena.lock().releasable_bytes()).sum()
    }

    /// Returns the bytes of free blocks in partially used segments (`inactive_split_bytes` in PyTorch), summed over the arenas one
    /// after the other.
    pub fn inactive_split_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().inactive_split_bytes()).sum()
    }

    /// Returns the five kinds of bytes, and counts.
    pub fn statistics(&self) -> Statistics {
        let LockedEngine { ledger, mut arenas, .. } = self.lock_all();
        Self::statistics_of(&ledger, &mut arenas, &self.core().refreshed_accounts())
    }

    /// Returns the statistics of an engine whose locks the caller holds.
    pub(crate) fn statistics_of(
        ledger: &Ledger,
        arenas: &mut [LockedArena<'_, O>],
        accounts: &DeviceAccounts,
    ) -> Statistics {
        let num_free_blocks = arenas.iter().map(|a| a.num_free_blocks() as u64).sum();
        Statistics { num_free_blocks, ..accounts.statistics(ledger, &tallies(arenas)) }
    }

    /// Returns the statistics and the peaks of a scope at the same point in time. Restarts the scope at that point.
    pub fn restart_scope(&self, scope: ScopeKey) -> (Statistics, ScopePeaks) {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        let peaks = ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used);
        ledger.restart(scope, reserved.current());
        (Self::statistics_of(&ledger, &mut arenas, &accounts), peaks)
    }

    /// Resets the peaks to the current values. Open scopes keep theirs.
    pub fn reset_peaks(&self) {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.reset_peaks(&mut tallies(&mut arenas), reserved, device_used);
        accounts.reset_peaks();
    }

    /// Opens a scope, which tracks peaks until it is closed.
    pub fn open_scope(&self) -> ScopeKey {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.open(&mut tallies(&mut arenas), reserved, device_used)
    }

    /// Returns the peaks since a scope was opened or restarted.
    pub fn scope_peaks(&self, scope: ScopeKey) -> ScopePeaks {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used)
    }

    /// Returns the bytes of each kind at the peak of allocated bytes since a scope was opened or restarted.
    pub fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        lock(&self.ledger).at_peak(scope)
    }

    /// Returns the id of the allocation that reached the peak of allocated bytes in a scope; 0 if no allocation since the scope was
    /// opened or restarted did. The value changes when the peak rises, and can be read without a lock.
    pub fn highest(&self, scope: ScopeKey) -> Arc<AtomicU64> {
        lock(&self.ledger).highest(scope)
    }

    /// Closes a scope.
    pub fn close_scope(&self, scope: ScopeKey) {
        lock(&self.ledger).close(scope);
    }
}

impl<O: Observer> Drop for Engine<O> {
    /// Releases the cache. Allocated blocks stay with their arena until their last handle is dropped.
    fn drop(&mut self) {
        if !self.observer().owns_memory() {
            return;
        }
        self.shared.close();
        let pools: Vec<PoolId> = lock(&self.pools).keys().copied().collect();
        pools.into_iter().for_each(|pool| self.release_pool(pool));
        self.free_all_blocks(None).ok();
    }
}

/// Returns the tallies of locked arenas, in the same order.
pub(crate) fn tallies<'t, O: Observer>(arenas: &'t mut [LockedArena<'_, O>]) -> Vec<&'t mut Tally> {
    arenas.iter_mut().map(LockedArena::tally).collect()
}

impl<O: Observer> LockedEngine<'_, O> {
    /// Returns all segments in address order (`snapshot` in PyTorch).
    pub fn segments(&self) -> Vec<SegmentLayout<O::Stack>> {
        let mut found: Vec<_> = self.arenas.iter().flat_map(LockedArena::segments).collect();
        found.sort_by_key(SegmentLayout::address);
        found
    }

    /// Allocates `size` bytes of a block of the arena at index `asking`, for a request of `requested` bytes that may raise the device's
    /// peaks.
    fn commit(
        &mut self,
        asking: usize,
        block: BlockKey,
        size: u64,
        requested: u64,
        stack: Option<O::Stack>,
    ) -> Grant {
        let Self { core, ledger, arenas } = self;
        ledger.raise(&mut tallies(arenas), asking, [requested, size, size]);
        let grant = arenas[asking].commit(block, size, requested, stack);
        if ledger.has_scopes() {
            ledger.note_highest(&tallies(arenas), core.reserved_bytes(), grant.id);
        }
        grant
    }

    /// Records a snapshot (PyTorch's `snapshot` event, whose size is the active bytes).
    pub fn record_snapshot(&mut self) {
        let active = self.arenas.iter_mut().map(|a| a.tally().active()).sum();
        let event = DeviceEvent {
            action: Action::Snapshot,
            class: Class::Large,
            address_or_free: 0,
            size: active,
            block_size: 0,
            stack: None,
        };
        self.core.record(NO_ARENA, event);
    }
}
