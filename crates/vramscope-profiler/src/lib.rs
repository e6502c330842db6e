//! GPU memory of functions and code blocks, with monitoring, leak detection and alerts: gpumemprof's profiler, over any source of numbers.
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
//! - [`MemorySource`]: a source of numbers
//! - [`GpuMemoryProfiler`]: functions and code blocks, monitoring, the summary; [`PoolProfiler`]: the same for a pool, with all numbers
//!   known
//! - [`Monitor`]: samples a source at intervals
//! - [`MemoryTracker`]: an event log, alerts, a watchdog
//! - [`FlightRecorder`]: diagnostic bundles of runs that are out of memory
//! - [`HiddenMemory`]: device memory that no pool reserved, classified
//! - [`SavedResults`]: results as JSON, in gpumemprof's format
//! - [`LeakDetector`]: blocks that accumulate across calls
//! - [`LiveStacks`]: the stacks of live blocks
//! - `live`, on Unix: serves a source to other processes on a local socket
//! - `PrometheusEndpoint` (feature `prometheus`): sources as metrics

mod flight_recorder;
mod hidden;
mod holders;
mod json;
mod leaks;
#[cfg(unix)]
pub mod live;
mod monitor;
mod profiler;
#[cfg(feature = "prometheus")]
mod prometheus;
mod snapshot;
mod source;
mod tracker;

pub use flight_recorder::{
    BundleContext, FlightRecorder, FlightRecorderError, FlightRecorderOptions, out_of_memory_words,
};
pub use hidden::{HiddenFinding, HiddenKind, HiddenMemory, HiddenOptions, HiddenSeverity};
pub use holders::LiveStacks;
pub use json::{JsonError, SavedResults, from_json};
pub use leaks::{LeakCall, LeakDetector, LeakSuspect};
pub use monitor::{Monitor, MonitorError, Sample};
#[doc(hidden)]
pub use profiler::attribute;
pub use profiler::{
    FunctionSummary, GpuMemoryProfiler, OfPool, Outcome, PoolProfiler, ProfileContext, ProfileResult,
    ProfileSummary, ProfilerError, ProfilerOptions, ThreadUse, global_profiler, set_global_profiler,
    take_global_profiler,
};
#[cfg(feature = "prometheus")]
pub use prometheus::{ListenAddress, PrometheusEndpoint, PrometheusError};
pub use snapshot::{MemorySnapshot, Operation};
#[cfg(feature = "cuda")]
pub use source::CudaSource;
pub use source::{
    AllocationObserver, BlockEvent, CombinedSource, Counts, DeviceSpec, HostSource, LiveHolder, MemorySource,
    Observation, PoolSource, ProcessMemory, Reading, SelectError, SourceError, SourceInfo, Tick, Ticker,
    Watch,
};
#[cfg(feature = "nvml")]
pub use source::{GpuProcess, NvmlDevice, NvmlSource, nvml_devices};
pub use tracker::{
    Alert, AlertCallback, Event, EventKind, LogFile, LogFormat, MemoryTracker, Phase, PhaseScope,
    PhasedSample, Quantity, Severity, Threshold, TimelinePoint, TrackerError, TrackerOptions,
    TrackerStatistics, Watchdog,
};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
