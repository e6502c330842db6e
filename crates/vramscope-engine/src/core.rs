//! What the arenas of one device share: the device, the rules, and the bytes taken from it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vramscope_basics::lock;
use vramscope_trace::Action;

use crate::arena_key::ArenaKey;
use crate::device::{Device, DeviceError, VirtualMemory, guarded};
use crate::observer::{DeviceEvent, Observer};
use crate::policy::{Class, Policy};
use crate::statistics::Meter;

/// What the arenas of one device share.
pub(crate) struct Core<O> {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) device_id: i32,
    pub(crate) policy: Policy,
    pub(crate) observer: O,
    driver: Mutex<Driver>,
    /// The age of free blocks is counted: garbage is collected.
    ages: AtomicBool,
    /// Searches in the default pool, by class.
    searches: [AtomicU64; 2],
}

/// Changes together with what the device has given. A call to the device and its entry in the history are
/// made under this lock, so that an address is never recorded as taken before it was recorded as given back.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    pub(crate) reserved: Meter,
    pub(crate) device_used: Meter,
    pub(crate) limit: Option<u64>,
    /// Segments, without expandable ones.
    pub(crate) segments: Meter,
    /// Of them, those that may not be split for their size (`max_split_size`).
    pub(crate) oversize_segments: Meter,
    /// What of it is of one class.
    pub(crate) classes: [ClassMeters; 2],
    pub(crate) num_device_alloc: u64,
    pub(crate) num_device_free: u64,
    pub(crate) num_alloc_retries: u64,
    pub(crate) num_ooms: u64,
    ages: u64,
}

/// What the device has given for the segments of one class.
#[derive(Debug, Default)]
pub(crate) struct ClassMeters {
    pub(crate) reserved: Meter,
    pub(crate) segments: Meter,
}

impl Driver {
    /// Forgets the highest values that the ledger does not keep.
    pub(crate) fn reset_peaks(&mut self) {
        let classes = self.classes.iter_mut().flat_map(|class| [&mut class.reserved, &mut class.segments]);
        classes.chain([&mut self.segments, &mut self.oversize_segments]).for_each(Meter::reset_peak);
    }

    /// Meters of segments that a segment of `size` bytes counts in.
    fn meters_of(
        &mut self,
        class: Class,
        size: u64,
        max_split: Option<u64>,
    ) -> impl Iterator<Item = &mut Meter> {
        let oversize = max_split.is_some_and(|max| size >= max).then_some(&mut self.oversize_segments);
        [&mut self.segments, &mut self.classes[class as usize].segments].into_iter().chain(oversize)
    }

    /// A segment was there from the start: `size` bytes of it have memory.
    pub(crate) fn start(&mut self, class: Class, size: u64, expandable: bool, max_split: Option<u64>) {
        self.reserved.add(size);
        self.classes[class as usize].reserved.start(size);
        if !expandable {
            self.meters_of(class, size, max_split).for_each(|meter| meter.start(1));
        }
    }

    fn exceeds(&self, more: u64) -> bool {
        self.limit.is_some_and(|limit| self.reserved.current.saturating_add(more) > limit)
    }

    pub(crate) fn next_age(&mut self) -> u64 {
        self.ages += 1;
        self.ages
    }

    fn look(&mut self, device: &dyn Device) {
        if let Ok(info) = guarded(|| device.memory_info()) {
            self.device_used.observe(info.used());
        }
    }
}

/// Addresses that were reserved for an expandable segment, without memory behind them.
pub(crate) struct ReservedAddresses {
    pub(crate) address: u64,
    /// Bytes, in whole pages.
    pub(crate) size: u64,
    /// The place of the segment in the order in which segments came.
    pub(crate) age: u64,
}

impl<O: Observer> Core<O> {
    /// # Errors
    /// Where the policy wants expandable segments and the device has none, or the device does not answer.
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
            driver: Mutex::default(),
            ages: AtomicBool::new(false),
            searches: Default::default(),
        };
        core.driver().look(core.device.as_ref());
        if let Some(fraction) = core.policy.memory_fraction {
            core.set_memory_fraction(fraction)?;
        }
        Ok(core)
    }

    /// The device's accounts, as of now.
    pub(crate) fn driver(&self) -> std::sync::MutexGuard<'_, Driver> {
        lock(&self.driver)
    }

    /// The accounts with the device's own word of what is in use.
    pub(crate) fn driver_now(&self) -> std::sync::MutexGuard<'_, Driver> {
        let mut driver = self.driver();
        driver.look(self.device.as_ref());
        driver
    }

    /// Bounds reserved bytes.
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.driver().limit = limit;
        let collects = limit.is_some() && self.policy.garbage_collection_threshold.is_some();
        self.ages.store(collects, Ordering::Relaxed);
    }

    /// Bounds reserved bytes to a part of the device, truncated to whole bytes, as both originals do.
    ///
    /// # Errors
    /// Where the device does not say how large it is.
    pub(crate) fn set_memory_fraction(&self, fraction: f64) -> Result<(), DeviceError> {
        let total = self.device.memory_info()?.total;
        self.set_limit(Some((fraction * total as f64) as u64));
        Ok(())
    }

    /// `more` bytes would pass the limit.
    pub(crate) fn exceeds_limit(&self, more: u64) -> bool {
        self.driver().exceeds(more)
    }

    // ---- the age of free blocks ----

    /// Garbage is collected: a threshold and a limit are set (`get_free_block`, PyTorch).
    pub(crate) fn collects_garbage(&self) -> bool {
        self.ages.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn count_search(&self, key: ArenaKey, class: Class) {
        if self.collects_garbage() && key.is_default_pool() {
            self.searches[class as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn searches(&self, key: ArenaKey, class: Class) -> u64 {
        if self.collects_garbage() && key.is_default_pool() {
            self.searches[class as usize].load(Ordering::Relaxed)
        } else {
            0
        }
    }

    // ---- the device ----

    /// Takes a segment. Returns its address and its age.
    pub(crate) fn allocate(
        &self,
        arena: u32,
        class: Class,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(u64, u64), DeviceError> {
        let mut driver = self.driver();
        if driver.exceeds(size) {
            return Err(DeviceError::OutOfMemory { size });
        }
        let address = self.device.allocate(size)?;
        self.account(&mut driver, arena, segment_event(Action::SegmentAlloc, class, address, size, stack));
        Ok((address, driver.next_age()))
    }

    /// Gives a segment back.
    pub(crate) fn free(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut driver = self.driver();
        self.device.free(address, size)?;
        self.account(&mut driver, arena, segment_event(Action::SegmentFree, class, address, size, stack));
        Ok(())
    }

    fn virtual_memory(&self) -> Result<&dyn VirtualMemory, DeviceError> {
        self.device
            .virtual_memory()
            .ok_or_else(|| DeviceError::Unsupported("the device has no virtual memory any more".to_owned()))
    }

    /// Reserves addresses for an expandable segment: nine eighths of the device, in whole pages
    /// (`ExpandableSegment`, PyTorch).
    pub(crate) fn reserve(&self, class: Class) -> Result<ReservedAddresses, DeviceError> {
        let page = self.policy.page_size(class);
        let total = self.device.memory_info()?.total;
        let size = total.saturating_add(total / 8).checked_next_multiple_of(page).unwrap_or(total);
        let address = self.virtual_memory()?.reserve(size)?;
        Ok(ReservedAddresses { address, size, age: self.driver().next_age() })
    }

    /// Gives the addresses of an expandable segment back.
    pub(crate) fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.virtual_memory()?.release(address, size)
    }

    pub(crate) fn map(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut driver = self.driver();
        self.virtual_memory()?.map(address, size, self.policy.page_size(class))?;
        self.account(&mut driver, arena, segment_event(Action::SegmentMap, class, address, size, stack));
        Ok(())
    }

    pub(crate) fn unmap(
        &self,
        arena: u32,
        class: Class,
        address: u64,
        size: u64,
        stack: Option<O::Stack>,
    ) -> Result<(), DeviceError> {
        let mut driver = self.driver();
        self.virtual_memory()?.unmap(address, size, self.policy.page_size(class))?;
        self.account(&mut driver, arena, segment_event(Action::SegmentUnmap, class, address, size, stack));
        Ok(())
    }

    /// Bytes taken from the device.
    #[inline]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.driver().reserved.current
    }

    /// A segment was there from the start: `size` bytes of it have memory. Returns its age.
    pub(crate) fn start(&self, class: Class, size: u64, expandable: bool) -> u64 {
        let mut driver = self.driver();
        driver.start(class, size, expandable, self.policy.max_split_size);
        driver.next_age()
    }

    /// The device gave memory or took it back: counts and records it.
    fn account(&self, driver: &mut Driver, arena: u32, what: DeviceEvent<O::Stack>) {
        let (class, size, max_split) = (what.class, what.size, self.policy.max_split_size);
        if matches!(what.action, Action::SegmentAlloc | Action::SegmentMap) {
            driver.reserved.add(size);
            driver.classes[class as usize].reserved.add(size);
            driver.num_device_alloc += 1;
        } else {
            driver.reserved.subtract(size);
            driver.classes[class as usize].reserved.subtract(size);
            driver.num_device_free += 1;
        }
        match what.action {
            Action::SegmentAlloc => driver.meters_of(class, size, max_split).for_each(|meter| meter.add(1)),
            Action::SegmentFree => {
                driver.meters_of(class, size, max_split).for_each(|meter| meter.subtract(1));
            }
            _ => {}
        }
        driver.look(self.device.as_ref());
        self.record(arena, what);
    }

    /// Something happened, of an arena by its number. The caller holds the lock under which it did.
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
    DeviceEvent { action, class, address, size, block_size: 0, stack }
}
