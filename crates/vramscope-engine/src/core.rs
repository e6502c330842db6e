//! [`Core`]: the shared state of the arenas of one device.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vramscope_basics::lock;
use vramscope_trace::Action;

use crate::arena_key::ArenaKey;
use crate::device::{Device, DeviceError, VirtualMemory, guarded};
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, Policy};
use crate::statistics::{Ledger, Meter, Statistics, Tally};

/// Shared state of the arenas of one device: the device, the policy and the device's accounts.
pub(crate) struct Core<O> {
    device: Arc<dyn Device>,
    device_id: i32,
    policy: Policy,
    observer: O,
    accounts: Mutex<DeviceAccounts>,
    /// Whether ages of free blocks are counted, because garbage collection uses them.
    ages: AtomicBool,
    /// Number of requests that searched the default pool, by class.
    searches: [AtomicU64; 2],
}

/// Amount and number of the memory ranges taken from the device. The call to the device and its history entry are made under the lock
/// of these accounts. So the history never records that an address was taken before it records that the address was released.
#[derive(Debug, Default)]
pub(crate) struct DeviceAccounts {
    /// Bytes taken from the device.
    reserved: Meter,
    /// The largest number of bytes that were taken at one time; unlike peaks, it is never reset.
    most_reserved: u64,
    /// Bytes in use on the device by all processes, as the device reports them.
    device_used: Meter,
    /// Limit on reserved bytes.
    limit: Option<u64>,
    /// Number of segments, without expandable ones.
    segments: Meter,
    /// Number of segments too large to be split (`max_split_size`), without expandable ones.
    oversize_segments: Meter,
    classes: [ClassMeters; 2],
    num_device_alloc: u64,
    num_device_free: u64,
    num_alloc_retries: u64,
    num_ooms: u64,
    /// Age of the last segment taken.
    ages: u64,
}

/// Memory taken from the device for the segments of one class.
#[derive(Debug, Default)]
pub(crate) struct ClassMeters {
    reserved: Meter,
    segments: Meter,
}

impl ClassMeters {
    /// Returns the bytes taken from the device.
    pub(crate) fn reserved(&self) -> &Meter {
        &self.reserved
    }

    /// Returns the number of segments, without expandable ones.
    pub(crate) fn segments(&self) -> &Meter {
        &self.segments
    }
}

impl DeviceAccounts {
    /// Returns the bytes taken from the device.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved.current()
    }

    /// Returns by how many bytes `more` bytes would exceed the largest number of reserved bytes so far.
    pub(crate) fn excess(&self, more: u64) -> u64 {
        self.reserved_bytes().saturating_add(more).saturating_sub(self.most_reserved)
    }

    /// Limit on reserved bytes.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the number of segments, without expandable ones.
    pub(crate) fn segments(&self) -> &Meter {
        &self.segments
    }

    /// Returns the number of segments too large to be split (`max_split_size`), without expandable ones.
    pub(crate) fn oversize_segments(&self) -> &Meter {
        &self.oversize_segments
    }

    /// Memory taken for one class.
    pub(crate) fn of_class(&self, class: Class) -> &ClassMeters {
        &self.classes[class as usize]
    }

    /// Counts an attempt after the cache was released (`num_alloc_retries` in PyTorch).
    pub(crate) fn count_alloc_retry(&mut self) {
        self.num_alloc_retries += 1;
    }

    /// Counts a request that failed with out of memory (`num_ooms` in PyTorch).
    pub(crate) fn count_oom(&mut self) {
        self.num_ooms += 1;
    }

    /// Returns the meters whose peaks a [`Ledger`](crate::statistics::Ledger) keeps: reserved bytes, and bytes in use on the device.
    pub(crate) fn ledger_meters(&mut self) -> (&mut Meter, &mut Meter) {
        (&mut self.reserved, &mut self.device_used)
    }

    /// Returns the statistics of a ledger together with the counts of these accounts.
    pub(crate) fn statistics(&self, ledger: &Ledger, tallies: &[&mut Tally]) -> Statistics {
        Statistics {
            segments_allocated: self.segments.allocated(),
            segments_freed: self.segments.freed(),
            num_device_alloc: self.num_device_alloc,
            num_device_free: self.num_device_free,
            num_alloc_retries: self.num_alloc_retries,
            num_ooms: self.num_ooms,
            ..ledger.statistics(tallies, &self.reserved, &self.device_used)
        }
    }

    /// Resets the peaks that no ledger keeps: of the classes and of the segment counts.
    pub(crate) fn reset_peaks(&mut self) {
        let classes = self.classes.iter_mut().flat_map(|class| [&mut class.reserved, &mut class.segments]);
        classes.chain([&mut self.segments, &mut self.oversize_segments]).for_each(Meter::reset_peak);
    }

    /// Returns the segment count meters that include a segment of `size` bytes.
    fn meters_of(
        &mut self,
        class: Class,
        size: u64,
        max_split: Option<u64>,
    ) -> impl Iterator<Item = &mut Meter> {
        let oversize = max_split.is_some_and(|max| size >= max).then_some(&mut self.oversize_segments);
        [&mut self.segments, &mut self.classes[class as usize].segments].into_iter().chain(oversize)
    }

    /// Counts a segment that was on the device before the engine began; `size` is its mapped bytes.
    fn start(&mut self, class: Class, size: u64, expandable: bool, max_split: Option<u64>) {
        self.reserved.add(size);
        self.most_reserved = self.most_reserved.max(self.reserved.current());
        self.classes[class as usize].reserved.start(size);
        if !expandable {
            self.meters_of(class, size, max_split).for_each(|meter| meter.start(1));
        }
    }

    /// Whether `more` bytes would exceed the limit.
    fn exceeds(&self, more: u64) -> bool {
        self.limit.is_some_and(|limit| self.reserved_bytes().saturating_add(more) > limit)
    }

    /// Age of a new segment: its position in the order in which segments were taken from the device.
    fn next_age(&mut self) -> u64 {
        self.ages += 1;
        self.ages
    }

    /// Queries the device for the bytes in use. Keeps the last value if the query fails.
    fn refresh_device_used(&mut self, device: &dyn Device) {
        if let Ok(info) = guarded(|| device.memory_info()) {
            self.device_used.observe(info.used());
        }
    }
}

/// Addresses reserved for an expandable segment, without memory.
pub(crate) struct ReservedAddresses {
    pub(crate) address: u64,
    /// Size in bytes, in whole pages.
    pub(crate) size: u64,
    /// Position of the segment in the order in which segments were taken from the device.
    pub(crate) age: u64,
}

impl<O: Observer> Core<O> {
    /// Creates the core of an engine on `device` with the number `device_id` and the rules of `policy`.
    ///
    /// # Errors
    /// If the policy requires expandable segments and the device does not support them, or the device does not respond.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        device_id: i32,
        policy: Policy,
        observer: O,
    ) -> Result<Self, DeviceError> {
        if policy.expandable_segments && device.virtual_memory().is_none() {
            return Err(DeviceError::Unsupported(
                "this device cannot map memory into reserved addresses; turn expandable_segments off"
                    .to_owned(),
            ));
        }
        let core = Self {
            device,
            device_id,
            policy,
            observer,
            accounts: Mutex::default(),
            ages: AtomicBool::new(false),
            searches: Default::default(),
        };
        core.accounts().refresh_device_used(core.device.as_ref());
        if let Some(fraction) = core.policy.memory_fraction {
            core.set_memory_fraction(fraction)?;
        }
        Ok(core)
    }

    #[inline]
    pub(crate) fn device(&self) -> &dyn Device {
        self.device.as_ref()
    }

    /// Returns the device's number.
    #[inline]
    pub(crate) fn device_id(&self) -> i32 {
        self.device_id
    }

    #[inline]
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    #[inline]
    pub(crate) fn observer(&self) -> &O {
        &self.observer
    }

    /// Locks the device's accounts.
    pub(crate) fn accounts(&self) -> std::sync::MutexGuard<'_, DeviceAccounts> {
        lock(&self.accounts)
    }

    /// Locks the device's accounts and queries the device for the bytes in use.
    pub(crate) fn refreshed_accounts(&self) -> std::sync::MutexGuard<'_, DeviceAccounts> {
        let mut accounts = self.accounts();
        accounts.refresh_device_used(self.device.as_ref());
        accounts
    }

    /// Sets the limit on reserved bytes.
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.accounts().limit = limit;
        let collects = limit.is_some() && self.policy.garbage_collection_threshold.is_some();
        self.ages.store(collects, Ordering::Relaxed);
    }

    /// Limits reserved bytes to a fraction of the device, truncated to whole bytes as in PyTorch and CuPy.
    ///
    /// # Errors
    /// If the device does not report its size.
    pub(crate) fn set_memory_fraction(&self, fraction: f64) -> Result<(), DeviceError> {
        let total = self.device.memory_info()?.total;
        self.set_limit(Some((fraction * total as f64) as u64));
        Ok(())
    }

    /// Whether `more` bytes would exceed the limit.
    pub(crate) fn exceeds_limit(&self, more: u64) -> bool {
        self.accounts().exceeds(more)
    }

    // ---- the age of free blocks ----

    /// Whether garbage collection is on. It requires a threshold and a limit (`get_free_block` in PyTorch).
    pub(crate) fn collects_garbage(&self) -> bool {
        self.ages.load(Ordering::Relaxed)
    }

    /// Counts a search for a free block: all free blocks of the class age by one.
    #[inline]
    pub(crate) fn count_search(&self, key: ArenaKey, class: Class) {
        if self.collects_garbage() && key.is_default_pool() {
            self.searches[class as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of searches for a free block of this class, or 0 if ages are not counted.
    #[inline]
    pub(crate) fn searches(&self, key: ArenaKey, class: Class) -> u64 {
        if self.collects_garbage() && key.is_default_pool() {
            self.searches[class as usize].load(Ordering::Relaxed)
        } else {
            0
        }
    }

    // ---- the device ----

    /// Takes a segment of `size` bytes. Returns its address and its age.
    pub(crate) fn allocate(
        &self,
        arena: u32,
        class: Class,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(u64, u64), DeviceError> {
        let mut accounts = self.accounts();
        if accounts.exceeds(size) {
            return Err(DeviceError::OutOfMemory { size });
        }
        let address = self.device.allocate(size)?;
        self.account(&mut accounts, arena, segment_event(Action::SegmentAlloc, class, address, size, stack));
        Ok((address, accounts.next_age()))
    }

    /// Releases a segment.
    pub(crate) fn free(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut accounts = self.accounts();
        self.device.free(address, size)?;
        self.account(&mut accounts, arena, segment_event(Action::SegmentFree, class, address, size, stack));
        Ok(())
    }

    fn virtual_memory(&self) -> Result<&dyn VirtualMemory, DeviceError> {
        self.device.virtual_memory().ok_or_else(|| {
            DeviceError::Unsupported("the device no longer supports virtual memory".to_owned())
        })
    }

    /// Reserves addresses for an expandable segment: 9/8 of the device's size, in whole pages (`ExpandableSegment` in PyTorch).
    pub(crate) fn reserve(&self, class: Class) -> Result<ReservedAddresses, DeviceError> {
        let page = self.policy.page_size(class);
        let total = self.device.memory_info()?.total;
        self.reserve_bytes(total.saturating_add(total / 8).checked_next_multiple_of(page).unwrap_or(total))
    }

    /// Reserves addresses for an expandable segment of `size` bytes.
    pub(crate) fn reserve_bytes(&self, size: u64) -> Result<ReservedAddresses, DeviceError> {
        let address = self.virtual_memory()?.reserve(size)?;
        Ok(ReservedAddresses { address, size, age: self.accounts().next_age() })
    }

    /// Releases the addresses of an expandable segment.
    pub(crate) fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.virtual_memory()?.release(address, size)
    }

    /// Maps memory into a part of an expandable segment. Sizes are in bytes.
    pub(crate) fn map(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        page: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut accounts = self.accounts();
        self.virtual_memory()?.map(address, size, page)?;
        self.account(&mut accounts, arena, segment_event(Action::SegmentMap, class, address, size, stack));
        Ok(())
    }

    /// Unmaps the memory of a part of an expandable segment. Sizes are in bytes.
    pub(crate) fn unmap(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        page: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut accounts = self.accounts();
        self.virtual_memory()?.unmap(address, size, page)?;
        self.account(&mut accounts, arena, segment_event(Action::SegmentUnmap, class, address, size, stack));
        Ok(())
    }

    /// Returns the bytes taken from the device.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.accounts().reserved_bytes()
    }

    /// Counts a segment that was on the device before the engine began; `size` is its mapped bytes. Returns its age.
    pub(crate) fn start(&self, class: Class, size: u64, expandable: bool) -> u64 {
        let mut accounts = self.accounts();
        accounts.start(class, size, expandable, self.policy.max_split_size);
        accounts.next_age()
    }

    /// Counts and records memory that was taken from the device or released to it.
    fn account(&self, accounts: &mut DeviceAccounts, arena: u32, what: DeviceEvent<O::Stack>) {
        let (class, size, max_split) = (what.class, what.size, self.policy.max_split_size);
        if matches!(what.action, Action::SegmentAlloc | Action::SegmentMap) {
            accounts.reserved.add(size);
            accounts.most_reserved = accounts.most_reserved.max(accounts.reserved.current());
            accounts.classes[class as usize].reserved.add(size);
            accounts.num_device_alloc += 1;
        } else {
            accounts.reserved.subtract(size);
            accounts.classes[class as usize].reserved.subtract(size);
            accounts.num_device_free += 1;
        }
        match what.action {
            Action::SegmentAlloc => accounts.meters_of(class, size, max_split).for_each(|meter| meter.add(1)),
            Action::SegmentFree => {
                accounts.meters_of(class, size, max_split).for_each(|meter| meter.subtract(1));
            }
            _ => {}
        }
        accounts.refresh_device_used(self.device.as_ref());
        self.record(arena, what);
    }

    /// Reports an event of the arena with the number `arena` to the observer, if it is recording. The caller still holds the lock under
    /// which the event happened.
    pub(crate) fn record(&self, arena: u32, event: DeviceEvent<O::Stack>) {
        if self.observer.is_recording() {
            self.observer.record(arena, event);
        }
    }
}

fn segment_event<Stack>(
    action: Action,
    class: Class,
    address: u64,
    size: u64,
    stack: Option<Stack>,
) -> DeviceEvent<Stack> {
    DeviceEvent { action, class, address_or_free: address, size, block_size: 0, stack }
}
