//! [`MemorySource`]: a source of memory numbers.

mod combined;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod device_memory;
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
pub use device_memory::DeviceMemory;
#[cfg(feature = "nvml")]
pub use nvml::{GpuProcess, NvmlDevice, NvmlSource, nvml_devices, starts_on_mig_instance};
pub use pool::PoolSource;
pub use process::{HostSource, ProcessMemory};
pub use vramscope_trace::samples::DeviceMemorySource;

/// A source of memory numbers, such as a pool, a GPU or a process.
///
/// A source returns `None` for every unknown number, and the profiler never estimates it.
///
/// | source | provides |
/// |---|---|
/// | [`PoolSource`] | everything, exactly: peaks and counts come from the pool |
/// | `CudaSource` | the bytes of a GPU used by all processes, from the driver |
/// | `NvmlSource` | the same, and the bytes of this process on the GPU, without creating a context |
/// | [`HostSource`] | the resident memory of a process |
/// | [`CombinedSource`] | the numbers of one source, with missing numbers from another |
pub trait MemorySource: Send + Sync {
    /// Returns the name and the device of the source.
    fn info(&self) -> &SourceInfo;

    /// Returns the current memory use.
    ///
    /// # Errors
    /// The source cannot be read: see [`SourceError`].
    fn read(&self) -> Result<Reading, SourceError>;

    /// Measures peaks from now on; `None` if the source cannot.
    fn watch(&self) -> Option<Box<dyn Watch>> {
        None
    }

    /// Returns the bytes of free blocks in segments with a live block (`inactive_split_bytes` of PyTorch). The time may grow with the
    /// number of free blocks.
    fn inactive_split_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the bytes that [`free_cache`](Self::free_cache) would release now. The time may grow with the number of free blocks.
    fn releasable_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the source belongs to the calling process, so that this process' host memory may be reported with it.
    fn is_of_this_process(&self) -> bool {
        true
    }

    /// Calls `observer` for every allocation from now on, on all threads, until the returned value is dropped; `None` if the source does
    /// not report allocations.
    fn observe(&self, observer: Arc<dyn AllocationObserver>) -> Option<Observation> {
        let _ = observer;
        None
    }

    /// Returns at most `top` stacks with the most live bytes, most bytes first; `None` if the source does not count them itself. For a
    /// source that reports allocations, [`LiveStacks`](crate::LiveStacks) counts them.
    fn live_holders(&self, top: usize) -> Option<Vec<LiveHolder>> {
        let _ = top;
        None
    }

    /// Returns the memory of the process beside the source's pool, by library; `None` if the source does not know it.
    fn layers(&self) -> Option<Layers> {
        None
    }

    /// Releases cached memory to the device.
    ///
    /// # Errors
    /// The source has no cache, or the device refuses.
    fn free_cache(&self) -> Result<(), SourceError> {
        Err(SourceError::NoCache(self.info().name.clone()))
    }

    /// Starts reading the source at intervals; each ticker has its own peaks.
    fn ticker(self: Arc<Self>) -> Box<dyn Ticker>;
}

/// The name and the device of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// The display name: `pool on device 0`, `NVIDIA H200`.
    pub name: String,
    /// The device id, if there is a device.
    pub device_id: Option<i32>,
}

impl SourceInfo {
    /// Returns the device in PyTorch's notation: `cuda:0`, or `cpu` without a device.
    pub fn device(&self) -> String {
        self.device_id.map_or_else(|| "cpu".to_owned(), |id| format!("cuda:{id}"))
    }
}

/// The memory use, in bytes. Unknown numbers are `None`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// Bytes that callers requested, over all active blocks.
    #[serde(rename = "requested_bytes")]
    pub requested: Option<u64>,
    /// Bytes of allocated blocks, after rounding.
    #[serde(rename = "allocated_bytes")]
    pub allocated: Option<u64>,
    /// Allocated bytes, plus bytes of freed blocks that wait for another stream.
    #[serde(rename = "active_bytes")]
    pub active: Option<u64>,
    /// Bytes allocated from the device.
    #[serde(rename = "reserved_bytes")]
    pub reserved: Option<u64>,
    /// Bytes used on the device by all processes.
    #[serde(rename = "device_used_bytes")]
    pub device_used: Option<u64>,
    /// The size of the device, in bytes.
    #[serde(rename = "device_total_bytes")]
    pub device_total: Option<u64>,
    /// The source of [`device_used`](Self::device_used): `driver`, `nvml`, `nvml_mig` (a MIG instance) or `meminfo` (the host's memory,
    /// which the GPU shares). Absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub device_source: Option<DeviceMemorySource>,
    /// Bytes of the process on the device, as the driver counts them.
    #[serde(rename = "process_used_bytes")]
    pub process_used: Option<u64>,
    /// Resident host memory of the process, in bytes.
    #[serde(rename = "cpu_bytes")]
    pub cpu: Option<u64>,
    /// The counts since the source's start.
    #[serde(skip)]
    pub counts: Option<Counts>,
}

/// The counts of a source since its start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Number of allocated blocks.
    pub num_allocations: u64,
    /// Number of freed blocks.
    pub num_frees: u64,
    /// Bytes of allocated blocks.
    pub allocated_bytes: u64,
    /// Bytes of freed blocks.
    pub freed_bytes: u64,
    /// Number of allocation attempts after releasing all cached blocks (`num_alloc_retries` of PyTorch).
    pub num_alloc_retries: u64,
    /// Number of requests that failed because memory ran out (`num_ooms`).
    pub num_ooms: u64,
}

impl Reading {
    /// Returns the cached bytes: reserved but not active.
    pub fn inactive(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.active?))
    }

    /// Returns the bytes used on the device that the pool did not reserve, such as contexts and workspaces of libraries. If the bytes of
    /// this process are unknown, other processes are included.
    pub fn hidden(&self) -> Option<u64> {
        Some(self.process_used.or(self.device_used)?.saturating_sub(self.reserved?))
    }

    /// Returns this reading, with unknown numbers taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            requested: self.requested.or(other.requested),
            allocated: self.allocated.or(other.allocated),
            active: self.active.or(other.active),
            reserved: self.reserved.or(other.reserved),
            device_used: self.device_used.or(other.device_used),
            device_total: self.device_total.or(other.device_total),
            device_source: if self.device_used.is_some() { self.device_source } else { other.device_source },
            process_used: self.process_used.or(other.process_used),
            cpu: self.cpu.or(other.cpu),
            counts: self.counts.or(other.counts),
        }
    }

    /// Returns the higher of each pair of numbers, with the counts of `other`.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            requested: self.requested.max(other.requested),
            allocated: self.allocated.max(other.allocated),
            active: self.active.max(other.active),
            reserved: self.reserved.max(other.reserved),
            device_used: self.device_used.max(other.device_used),
            device_total: self.device_total.max(other.device_total),
            device_source: other.device_source.or(self.device_source),
            process_used: self.process_used.max(other.process_used),
            cpu: self.cpu.max(other.cpu),
            counts: other.counts,
        }
    }
}

/// Memory of a process beside its pool.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layers {
    /// Memory of other libraries on the device and on the host, most bytes first.
    pub libraries: Vec<LiveLibrary>,
    /// Bytes of the device in use that neither the pool nor a library of the process holds: contexts, kernels and other processes, by the
    /// driver's last count. Negative if managed memory is not on the device.
    pub rest_bytes: Option<i64>,
}

/// What a library holds of one kind of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveLibrary {
    /// File name of the library.
    pub library: String,
    /// `device`, `async`, `physical`, `managed`, `array`, `imported` (allocated by another process), `pinned` or `registered`.
    pub memory: String,
    /// Bytes.
    pub bytes: u64,
    /// Number of allocations.
    pub count: u64,
}

/// The live blocks of one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Holder"))]
pub struct LiveHolder {
    /// Bytes of the blocks.
    pub bytes: u64,
    /// Number of blocks.
    pub count: u64,
    /// The stack, innermost first, as `file:line function`; empty if unknown. `None` while it is being resolved, which may take seconds the
    /// first time: a later response has it.
    pub stack: Option<Vec<String>>,
}

/// Measures the peaks of a source since its creation.
pub trait Watch: Send + Sync {
    /// Returns the peaks so far, each at its own moment. Memory in use at the start counts.
    fn peaks(&self) -> Reading;

    /// Returns the memory use at the moment of peak allocated bytes; `None` if unknown.
    fn at_peak(&self) -> Option<Reading> {
        None
    }

    /// Returns the [id](BlockEvent::id) of the block whose allocation reached the peak of allocated bytes so far; 0 if allocated bytes
    /// never exceeded their value at the start. The value changes as the peak rises. `None` if the source does not provide it. An
    /// [observer](MemorySource::observe) that is called for this block runs on the thread that reaches the peak.
    fn highest_block(&self) -> Option<Arc<AtomicU64>> {
        None
    }
}

/// Reads a source at intervals.
pub trait Ticker: Send {
    /// Returns the current memory use, and the peaks since the previous call.
    ///
    /// # Errors
    /// The source cannot be read. After [`SourceError::Gone`] every later call fails too.
    fn tick(&mut self) -> Result<Tick, SourceError>;
}

/// The result of a [`Ticker`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The current memory use.
    pub now: Reading,
    /// The peaks since the previous tick, each at its own moment.
    pub high: Reading,
    /// Whether the peaks of the pool's numbers are exact. Otherwise they are the highest readings.
    pub high_is_exact: bool,
}

/// The ticker of a source that provides only current values: its peaks are the current values.
pub(crate) struct PolledTicker<S: ?Sized>(pub(crate) Arc<S>);

impl<S: MemorySource + ?Sized> Ticker for PolledTicker<S> {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let now = self.0.read()?;
        Ok(Tick { now, high: now, high_is_exact: false })
    }
}

/// Called for allocations, on the allocating thread. Allocations that an observer makes from the same source are not reported.
pub trait AllocationObserver: Send + Sync {
    /// Called after a block was allocated.
    fn allocated(&self, block: BlockEvent);
    /// Called after a block was freed.
    fn freed(&self, block: BlockEvent);
}

/// A block that was allocated or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// The allocation's id, unique within the source.
    pub id: u64,
    /// Bytes of the block, after rounding.
    pub size: u64,
}

/// Dropping it stops the calls to the observer.
#[must_use = "dropping the observation stops the calls to the observer"]
pub struct Observation {
    _guard: Box<dyn Send + Sync>,
}

impl Observation {
    /// Creates an observation that drops `guard` when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

/// The reason why a source cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The device's error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// NVML's error.
    #[error("{0}")]
    Nvml(String),
    /// The source panicked.
    #[error("{0} panicked")]
    Panicked(String),
    /// The source no longer exists: its process or its server has ended.
    #[error("{0} is gone")]
    Gone(String),
    /// The source has no cache to release.
    #[error("{0} has no cache to release")]
    NoCache(String),
    /// The response was invalid, or did not arrive in time.
    #[error("{source_name}: {why}")]
    Answer {
        /// The name of the source.
        source_name: String,
        /// The fault of the response.
        why: String,
    },
}
