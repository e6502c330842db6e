//! The caching allocator of one device.
//!
//! [`Engine`] holds an [`Arena`] for each pool and stream. A request that a cached block serves touches its
//! arena alone; what must see the whole device (growth, giving memory back, a new peak, a snapshot) takes
//! its locks in one order: the ledger of peaks, the arenas as they lie in the table, the driver, the history.
//! No foreign code runs under a lock but the device's.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use vramscope_basics::lock;
use vramscope_trace::{Action, PoolId};

use crate::arena::{Arena, Grant, Locked, Shared};
use crate::arena_key::ArenaKey;
use crate::block::BlockKey;
use crate::callbacks::AllocCallbacks;
use crate::core::{Core, Driver};
use crate::device::{Device, DeviceError, MemoryInfo};
use crate::error::AllocError;
use crate::layout::SegmentLayout;
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, Policy};
use crate::statistics::{AtPeak, Ledger, Peaks, ScopeKey, Statistics, Tally};
use crate::table::ArenaTable;

/// The number of what concerns no arena, but the whole device.
pub const NO_ARENA: u32 = 0;

/// A callback that frees memory when the device has none left, as a language's garbage collector does.
pub type FreeMemoryCallback = Arc<dyn Fn() + Send + Sync>;

/// The caching allocator of one device.
pub struct Engine<O: Observer> {
    shared: Arc<Shared<O>>,
    arenas: ArenaTable<O>,
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
pub struct Whole<'a, O: Observer> {
    core: &'a Core<O>,
    pub(crate) ledger: MutexGuard<'a, Ledger>,
    pub(crate) arenas: Vec<Locked<'a, O>>,
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
            shared: Arc::new(Shared::new(core)),
            arenas: ArenaTable::new(),
            ledger: Mutex::default(),
            callbacks: Mutex::default(),
            pools: Mutex::default(),
        })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core<O> {
        &self.shared.core
    }

    /// The rules.
    #[inline]
    pub fn policy(&self) -> &Policy {
        &self.core().policy
    }

    /// The number of the device.
    pub fn device_id(&self) -> i32 {
        self.core().device_id
    }

    /// Who watches the engine.
    #[inline]
    pub fn observer(&self) -> &O {
        &self.core().observer
    }

    /// What the device says of its memory (`mem_get_info`).
    ///
    /// # Errors
    /// Where it does not answer.
    pub fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        self.core().device.memory_info()
    }

    /// Bounds reserved bytes; `None` leaves the device's own bound alone.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.core().set_limit(bytes);
    }

    /// Bounds reserved bytes to a part of the device, from 0 to 1 (`set_per_process_memory_fraction`, PyTorch).
    ///
    /// # Errors
    /// Where the device does not say how large it is.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<(), DeviceError> {
        self.core().set_memory_fraction(fraction)
    }

    /// The bound on reserved bytes.
    pub fn limit(&self) -> Option<u64> {
        self.core().driver().limit
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
        let class = self.core().policy.class(rounded);
        self.core().count_search(arena.key(), class);
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
    fn malloc_slowly<C: AllocCallbacks>(
        &self,
        arena: &Arc<Arena<O>>,
        class: Class,
        rounded: u64,
        requested: u64,
        stack: Option<O::Stack>,
        callbacks: &C,
    ) -> Result<Grant, AllocError<C::Refusal>> {
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
        arena: &Arc<Arena<O>>,
        requested: u64,
        stack: Option<O::Stack>,
        choose: impl Fn(&Locked<'_, O>) -> Option<(BlockKey, u64)>,
    ) -> Option<Grant> {
        let mut whole = self.whole();
        let asking = whole.arenas.iter().position(|a| a.is_of(arena))?;
        let (block, size) = choose(&whole.arenas[asking])?;
        let Whole { ledger, arenas, .. } = &mut whole;
        ledger.raise(&mut tallies(arenas), asking, [requested, size, size]);
        let grant = whole.arenas[asking].commit(block, size, requested, stack);
        let Whole { ledger, arenas, .. } = &mut whole;
        if ledger.has_scopes() {
            let reserved = self.reserved_bytes();
            ledger.note_highest(&tallies(arenas), reserved, grant.id);
        }
        Some(grant)
    }

    /// Takes every lock.
    pub fn whole(&self) -> Whole<'_, O> {
        let ledger = lock(&self.ledger);
        Whole { core: self.core(), ledger, arenas: self.arenas.iter().map(|arena| arena.lock()).collect() }
    }

    /// Arenas whose cached blocks may be given back to help another: those of the default pool, then those of
    /// released private pools, each by stream.
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

    /// Gives the free block that begins at or around `address` back, as far as it is whole. False where there
    /// is none.
    pub(crate) fn release_at(&self, address: u64) -> Result<bool, DeviceError> {
        for arena in self.arenas.iter() {
            let mut arena = arena.lock();
            if let Some(key) = arena.free_block_around(address) {
                let before = self.reserved_bytes();
                if arena.segment_of(key).expandable {
                    arena.unmap(key, None)?;
                } else {
                    arena.release_if_whole(key, None)?;
                }
                return Ok(self.reserved_bytes() < before);
            }
        }
        Ok(false)
    }

    /// Makes a private pool.
    pub fn create_pool(&self, no_split: bool) -> PoolId {
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

    /// Bytes handed out, of one arena after the other.
    pub fn allocated_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().current[1]).sum()
    }

    /// Bytes handed out or waiting for a stream, of one arena after the other.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().tally().current[2]).sum()
    }

    /// Free blocks, of one arena after the other.
    pub fn num_free_blocks(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().num_free_blocks() as u64).sum()
    }

    /// Bytes that [`free_all_blocks`](Self::free_all_blocks) would give back, of one arena after the other.
    pub fn releasable_bytes(&self) -> u64 {
        self.releasable().iter().map(|arena| arena.lock().releasable_bytes()).sum()
    }

    /// Bytes of free blocks in segments of which something is in use, of one arena after the other.
    pub fn inactive_split_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.lock().inactive_split_bytes()).sum()
    }

    /// Bytes of the five kinds, and counts.
    pub fn statistics(&self) -> Statistics {
        let Whole { ledger, mut arenas, .. } = self.whole();
        Self::statistics_of(&ledger, &mut arenas, &self.core().driver_now())
    }

    pub(crate) fn statistics_of(
        ledger: &Ledger,
        arenas: &mut [Locked<'_, O>],
        driver: &Driver,
    ) -> Statistics {
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
    pub fn restart_scope(&self, scope: ScopeKey) -> (Statistics, Peaks) {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core().driver_now();
        let Driver { reserved, device_used, .. } = &mut *driver;
        let peaks = ledger.scope(scope, &mut tallies(&mut arenas), reserved, device_used);
        ledger.restart(scope, reserved.current);
        (Self::statistics_of(&ledger, &mut arenas, &driver), peaks)
    }

    /// Peaks begin anew from what is there now; open scopes keep theirs.
    pub fn reset_peaks(&self) {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core().driver_now();
        let driver = &mut *driver;
        ledger.reset_peaks(&mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used);
        driver.reset_peaks();
    }

    /// Watches peaks from here on, until the scope is closed.
    pub fn open_scope(&self) -> ScopeKey {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core().driver_now();
        let driver = &mut *driver;
        ledger.open(&mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used)
    }

    /// The highest values since a scope was opened or restarted.
    pub fn scope_peaks(&self, scope: ScopeKey) -> Peaks {
        let Whole { mut ledger, mut arenas, .. } = self.whole();
        let mut driver = self.core().driver_now();
        let driver = &mut *driver;
        ledger.scope(scope, &mut tallies(&mut arenas), &mut driver.reserved, &mut driver.device_used)
    }

    /// What there was when most was allocated since a scope was opened or restarted.
    pub fn at_peak(&self, scope: ScopeKey) -> AtPeak {
        lock(&self.ledger).at_peak(scope)
    }

    /// The allocation with which most was allocated, as it changes; 0 for none since the scope was opened.
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

pub(crate) fn tallies<'t, O: Observer>(arenas: &'t mut [Locked<'_, O>]) -> Vec<&'t mut Tally> {
    arenas.iter_mut().map(Locked::tally).collect()
}

impl<O: Observer> Whole<'_, O> {
    /// Every segment, in address order (`snapshot`, PyTorch).
    pub fn segments(&self) -> Vec<SegmentLayout<O::Stack>> {
        let mut found: Vec<_> = self.arenas.iter().flat_map(Locked::segments).collect();
        found.sort_by_key(SegmentLayout::address);
        found
    }

    /// Tells the observer that a snapshot was taken here.
    pub fn record_snapshot(&mut self) {
        let active = self.arenas.iter_mut().map(|a| a.tally().current[2]).sum();
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
