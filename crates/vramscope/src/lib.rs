//! GPU memory profiler: see, explain and fix GPU memory.
//!
//! This crate gathers the parts a program depends on:
//!
//! - [`allocator`]: a caching memory pool with hooks and a recorded history
//! - [`engine`]: the rules of PyTorch's and CuPy's allocators, on no device at all
//! - [`trace`]: recordings as plain data, and the formats they come in
//! - [`analysis`]: questions asked of a recording
//! - [`profiler`]: memory of functions and blocks, monitoring, leaks, alerts
//! - [`report`]: answers as text, JSON and JUnit XML
//! - [`gpus`]: a table of GPUs and their memory; [`units`]: numbers as people read and write them
//! - `viewer`, a feature: the page of `vramscope view` and its local server
//! - `phantom`, a feature: GPUs that are not there, for programs to run on
//! - `fleet`, a feature: recordings of all ranks of a job as one
//! - `export` (feature `export`): recordings in other tools' formats; with the feature `arrow` as Arrow arrays in memory, too
//!
//! [`prelude`] names what most programs need. The attribute [`profile`] (feature `macros`) profiles every call of a function.
//! The feature `prometheus` adds `profiler::PrometheusEndpoint`, which Prometheus scrapes; `flamegraph` draws line profiles;
//! `zstd`, which is on by default, reads recordings that were compressed with Zstandard. A program that wants only the pool
//! depends on `vramscope-allocator`, which builds fewer than 40 crates.
//!
//! ```
//! use vramscope::prelude::*;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []},
//!     {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0, "frames": []}]]}"#;
//! let recording = formats::read(&snapshot[..], &mut |_| {})?;
//! let history = History::of(&recording.trace, 0);
//! let peaks = history.peaks();
//! assert_eq!(peaks.requested.bytes, 1000);
//! assert_eq!(peaks.allocated.bytes, 1024);
//! # Ok::<(), vramscope::trace::ReadError>(())
//! ```

pub use vramscope_allocator as allocator;
pub use vramscope_analysis as analysis;
pub use vramscope_basics::{gpus, units};
pub use vramscope_engine as engine;
#[cfg(feature = "export")]
pub use vramscope_export as export;
#[cfg(feature = "fleet")]
pub use vramscope_fleet as fleet;
#[cfg(feature = "phantom")]
pub use vramscope_phantom as phantom;
pub use vramscope_profiler as profiler;
pub use vramscope_report as report;
pub use vramscope_trace as trace;
#[cfg(feature = "viewer")]
pub use vramscope_viewer as viewer;

/// [`HistoryOptions`](history::HistoryOptions), PyTorch's arguments of `_record_memory_history`, and the types of its fields.
pub mod history {
    pub use vramscope_allocator::{Context, Enabled, HistoryOptions, Stacks};
}

/// Profiles every call of a function: gpumemprof's decorator.
///
/// ```
/// use vramscope::prelude::*;
///
/// #[profile]
/// fn train_step(pool: &MemoryPool, rows: u64) -> Result<Allocation, AllocError> {
///     let _activations = pool.malloc(rows * 4096)?;
///     pool.malloc(4)
/// }
///
/// # #[profile]
/// # unsafe fn first(bytes: *const u8) -> u8 { unsafe { *bytes } }
/// # assert_eq!(unsafe { first([4].as_ptr()) }, 4);
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
/// let profiler = PoolProfiler::new(&pool, "cuda:0")?;
/// set_global_profiler(profiler.clone());
///
/// let loss = train_step(&pool, 32)?;
/// let step = profiler.last_result().unwrap();
/// assert_eq!((step.function_name(), step.peak_above_start()), ("train_step", 32 * 4096 + 512));
/// # drop(loss);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// | argument | meaning |
/// |---|---|
/// | `name = "forward"` | the name under which calls are recorded, any expression that is a `str` (arguments may be named); else the function's |
/// | `with = self.profiler` | the profiler: an expression that is a [`GpuMemoryProfiler`](profiler::GpuMemoryProfiler), or refers to one, evaluated with each call |
/// | `crate = path` | this crate, where it has another name |
///
/// Without `with` it is the one of [`set_global_profiler`](profiler::set_global_profiler). Where there is none the function runs
/// unmeasured; gpumemprof then makes one of the current device, but no pool is the current one.
///
/// # What is measured
/// The body, and the end of what the function is given and does not return. An error that is returned, as a `Result` written out
/// or under any other name, is in the result: in its own words where it implements `Display`. Panics are in it, and
/// pass on.
///
/// An `async fn` is measured from when it is first polled until it is done, on whichever threads, as
/// [`profile_future`](profiler::GpuMemoryProfiler::profile_future) says; one that is dropped before has failed. A plain function
/// that returns a future is measured until it has returned it.
///
/// # Which functions
/// Functions and methods of any arguments, generic or not, that return anything, `impl Trait` too; `unsafe` and `extern` ones.
/// Attributes, documentation and visibility stay as they are. A `const fn`, and one with `#[track_caller]`, is refused with an
/// error that says why.
///
/// A method of `&mut self` that names a profiler in `self` has to clone it, for the body has all of `self`: the profiler lies
/// in an `Arc`, or is a [`PoolProfiler`](profiler::PoolProfiler), and `with = self.profiler.clone()`.
///
/// ```compile_fail
/// #[vramscope::profile]
/// const fn size() -> u64 { 4 }
/// ```
#[cfg(feature = "macros")]
pub use vramscope_macros::profile;

/// What most programs need, to be imported with `use vramscope::prelude::*`.
///
/// Every trait comes with the types that its methods take and return, so that it can be implemented with the prelude alone.
/// Words that a program is likely to use for something of its own are reached through their module, which is here too:
/// `allocator::Device`, `allocator::Limit`, `analysis::{By, Frames, Moment, Options, Summary}`, `history::{Context, Enabled}`,
/// `hooks::Function`, `hooks::function::{Ended, FunctionCall, Unit}`, `profiler::{Observation, Outcome, Quantity, Reading,
/// Severity, SourceError, SourceInfo, Ticker, Watch}`, `report::{Answers, Names}`.
pub mod prelude {
    pub use crate::{allocator, analysis, history, profiler, report, trace};
    pub use vramscope_allocator::hooks::{
        self, AllocPostprocess, AllocPreprocess, BoxedError, CupyMemoryProfileHook, DebugPrintHook, Free,
        FunctionHook, HookError, HookGuard, LineProfileHook, MallocPostprocess, MallocPreprocess, MemoryHook,
        register,
    };
    pub use vramscope_allocator::{
        AllocError, Allocation, DevicePool, HistoryOptions, HostDevice, MemoryPool, OutOfMemory, PeakScope,
        Policy, Statistics, TorchRelease, VirtualDevice,
    };
    pub use vramscope_analysis::{History, holders_at, leak_suspects};
    #[cfg(feature = "macros")]
    pub use vramscope_macros::profile;
    pub use vramscope_profiler::{
        DeviceSpec, FlightRecorder, FlightRecorderOptions, GpuMemoryProfiler, LeakSuspect, MemorySnapshot,
        MemorySource, MemoryTracker, OfPool, PoolProfiler, PoolSource, ProfileContext, ProfileResult,
        ProfileSummary, ProfilerError, ProfilerOptions, Threshold, TrackerOptions, global_profiler,
        set_global_profiler, take_global_profiler,
    };
    pub use vramscope_report::{ReportJson, TextOptions};
    pub use vramscope_trace::formats::{self, Recording};
    pub use vramscope_trace::{DeviceTrace, ReadError, TorchSettings, Trace};
}

#[cfg(doctest)]
mod book;
