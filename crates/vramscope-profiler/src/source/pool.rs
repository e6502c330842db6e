//! [`PoolSource`]: a pool of `vramscope-allocator`, which provides every number exactly and reports every allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope_allocator::hooks::{Free, MallocPostprocess, MemoryHook};
use vramscope_allocator::{AtPeak, DevicePool, MemoryPool, PeakScope, ScopePeaks, Statistics};

use super::{
    AllocationObserver, BlockEvent, Counts, DeviceSpec, MemorySource, Observation, Reading, SelectError,
    SourceError, SourceInfo, Tick, Ticker, Watch,
};

/// One device of a [`MemoryPool`].
///
/// Peaks come from the pool, so no peak between two readings is missed. The source keeps the pool alive.
pub struct PoolSource {
    pool: MemoryPool,
    device_id: i32,
    device_total: Option<u64>,
    info: SourceInfo,
}

impl PoolSource {
    /// Selects a device of `pool`: its id, `"cuda:0"`, or [`DeviceSpec::Current`].
    ///
    /// # Errors
    /// The pool has no such device.
    pub fn new<D>(pool: &MemoryPool, device: D) -> Result<Arc<Self>, SelectError>
    where
        D: TryInto<DeviceSpec, Error: Into<SelectError>>,
    {
        let device_id = device.try_into().map_err(Into::into)?.of(pool.devices().len())?;
        let device_total = pool.devices()[device_id as usize].memory_info().ok().map(|info| info.total);
        let info = SourceInfo { name: format!("pool on device {device_id}"), device_id: Some(device_id) };
        Ok(Arc::new(Self { pool: pool.clone(), device_id, device_total, info }))
    }

    /// Returns the pool.
    pub fn pool(&self) -> &MemoryPool {
        &self.pool
    }

    fn device(&self) -> &DevicePool {
        &self.pool.devices()[self.device_id as usize]
    }

    fn reading(&self, s: &Statistics) -> Reading {
        Reading {
            requested: Some(s.requested.current),
            allocated: Some(s.allocated.current),
            active: Some(s.active.current),
            reserved: Some(s.reserved.current),
            device_used: Some(s.device_used.current),
            device_total: self.device_total,
            device_source: None,
            process_used: None,
            cpu: None,
            counts: Some(Counts {
                num_allocations: s.num_allocations,
                num_frees: s.num_frees,
                allocated_bytes: s.allocated.allocated,
                freed_bytes: s.allocated.freed,
                num_alloc_retries: s.num_alloc_retries,
                num_ooms: s.num_ooms,
            }),
        }
    }
}

impl MemorySource for PoolSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        Ok(self.reading(&self.device().statistics()))
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        Some(Box::new(self.device().peak_scope()))
    }

    fn inactive_split_bytes(&self) -> Option<u64> {
        Some(self.device().inactive_split_bytes())
    }

    fn releasable_bytes(&self) -> Option<u64> {
        Some(self.device().releasable_bytes())
    }

    fn observe(&self, observer: Arc<dyn AllocationObserver>) -> Option<Observation> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        loop {
            let name = format!("AllocationObserver {}", NEXT.fetch_add(1, Ordering::Relaxed));
            let hook = ObserverHook { name, device_id: self.device_id, observer: Arc::clone(&observer) };
            // Registering fails only if a hook of the program has taken this name; then try the next name.
            if let Ok(guard) = self.pool.register_hook(Arc::new(hook)) {
                return Some(Observation::new(guard));
            }
        }
    }

    fn free_cache(&self) -> Result<(), SourceError> {
        Ok(self.device().free_all_blocks()?)
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        let scope = self.device().peak_scope();
        Box::new(PoolTicker { source: self, scope })
    }
}

impl Watch for PeakScope {
    fn peaks(&self) -> Reading {
        highest(&PeakScope::peaks(self))
    }

    fn at_peak(&self) -> Option<Reading> {
        let AtPeak { requested, allocated, active, reserved, .. } = PeakScope::at_peak(self);
        Some(Reading {
            requested: Some(requested),
            allocated: Some(allocated),
            active: Some(active),
            reserved: Some(reserved),
            ..Reading::default()
        })
    }

    fn highest_block(&self) -> Option<Arc<AtomicU64>> {
        Some(self.highest_allocation())
    }
}

fn highest(peaks: &ScopePeaks) -> Reading {
    Reading {
        requested: Some(peaks.requested),
        allocated: Some(peaks.allocated),
        active: Some(peaks.active),
        reserved: Some(peaks.reserved),
        device_used: Some(peaks.device_used),
        ..Reading::default()
    }
}

/// Reads a pool at intervals; its peak scope restarts with each interval.
struct PoolTicker {
    source: Arc<PoolSource>,
    scope: PeakScope,
}

impl Ticker for PoolTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let (now, peaks) = self.scope.restart();
        Ok(Tick { now: self.source.reading(&now), high: highest(&peaks), high_is_exact: true })
    }
}

struct ObserverHook {
    name: String,
    device_id: i32,
    observer: Arc<dyn AllocationObserver>,
}

impl MemoryHook for ObserverHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        if event.mem_ptr != 0 && event.device_id == self.device_id {
            self.observer.allocated(BlockEvent { id: event.pmem_id, size: event.mem_size });
        }
    }

    fn free_postprocess(&self, event: &Free) {
        if event.device_id == self.device_id {
            self.observer.freed(BlockEvent { id: event.pmem_id, size: event.mem_size });
        }
    }
}
