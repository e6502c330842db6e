//! GPU memory profiler: see, explain and fix GPU memory.
//!
//! This crate gathers the parts a program depends on:
//!
//! - [`allocator`]: a caching memory pool with hooks and a recorded history
//! - [`trace`]: recordings as plain data, and the formats they come in
//! - [`analysis`]: questions asked of a recording
//! - [`profiler`]: memory of functions and blocks, monitoring, leaks, alerts
//! - [`report`]: answers as text, JSON and JUnit XML
//! - `viewer`, a feature: the page of `vramscope view` and its local server
//! - `export` (feature `export`): recordings in other tools' formats
//!
//! The feature `prometheus` adds `profiler::PrometheusEndpoint`, which Prometheus scrapes.
//!
//! ```
//! use vramscope::prelude::*;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []},
//!     {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0, "frames": []}]]}"#;
//! let recording = formats::read(&snapshot[..], &mut |_| {})?;
//! let history = History::of(&recording.trace, &recording.trace.devices[0]);
//! let peaks = history.peaks();
//! assert_eq!(peaks.requested.bytes, 1000);
//! assert_eq!(peaks.allocated.bytes, 1024);
//! # Ok::<(), vramscope::trace::ReadError>(())
//! ```

pub use vramscope_allocator as allocator;
pub use vramscope_analysis as analysis;
#[cfg(feature = "export")]
pub use vramscope_export as export;
pub use vramscope_profiler as profiler;
pub use vramscope_report as report;
pub use vramscope_trace as trace;
#[cfg(feature = "viewer")]
pub use vramscope_viewer as viewer;

/// What most programs need.
pub mod prelude {
    pub use vramscope_allocator::hooks::{
        CupyMemoryProfileHook, DebugPrintHook, Function, LineProfileHook, MemoryHook, register,
    };
    pub use vramscope_allocator::{
        AllocError, Allocation, Device, DevicePool, HistoryOptions, HostDevice, Limit, MemoryPool, Policy,
        TorchRelease, VirtualDevice,
    };
    pub use vramscope_analysis::{By, Frames, History, Moment, Options, Summary, holders_at, leak_suspects};
    pub use vramscope_profiler::{
        DeviceSpec, FlightRecorder, GpuMemoryProfiler, LeakSuspect, MemorySnapshot, MemorySource,
        MemoryTracker, PoolSource, ProfileResult, ProfileSummary, ProfilerOptions, Threshold, TrackerOptions,
    };
    pub use vramscope_report::{Answers, ReportJson, TextOptions};
    pub use vramscope_trace::formats::{self, Recording};
    pub use vramscope_trace::{AllocatorSettings, DeviceTrace, ReadError, Trace};
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
