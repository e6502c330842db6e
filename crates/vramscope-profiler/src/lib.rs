//! Measures the GPU memory of functions and code blocks, with monitoring, leak detection and alerts. Equivalent to gpumemprof's profiler,
//! over any source of numbers.
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
//! - [`GpuMemoryProfiler`]: functions and code blocks, monitoring, the summary; [`PoolProfiler`]: the same for a pool, with no missing
//!   numbers
//! - [`Monitor`]: samples a source at intervals
//! - [`MemoryTracker`]: an event log, alerts, a watchdog
//! - [`FlightRecorder`]: diagnostic bundles of runs that ran out of memory
//! - [`HiddenMemory`]: device memory that no pool reserved, classified
//! - [`SavedResults`]: results as JSON, in gpumemprof's format
//! - [`LeakDetector`]: blocks that accumulate across calls; [`FunctionLeaks`]: the same from readings alone
//! - [`LiveStacks`]: the stacks of live blocks
//! - `live`, on Unix: serves a source to other processes on a local socket
//! - `PrometheusEndpoint` (feature `prometheus`): sources as metrics
//!
//! # Modules
//! ```text
//!   pool     driver     NVML     /proc
//!       \       |         |       /
//!        source/: MemorySource
//!      |              |                 |
//!      | before,      | at intervals    | every allocation
//!      | after, peak  v                 v
//!      |          monitor.rs        leaks/, holders.rs
//!      v              |                 |
//!   profiler/  <------+-----------------+      calls, results, the summary
//!                     |
//!                     v
//!                 tracker/, flight_recorder/
//! ```
//! - `source`: a source provides `read` (current values), a `Watch` (peaks since it began), a `Ticker` (both, at intervals) and `observe`
//!   (every allocation). It returns `None` for unknown values, and callers never estimate them. `pool` provides all values exactly; `cuda`,
//!   `nvml` and `process` provide current values. `combined` merges two sources. `device` parses PyTorch's names of devices.
//!   `device_memory` has the memory of a device with the source of its numbers.
//! - `snapshot`: a reading with gpumemprof's names. Only `json` has the JSON keys of results.
//! - `profiler`: `scope` is a call from start to end, including errors and panics; `future` is a call that runs only while it is polled.
//!   `global` and `attribute` serve `#[profile]`. `of_pool` returns the exact numbers of a pool. `source_reader` computes peaks from
//!   readings if the source has none, and marks them as not exact. `threads` counts for the open calls of a thread, without a lock.
//!   `peak_stacks` captures the stack of an allocation that reaches the peak of an open call. `summary` adds up results, so that old
//!   results can be dropped.
//! - `monitor`: the thread and clock of everything that runs at intervals. Ticks keep their schedule, and skipped ticks are counted.
//! - `leaks`: the rule for leaks in recordings, with calls instead of windows. Blocks are counted by return addresses and merged by line
//!   when suspects are requested. `course` keeps the counts after each call, coarser for older calls. `by_function` has the bytes of readings
//!   instead of blocks, also for Python's profiler.
//! - `tracker`: `sample_judge` makes events from samples, `thresholds` raises one alert for each crossing, `events` writes rows of the
//!   log, `log` writes the file. `phases` has the phases of the program, `timeline` groups samples by interval.
//! - `flight_recorder`: bundles after an out of memory. `contents` is complete before anything is written; `writer` writes it, also for
//!   Python's profiler; `folder` lists bundles and selects the bundles to remove; `capture` writes bundles for errors outside the pool.
//! - `live`: a `LiveServer` has one thread, which polls the listener, its clients and a pair of sockets that ends it. Nothing blocks: the
//!   server sends as much as the client accepts, reads the next request only after that, and drops a client that does not read for 5 s.
//!   `socket` restricts a socket to its user before it listens. `protocol` has the lines of `docs/live.md` and their bounds. `names` looks
//!   up stacks on a separate thread.
//! - `prometheus`: `metrics` has the table of names and writes OpenMetrics. `server` serves one path on its own thread, over
//!   `vramscope-http`. Each source is read on its own thread, so a source that hangs does not delay the others.
//! - `hidden`: device memory in use that the pool did not reserve, classified by its change over time.
//! - `holders`: the stacks of live blocks.

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

#[doc(hidden)]
pub use flight_recorder::{Bundle, BundleEvent, BundleFolder, BundleMetadata, ProgramFacts, WrittenBundle};
pub use flight_recorder::{
    BundleContext, FlightRecorder, FlightRecorderError, FlightRecorderOptions, out_of_memory_words,
};
pub use hidden::{HiddenFinding, HiddenKind, HiddenMemory, HiddenOptions, HiddenSeverity};
pub use holders::LiveStacks;
pub use json::{JsonError, SavedResults, from_json};
pub use leaks::{CallLeakSuspect, FunctionLeakSuspect, FunctionLeaks, LeakCall, LeakDetector};
pub use monitor::{Monitor, MonitorError, Sample};
#[doc(hidden)]
pub use profiler::attribute;
pub use profiler::{
    CallOutcome, CallSummary, CallTotals, EndedCall, GpuMemoryProfiler, OfPool, PoolProfiler, ProfileContext,
    ProfileResult, ProfileSummary, ProfilerError, ProfilerOptions, ThreadUse, global_profiler,
    set_global_profiler, take_global_profiler,
};
#[cfg(feature = "prometheus")]
pub use prometheus::{ListenAddress, PrometheusEndpoint, PrometheusError};
pub use snapshot::{MemorySnapshot, Operation};
#[cfg(feature = "cuda")]
pub use source::CudaSource;
pub use source::{
    AllocationObserver, BlockEvent, CombinedSource, Counts, DeviceMemory, DeviceMemorySource, DeviceSpec,
    HostSource, Layers, LiveHolder, LiveLibrary, MemorySource, Observation, PoolSource, ProcessMemory,
    Reading, SelectError, SourceError, SourceInfo, Tick, Ticker, Watch,
};
#[cfg(feature = "nvml")]
pub use source::{GpuProcess, NvmlDevice, NvmlSource, nvml_devices, starts_on_mig_instance};
pub use tracker::{
    Alert, AlertCallback, AlertChange, AlertLimits, AlertQuantity, AlertState, EventKind, GrowthRate,
    LogFile, LogFormat, MemoryTracker, PhaseGuard, PhaseScope, PhasedSample, Severity, Threshold,
    TimelinePoint, TrackerError, TrackerEvent, TrackerOptions, TrackerStatistics, Watchdog,
};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
