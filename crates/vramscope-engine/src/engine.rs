//! The caching allocator of one device.
//!
//! [`Engine`] holds an [`Arena`] for each pool and stream. A request that a cached block serves touches its
//! arena alone; what must see the whole device (growth, giving memory back, a new peak, a snapshot) takes
//! its locks in one order: the ledger of peaks, the arenas as they lie in the table, the device's accounts, the history.
//! No foreign code runs under a lock but the device's.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::lock;
use vramscope_trace::{Action, PoolId};

use crate::arena::{Arena, BlockKey, EngineShared, Grant, LockedArena};
use crate::arena_key::ArenaKey;
use crate::callbacks::AllocCallbacks;
use crate::core::{Core, DeviceAccounts};
use crate::device::{Device, DeviceError, MemoryInfo};
use crate::error::AllocError;
use crate::layout::SegmentLayout;
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, Policy};
use crate::statistics::{AtPeak, Ledger, Peaks, ScopeKey, Statistics, Tally};
use crate::table::ArenaTable;

/// The number of an arena that stands for the whole device, in events that concern no arena.
pub const NO_ARENA: u32 = 0;

/// A callback that frees memory when the device has none left, as a language's garbage collector does.
pub type FreeMemoryCallback = Arc<dyn Fn() + Send + Sync>;

/// The caching allocator of one device.
pub struct Engine<O: Observer> {
    shared: Arc<EngineShared<O>>,
    arenas: ArenaTable<O>,
    ledger: Mutex<Ledger>,
    callbacks: Mutex<Vec<FreeMemoryCallback>>,
    /// Private pools, by their id.
    pools: Mutex<BTreeMap<PoolId, PrivatePoolState>>,
}

#[derive(Debug, Clone, Copy)]
struct PrivatePoolState {
    /// Whether its blocks are handed out whole (`MemPool(no_split=True)`, PyTorch 2.9).
    no_split: bool,
    /// Whether no more is allocated from it, so that its cached blocks may be given back.
    released: bool,
}

/// An engine of which every lock is held but that of the device's accounts: nothing on the device changes meanwhile.
pub struct LockedEngine<'a, O: Observer> {
    core: &'a Core<O>,
    pub(crate) ledger: MutexGuard<'a, Ledger>,
    pub(crate) arenas: Vec<LockedArena<'a, O>>,
}

impl<O: Observer> Engine<O> {
    /// An engine of `device`, whose number is `device_id`, by the rules of `policy`.
    ///
    /// # Errors
    /// Where the policy wants expandable segments and the device has none, or the device does not answer.
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
        })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        self.shared.core()
    }

    /// The rules that the engine follows.
    #[inline]
    pub fn policy(&self) -> &Policy {
        self.core().policy()
    }

    /// The number of the device.
    pub fn device_id(&self) -> i32 {
        self.core().device_id()
    }

    /// The observer that is told what happens.
    #[inline]
    pub fn observer(&self) -> &O {
        self.core().observer()
    }

    /// What the device says of its memory (`mem_get_info`).
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.core().device().memory_info()
    }

    /// Bounds reserved bytes; `None` is no limit but the size of the device.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.core().set_limit(bytes);
    }

    /// Bounds reserved bytes to a fraction of the device, from 0 to 1 (`set_per_process_memory_fraction`, PyTorch).
    ///
    /// # Errors
    /// Where the device does not say how large it is.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<(), DeviceError> {
        self.core().set_memory_fraction(fraction)
    }

    /// The bound on reserved bytes, where one is set.
    pub fn limit(&self) -> Option<u64> {
        self.core().accounts().limit()
    }

    /// The memory of one pool on one stream.
    #[inline]
    pub fn arena(&self, key: ArenaKey) -> &Arc<Arena<O>> {
        self.arenas.get(key, || {
            let no_split = lock(&self.pools).get(&key.pool).is_some_and(|pool| pool.no_split);
            Arc::new(Arena::new(Arc::clone(&self.shared), key, no_split))
        })
    }

    /// Serves a request of `requested` bytes, at least one; `rounded` is what the policy makes of it.
    ///
    /// # Errors
    /// See [`AllocError`]. Nothing is then held for the request.
    #[inline]
    pub fn malloc<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        requested: u64,
        rounded: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<Grant, AllocError<C::Refusal>> {
        if !self.shared.nothing_waits() {
            self.shared.process_pending(false);
        }
        let class = self.core().policy().class(rounded);
        self.core().count_search(arena.key(), class);
        // Kept apart from the result, which is built in memory: a cached block stays in registers.
        let cached = arena.lock().commit_cached(class, rounded, requested, stack);
        match cached {
            Some(grant) => Ok(grant),
            None => self.malloc_slowly(arena, class, rounded, requested, stack, callbacks),
        }
    }

    /// Serves a request that may raise a peak, or that no cached block serves.
    #[cold]
    #[inline(never)]
    fn malloc_slowly<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<Grant, AllocError<C::Refusal>> {
        {
            let (mut locked, asking) = self.lock_all_for(arena);
            if let Some((block, size)) = locked.arenas[asking].find(class, rounded) {
                return Ok(locked.commit(asking, block, size, requested, stack));
            }
        }
        let held = self.grow(arena, class, rounded, requested, stack, callbacks)?;
        let (mut locked, asking) = self.lock_all_for(arena);
        let size = locked.arenas[asking].size_of_held(class, rounded, held.block());
        let grant = locked.commit(asking, held.block(), size, requested, stack);
        held.keep();
        Ok(grant)
    }

    /// Takes every lock but that of the device's accounts.
    pub fn lock_all(&self) -> LockedEngine<'_, O> {
        let ledger = lock(&self.ledger);
        let arenas = self.arenas.iter().map(|arena| arena.lock()).collect();
        LockedEngine { core: self.core(), ledger, arenas }
    }

    /// As [`lock_all`](Self::lock_all), with the position of `arena` among the locked ones.
    pub(crate) fn lock_all_for<'a>(&'a self, arena: &'a Arena<O>) -> (LockedEngine<'a, O>, usize) {
        let mut locked = self.lock_all();
        let position = locked.arenas.iter().position(|a| a.is_of(arena)).unwrap_or_else(|| {
            locked.arenas.push(arena.lock());
            locked.arenas.len() - 1
        });
        (locked, position)
    }

    /// Arenas whose cached blocks may be given back at any time: those of the default pool, then those of released
    /// private pools, each by stream.
    pub(crate) fn releasable(&self) -> Vec<Arc<Arena<O>>> {
        let pools = lock(&self.pools).clone();
        let released = |pool: PoolId| pools.get(&pool).is_none_or(|p| p.released);
        let mut arenas: Vec<_> = self.arenas.iter().filter(|a| released(a.key().pool)).cloned().collect();
        arenas.sort_by_key(|a| a.key());
        arenas
    }

    /// Gives every cached block that is whole back to the device (`free_all_blocks`, `empty_cache`): of all
    /// streams or of one.
    ///
    /// # Errors
    /// The device's first refusal; everything else was given back all the same.
    pub fn free_all_blocks(&self, stream: Option<u64>) -> Result<(), DeviceError> {
        self.shared.process_pending(true);
        self.release(self.releasable().into_iter().filter(|a| stream.is_none_or(|s| a.key().stream == s)))
    }

    /// As [`free_all_blocks`](Self::free_all_blocks), of one private pool and without waiting for streams.
    pub(crate) fn free_pool(&self, pool: PoolId) -> Result<(), DeviceError> {
        self.release(self.arenas.iter().filter(|a| a.key().pool == pool).cloned())
    }

    fn release(&self, arenas: impl Iterator<Item = Arc<Arena<O>>>) -> Result<(), DeviceError> {
        let stack = self.observer().capture_free();
        let (default, private): (Vec<_>, Vec<_>) = arenas.partition(|a| a.key().is_default_pool());
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

    /// Gives the free block that `address` lies in back to the device, as far as it is whole. False where there is no
    /// such block, or nothing of it is whole.
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

    /// Makes a private pool. With `no_split`, its blocks are handed out whole (`MemPool(no_split=True)`, PyTorch 2.9).
    pub fn create_pool(&self, no_split: bool) -> PoolId {
        let mut pools = lock(&self.pools);
        let id = PoolId(0, pools.last_key_value().map_or(0, |(id, _)| id.1) + 1);
        pools.insert(id, PrivatePoolState { no_split, released: false });
        id
    }

    /// Makes the private pool of this id, where there is none yet.
    pub(crate) fn add_pool(&self, id: PoolId) {
        let state = PrivatePoolState { no_split: false, released: false };
        lock(&self.pools).entry(id).or_insert(state);
    }

    /// Says that no more will be allocated from a private pool: its cached blocks may be given back.
    pub fn release_pool(&self, id: PoolId) {
        if let Some(pool) = lock(&self.pools).get_mut(&id) {
            pool.released = true;
        }
    }

    /// Calls `callback` to free memory when a request finds none. No lock is held meanwhile.
    pub fn add_free_memory_callback(&self, callback: FreeMemoryCallback) {
        lock(&self.callbacks).push(callback);
    }

    /// The callbacks, to be called with no lock held.
    pub(crate) fn free_memory_callbacks(&self) -> Vec<FreeMemoryCallback> {
        lock(&self.callbacks).clone()
    }

    // ---- what it holds ----

    /// Bytes taken from the device.
    #[inline]
    pub fn reserved_bytes(&self) -> u64 {
        self.core().reserved_bytes()
    }

    // The numbers below are summed over the arenas one after the other: where other threads allocate meanwhile, the sum
    // need not be of any one moment.

    /// Bytes handed out.
    pub fn allocated_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().allocated()).sum()
    }

    /// Bytes handed out or waiting for a stream.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().active()).sum()
    }

    /// The number of free blocks. Summed over the arenas one after the other.
    pub fn num_free_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().num_free_blocks() as u64).sum()
    }

    /// Bytes that [`free_all_blocks`](Self::free_all_blocks) would give back. Summed over the arenas one after the other.
    pub fn releasable_bytes(&self) -> u64 {
        self.releasable().iter().map(|arena| arena.lock().releasable_bytes()).sum()
    }

    /// Bytes of free blocks in segments of which another part is in use (`inactive_split_bytes` of PyTorch). Summed over
    /// the arenas one after the other.
    pub fn inactive_split_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().inactive_split_bytes()).sum()
    }

    /// Bytes of the five kinds, and counts.
    pub fn statistics(&self) -> Statistics {
        let LockedEngine { ledger, mut arenas, .. } = self.lock_all();
        Self::statistics_of(&ledger, &mut arenas, &self.core().refreshed_accounts())
    }

    /// The statistics of an engine whose locks the caller holds.
    pub(crate) fn statistics_of(
        ledger: &Ledger,
        arenas: &mut [LockedArena<'_, O>],
        accounts: &DeviceAccounts,
    ) -> Statistics {
        let num_free_blocks = arenas.iter().map(|a| a.num_free_blocks() as u64).sum();
        Statistics { num_free_blocks, ..accounts.statistics(ledger, &tallies(arenas)) }
    }

    /// The statistics and the peaks of a scope, both of the same moment, at which the scope begins anew.
    pub fn restart_scope(&self, scope: ScopeKey) -> (Statistics, Peaks) {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        let peaks = ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used);
        ledger.restart(scope, reserved.current());
        (Self::statistics_of(&ledger, &mut arenas, &accounts), peaks)
    }

    /// Begins the peaks anew from what is in use now; open scopes keep theirs.
    pub fn reset_peaks(&self) {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.reset_peaks(&mut tallies(&mut arenas), reserved, device_used);
        accounts.reset_peaks();
    }

    /// Opens a scope, in which peaks are watched from here on until it is closed.
    pub fn open_scope(&self) -> ScopeKey {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.open(&mut tallies(&mut arenas), reserved, device_used)
    }

    /// The highest values since a scope was opened or restarted.
    pub fn scope_peaks(&self, scope: ScopeKey) -> Peaks {
        let LockedEngine { mut ledger, mut arenas, .. } = self.lock_all();
        let mut accounts = self.core().refreshed_accounts();
        let (reserved, device_used) = accounts.ledger_meters();
        ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used)
    }

    /// What was in use at the moment at which most was allocated since a scope was opened or restarted.
    pub fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        lock(&self.ledger).at_peak(scope)
    }

    /// The id of the allocation with which a scope's allocated bytes reached their peak; 0 where no allocation since the
    /// scope was opened or restarted did. The number changes as the peak rises, and is read without a lock.
    pub fn highest(&self, scope: ScopeKey) -> Arc<AtomicU64> {
        lock(&self.ledger).highest(scope)
    }

    /// Ends a scope.
    pub fn close_scope(&self, scope: ScopeKey) {
        lock(&self.ledger).close(scope);
    }
}

impl<O: Observer> Drop for Engine<O> {
    /// Gives the cache back. Blocks in use stay with their arena until their last handle is gone.
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

/// The tallies of locked arenas, in the same order.
pub(crate) fn tallies<'t, O: Observer>(arenas: &'t mut [LockedArena<'_, O>]) -> Vec<&'t mut Tally> {
    arenas.iter_mut().map(LockedArena::tally).collect()
}

impl<O: Observer> LockedEngine<'_, O> {
    /// Every segment, in address order (`snapshot`, PyTorch).
    pub fn segments(&self) -> Vec<SegmentLayout<O::Stack>> {
        let mut found: Vec<_> = self.arenas.iter().flat_map(LockedArena::segments).collect();
        found.sort_by_key(SegmentLayout::address);
        found
    }

    /// Hands out `size` bytes of a block of the arena at position `asking`, for a request of `requested` bytes that may
    /// raise the device's peaks.
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

    /// Records that a snapshot was taken here (PyTorch's event `snapshot`, whose size are the active bytes).
    pub fn record_snapshot(&mut self) {
        let active = self.arenas.iter_mut().map(|a| a.tally().active()).sum();
        let event = DeviceEvent {
            action: Action::Snapshot,
            class: Class::Large,
            address: 0,
            size: active,
            block_size: 0,
            stack: None,
        };
        self.core.record(NO_ARENA, event);
    }
}
