//! GPU memory of functions and blocks, monitored, with leaks and alerts: gpumemprof's system, over any source of
//! numbers.
//!
//! ```
//! use vramscope_allocator::{MemoryPool, Policy};
//! use vramscope_profiler::GpuMemoryProfiler;
//!
//! let pool = MemoryPool::on_host(Policy::cupy(), 16 << 30)?;
//! let profiler = GpuMemoryProfiler::on_pool(&pool, "cuda:0")?;
//! let failed = profiler.try_profile_function("train", || pool.malloc(17 << 30)).unwrap_err();
//! assert_eq!(profiler.last_result().unwrap().error(), Some(failed.to_string().as_str()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`MemorySource`]: where numbers come from, and what each source knows
//! - [`GpuMemoryProfiler`]: functions and blocks, monitoring, the summary
//! - [`Monitor`]: looks at a source at intervals
//! - [`LeakDetector`]: what piles up across calls
//! - [`LiveStacks`]: who holds what is live
//! - `PrometheusEndpoint` (feature `prometheus`): sources as metrics

mod holders;
mod leaks;
mod monitor;
mod profiler;
#[cfg(feature = "prometheus")]
mod prometheus;
mod snapshot;
mod source;
mod sync;

pub use holders::{LiveHolder, LiveStacks};
pub use leaks::{LeakCall, LeakDetector, LeakSuspect};
pub use monitor::{Monitor, MonitorError, Sample};
pub use profiler::{
    FunctionSummary, GpuMemoryProfiler, Outcome, ProfileContext, ProfileResult, ProfileSummary,
    ProfilerError, ProfilerOptions, ThreadUse,
};
#[cfg(feature = "prometheus")]
pub use prometheus::{ListenAddress, PrometheusEndpoint, PrometheusError};
pub use snapshot::{MemorySnapshot, Operation};
pub use source::{
    AllocationObserver, BlockEvent, Counts, DeviceSpec, HostSource, MemorySource, Observation, PoolSource,
    ProcessMemory, Reading, SelectError, SourceError, SourceInfo, Tick, Ticker, Watch,
};
#[cfg(feature = "cuda")]
pub use source::{CudaSource, GpuProcess, NvmlDevice, NvmlSource, nvml_devices};
