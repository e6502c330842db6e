//! Where numbers come from.

mod combined;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
#[cfg(feature = "nvml")]
mod nvml;
mod pool;
mod process;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use vramscope_allocator::DeviceError;

pub use combined::CombinedSource;
#[cfg(feature = "cuda")]
pub use cuda::CudaSource;
pub use device::{DeviceSpec, SelectError};
#[cfg(feature = "nvml")]
pub use nvml::{GpuProcess, NvmlDevice, NvmlSource, nvml_devices};
pub use pool::PoolSource;
pub use process::{HostSource, ProcessMemory};

/// Something that can be asked how much memory is in use.
///
/// A source says what it knows and leaves the rest `None`; nobody fills that in for it.
///
/// | source | knows |
/// |---|---|
/// | [`PoolSource`] | everything, exactly: peaks and counts are the pool's own |
/// | `CudaSource` | what of a GPU is in use by anyone, from the driver |
/// | `NvmlSource` | the same, and what this process has of it, without making a context |
/// | [`HostSource`] | the resident memory of a process |
/// | [`CombinedSource`] | what one source knows, and another where it does not |
pub trait MemorySource: Send + Sync {
    /// What it is.
    fn info(&self) -> &SourceInfo;

    /// What is in use now.
    ///
    /// # Errors
    /// Where there is no answer.
    fn read(&self) -> Result<Reading, SourceError>;

    /// Watches for the highest values from here on; `None` where the source cannot know them.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }

    /// Bytes that are free in segments of which something is in use (`inactive_split_bytes` of PyTorch). May take
    /// time in proportion to the free blocks.
    fn inactive_split_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes that [`free_cache`](Self::free_cache) would give back now. May take time in proportion to the free blocks.
    fn releasable_bytes(&self) -> Option<u64> {
        None
    }

    /// It is of the process that asks, so that this process's host memory belongs to it.
    fn is_of_this_process(&self) -> bool {
        true
    }

    /// Tells `observer` of every allocation from here on, on all threads; `None` where the source does not see
    /// allocations.
    fn observe(&self, observer: Arc<dyn AllocationObserver>) -> Option<Observation> {
        let _ = observer;
        None
    }

    /// Gives cached memory back to the device.
    ///
    /// # Errors
    /// Where the source has no cache, or the device refuses.
    fn free_cache(&self) -> Result<(), SourceError> {
        Err(SourceError::NoCache(self.info().name.clone()))
    }

    /// Reads at intervals.
    fn ticker(self: Arc<Self>) -> Box<dyn Ticker>;
}

/// What a source is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// For people: `pool on device 0`, `NVIDIA H200`.
    pub name: String,
    /// The device's number, where there is a device.
    pub device_id: Option<i32>,
}

impl SourceInfo {
    /// As PyTorch writes devices: `cuda:0`; `cpu` without one.
    pub fn device(&self) -> String {
        self.device_id.map_or_else(|| "cpu".to_owned(), |id| format!("cuda:{id}"))
    }
}

/// What is in use, in bytes. `None` is what the source does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// What callers asked for.
    #[serde(rename = "requested_bytes")]
    pub requested: Option<u64>,
    /// Blocks handed out, after rounding.
    #[serde(rename = "allocated_bytes")]
    pub allocated: Option<u64>,
    /// Allocated, and freed but still waiting for another stream.
    #[serde(rename = "active_bytes")]
    pub active: Option<u64>,
    /// Taken from the device.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Option<u64>,
    /// In use on the device by anyone.
    #[serde(rename = "device_used_bytes")]
    pub device_used: Option<u64>,
    /// The whole device.
    #[serde(rename = "device_total_bytes")]
    pub device_total: Option<u64>,
    /// What the process has on the device, as the driver counts it.
    #[serde(rename = "process_used_bytes")]
    pub process_used: Option<u64>,
    /// Resident memory of the process on the host.
    #[serde(rename = "cpu_bytes")]
    pub cpu: Option<u64>,
    /// What happened since the source began.
    #[serde(skip)]
    pub counts: Option<Counts>,
}

/// What happened since the source began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Blocks handed out.
    pub num_allocations: u64,
    /// Blocks given back.
    pub num_frees: u64,
    /// Bytes of the blocks handed out.
    pub allocated_bytes: u64,
    /// Bytes of the blocks given back.
    pub freed_bytes: u64,
    /// Attempts after all cached blocks had been given back.
    pub num_alloc_retries: u64,
    /// Requests that failed for want of memory.
    pub num_ooms: u64,
}

impl Reading {
    /// Cached: reserved and neither in use nor waited for.
    pub fn inactive(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active?))
    }

    /// In use on the device and not reserved by the pool: contexts, libraries' workspaces; other processes too,
    /// where the source cannot tell what this one has.
    pub fn hidden(&self) -> Option<u64> {
        Some(self.process_used.or(self.device_used)?.saturating_sub(self.reserved?))
    }

    /// What is known here or there, from here where both know.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            requested: self.requested.or(other.requested),
            allocated: self.allocated.or(other.allocated),
            active: self.active.or(other.active),
            reserved: self.reserved.or(other.reserved),
            device_used: self.device_used.or(other.device_used),
            device_total: self.device_total.or(other.device_total),
            process_used: self.process_used.or(other.process_used),
            cpu: self.cpu.or(other.cpu),
            counts: self.counts.or(other.counts),
        }
    }

    /// The higher of each; the counts are those of `other`.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            requested: self.requested.max(other.requested),
            allocated: self.allocated.max(other.allocated),
            active: self.active.max(other.active),
            reserved: self.reserved.max(other.reserved),
            device_used: self.device_used.max(other.device_used),
            device_total: self.device_total.max(other.device_total),
            process_used: self.process_used.max(other.process_used),
            cpu: self.cpu.max(other.cpu),
            counts: other.counts,
        }
    }
}

/// Sees the highest values since it began.
pub trait Watch: Send + Sync {
    /// The highest of each kind so far, each at its own moment. What was there at the beginning counts.
    fn peaks(&self) -> Reading;

    /// What there was at the one moment at which most was allocated; `None` where the source does not know.
    fn at_peak(&self) -> Option<Reading> {
        None
    }

    /// The [id](BlockEvent::id) of the block with which most was allocated so far, as it changes, and 0 where it was
    /// so at the beginning; `None` where the source does not know. An
    /// [observer](MemorySource::observe) that is told of this block runs where the peak is being reached.
    fn highest_block(&self) -> Option<Arc<AtomicU64>> {
        None
    }
}

/// Reads at intervals.
pub trait Ticker: Send {
    /// What is in use now, and the most there was since the last time.
    ///
    /// # Errors
    /// Where there is no answer. [`SourceError::Gone`] means that there will be none any more.
    fn tick(&mut self) -> Result<Tick, SourceError>;
}

/// One look at a source.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Now.
    pub now: Reading,
    /// The highest since the tick before, each at its own moment.
    pub high: Reading,
    /// `high` saw everything in between, of the kinds that a pool counts; else it is what was looked at.
    pub high_is_exact: bool,
}

/// Looks at a source that knows only what is now.
pub(crate) struct PolledTicker<S: ?Sized>(pub(crate) Arc<S>);

impl<S: MemorySource + ?Sized> Ticker for PolledTicker<S> {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let now = self.0.read()?;
        Ok(Tick { now, high: now, high_is_exact: false })
    }
}

/// Is told of allocations, on the thread that makes them. What it allocates itself from the same source is not
/// told to anyone.
pub trait AllocationObserver: Send + Sync {
    /// A block was handed out.
    fn allocated(&self, block: BlockEvent);
    /// A block went back.
    fn freed(&self, block: BlockEvent);
}

/// A block that was handed out or went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// Of this allocation alone.
    pub id: u64,
    /// Bytes of the block, after rounding.
    pub size: u64,
}

/// Keeps an observer told until it is dropped.
#[must_use = "the observer is forgotten when this is dropped"]
pub struct Observation {
    _guard: Box<dyn Send + Sync>,
}

impl Observation {
    /// Ends when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The device's own error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// NVML's own error.
    #[error("{0}")]
    Nvml(String),
    /// The source itself panicked.
    #[error("{0} panicked")]
    Panicked(String),
    /// What was asked is not there any more.
    #[error("{0} is gone")]
    Gone(String),
    /// It has no cache that could be given back.
    #[error("{0} has no cache to give back")]
    NoCache(String),
    /// The answer made no sense.
    #[error("{source_name}: {why}")]
    Answer {
        /// Who answered.
        source_name: String,
        /// What was wrong.
        why: String,
    },
}
