//! [`MemorySource`]: where numbers come from.

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

/// Something that knows how much memory is in use, such as a pool, a GPU or a process.
///
/// A source returns `None` for every number that it does not know, and no other part of the profiler guesses it.
///
/// | source | knows |
/// |---|---|
/// | [`PoolSource`] | everything, exactly: peaks and counts are the pool's own |
/// | `CudaSource` | the bytes of a GPU in use by anyone, from the driver |
/// | `NvmlSource` | the same, and the bytes of this process on it, without making a context |
/// | [`HostSource`] | the resident memory of a process |
/// | [`CombinedSource`] | the numbers of one source, and those of another that the first does not know |
pub trait MemorySource: Send + Sync {
    /// The name and the device of the source.
    fn info(&self) -> &SourceInfo;

    /// What is in use now.
    ///
    /// # Errors
    /// Where the source cannot tell: see [`SourceError`].
    fn read(&self) -> Result<Reading, SourceError>;

    /// Watches for the highest values from here on; `None` where the source cannot know them.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }

    /// Bytes of free blocks in segments of which another part is in use (`inactive_split_bytes` of PyTorch). The time may grow with
    /// the number of free blocks.
    fn inactive_split_bytes(&self) -> Option<u64> {
        None
    }

    /// Bytes that [`free_cache`](Self::free_cache) would give back now. The time may grow with the number of free blocks.
    fn releasable_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the source is of the calling process, so that this process's host memory may be reported together with it.
    fn is_of_this_process(&self) -> bool {
        true
    }

    /// Calls `observer` for every allocation from here on, on all threads, until the returned value is dropped; `None` where the
    /// source does not see allocations.
    fn observe(&self, observer: Arc<dyn AllocationObserver>) -> Option<Observation> {
        let _ = observer;
        None
    }

    /// Who holds most of what is live, most bytes first, at most `top` stacks; `None` where the source does not know it by itself. One
    /// that sees allocations need not: [`LiveStacks`](crate::LiveStacks) knows it of any.
    fn live_holders(&self, top: usize) -> Option<Vec<LiveHolder>> {
        let _ = top;
        None
    }

    /// Gives cached memory back to the device.
    ///
    /// # Errors
    /// Where the source has no cache, or the device refuses.
    fn free_cache(&self) -> Result<(), SourceError> {
        Err(SourceError::NoCache(self.info().name.clone()))
    }

    /// Begins to read the source at intervals: each ticker has highest values of its own.
    fn ticker(self: Arc<Self>) -> Box<dyn Ticker>;
}

/// The name and the device of a source.
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

/// What is in use, in bytes. A number that the source does not know is `None`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Bytes that callers asked for, of all active blocks.
    #[serde(rename = "requested_bytes")]
    pub requested: Option<u64>,
    /// Bytes of blocks handed out, after rounding.
    #[serde(rename = "allocated_bytes")]
    pub allocated: Option<u64>,
    /// Bytes of blocks handed out, and of blocks that were freed and wait for another stream.
    #[serde(rename = "active_bytes")]
    pub active: Option<u64>,
    /// Bytes taken from the device.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Option<u64>,
    /// Bytes in use on the device by anyone.
    #[serde(rename = "device_used_bytes")]
    pub device_used: Option<u64>,
    /// The size of the device, in bytes.
    #[serde(rename = "device_total_bytes")]
    pub device_total: Option<u64>,
    /// Bytes of the process on the device, as the driver counts them.
    #[serde(rename = "process_used_bytes")]
    pub process_used: Option<u64>,
    /// Bytes of the process resident in the host's memory.
    #[serde(rename = "cpu_bytes")]
    pub cpu: Option<u64>,
    /// What was counted since the source began.
    #[serde(skip)]
    pub counts: Option<Counts>,
}

/// What a source has counted since it began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of blocks handed out.
    pub num_allocations: u64,
    /// The number of blocks given back.
    pub num_frees: u64,
    /// Bytes of the blocks handed out.
    pub allocated_bytes: u64,
    /// Bytes of the blocks given back.
    pub freed_bytes: u64,
    /// The number of attempts after all cached blocks had been given back (`num_alloc_retries` of PyTorch).
    pub num_alloc_retries: u64,
    /// The number of requests that failed because there was no memory left (`num_ooms`).
    pub num_ooms: u64,
}

impl Reading {
    /// Cached bytes: reserved and not active.
    pub fn inactive(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active?))
    }

    /// Bytes in use on the device that the pool did not reserve, such as contexts and workspaces of libraries. Where the source
    /// does not know the bytes of this process, those of other processes are among them.
    pub fn hidden(&self) -> Option<u64> {
        Some(self.process_used.or(self.device_used)?.saturating_sub(self.reserved?))
    }

    /// Each number of this reading, or that of `other` where it is not known here.
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

    /// The higher of each two numbers; the counts are those of `other`.
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

/// The live blocks of one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveHolder {
    /// Bytes of the blocks.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
    /// The stack, innermost first, as `file:line function`; empty where it is not known.
    pub stack: Vec<String>,
}

/// Watches the highest values of a source since it was made.
pub trait Watch: Send + Sync {
    /// The highest values so far, each at its own moment. What was in use at the beginning counts.
    fn peaks(&self) -> Reading;

    /// What was in use at the one moment at which most was allocated; `None` where the source does not know.
    fn at_peak(&self) -> Option<Reading> {
        None
    }

    /// The [id](BlockEvent::id) of the block whose allocation reached the peak of allocated bytes so far; 0 where nothing rose
    /// above what was allocated at the beginning. The number changes as the peak rises. `None` where the source does not know.
    /// An [observer](MemorySource::observe) that is called for the block of this id runs on the thread that reaches the peak.
    fn highest_block(&self) -> Option<Arc<AtomicU64>> {
        None
    }
}

/// Reads a source at intervals.
pub trait Ticker: Send {
    /// What is in use now, and the highest values since this was called before.
    ///
    /// # Errors
    /// Where the source cannot tell. After [`SourceError::Gone`] every later call fails too.
    fn tick(&mut self) -> Result<Tick, SourceError>;
}

/// What a [`Ticker`] reads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// What is in use now.
    pub now: Reading,
    /// The highest values since the tick before, each at its own moment.
    pub high: Reading,
    /// Whether the highest values of what a pool counts are exact. Otherwise they are the highest of the readings that were taken.
    pub high_is_exact: bool,
}

/// The ticker of a source that only knows what is in use now: its highest values are the current ones.
pub(crate) struct PolledTicker<S: ?Sized>(pub(crate) Arc<S>);

impl<S: MemorySource + ?Sized> Ticker for PolledTicker<S> {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let now = self.0.read()?;
        Ok(Tick { now, high: now, high_is_exact: false })
    }
}

/// Called for allocations, on the thread that makes them. No observer is called for what an observer itself allocates from the same
/// source.
pub trait AllocationObserver: Send + Sync {
    /// Called after a block was allocated.
    fn allocated(&self, block: BlockEvent);
    /// Called after a block was freed.
    fn freed(&self, block: BlockEvent);
}

/// A block that was allocated or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// The id of the allocation, which no other allocation of the source has.
    pub id: u64,
    /// Bytes of the block, after rounding.
    pub size: u64,
}

/// The observer is called until this is dropped.
#[must_use = "the observer is no longer called when this is dropped"]
pub struct Observation {
    _guard: Box<dyn Send + Sync>,
}

impl Observation {
    /// An observation that ends when `guard` is dropped, which happens when this is.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

/// Why a source cannot tell what is in use.
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
    /// The source no longer exists: its process has ended, or its server has.
    #[error("{0} is gone")]
    Gone(String),
    /// The source has no cache that could be given back.
    #[error("{0} has no cache to give back")]
    NoCache(String),
    /// The answer was not understood, or did not come in time.
    #[error("{source_name}: {why}")]
    Answer {
        /// The name of the source.
        source_name: String,
        /// What was wrong with the answer.
        why: String,
    },
}
