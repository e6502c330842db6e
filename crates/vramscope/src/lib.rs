//! GPU memory profiler: see, explain and fix GPU memory.
//!
//! This crate re-exports the parts that a program needs:
//!
//! - [`allocator`]: a caching memory pool with hooks and a recorded history
//! - [`engine`]: the rules of PyTorch's and CuPy's allocators, without a device
//! - [`packing`]: addresses for allocations with known lifetimes, in few bytes
//! - [`trace`]: recordings as plain data, and their file formats
//! - [`analysis`]: analyses of a recording
//! - [`profiler`]: memory of functions and code blocks, monitoring, leaks, alerts
//! - [`report`]: reports as text, JSON and JUnit XML
//! - [`session`]: an open recording, and every question of the command as a request
//! - [`gpus`]: a table of GPUs and their memory; [`units`]: formatting and parsing of sizes
//! - `viewer` (feature `viewer`): the page of `vramscope view` and its local server
//! - `phantom` (feature `phantom`): phantom GPUs, on which programs run without hardware
//! - `recorder` (feature `recorder`): records any program while it runs
//! - `fit` (feature `fit`): whether a program fits, and the changes with which it does
//! - `mcp` (feature `mcp`): a server for assistants
//! - `fleet` (feature `fleet`): the recordings of all ranks of a job as one
//! - `export` (feature `export`): recordings in other tools' formats; with the feature `arrow` also as Arrow arrays in memory
//!
//! [`prelude`] exports what most programs need. The attribute [`profile`] (feature `macros`) profiles every call of a function. The feature
//! `prometheus` adds `profiler::PrometheusEndpoint`, which Prometheus scrapes. `flamegraph` draws line profiles. `zstd`, on by default,
//! reads recordings compressed with Zstandard. For the pool alone, depend on `vramscope-allocator`, which builds 42 crates.
//!
//! ```
//! use vramscope::prelude::*;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []},
//!     {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0, "frames": []}]]}"#;
//! let recording = formats::read(&snapshot[..])?;
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
#[cfg(all(feature = "fit", unix))]
pub use vramscope_fit as fit;
#[cfg(feature = "fleet")]
pub use vramscope_fleet as fleet;
#[cfg(feature = "mcp")]
pub use vramscope_mcp as mcp;
pub use vramscope_packing as packing;
#[cfg(feature = "phantom")]
pub use vramscope_phantom as phantom;
pub use vramscope_profiler as profiler;
#[cfg(feature = "recorder")]
pub use vramscope_recorder as recorder;
pub use vramscope_report as report;
pub use vramscope_session as session;
pub use vramscope_texts as texts;
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
/// | `name = "forward"` | the name of the recorded calls, any expression of type `str` (it may use arguments); by default the function's name |
/// | `with = self.profiler` | the profiler: an expression that is a [`GpuMemoryProfiler`](profiler::GpuMemoryProfiler) or refers to one, evaluated at each call |
/// | `crate = path` | this crate, if it has another name |
///
/// Without `with`, the profiler is that of [`set_global_profiler`](profiler::set_global_profiler). If none is set, the function runs
/// without being measured. gpumemprof then creates one for the current device, but there is no current pool.
///
/// # What is measured
/// The body, and dropping the arguments that the function does not return. The result contains a returned error, also if the `Result` type
/// has another name: with its message if it implements `Display`. The result contains panics too, and they are passed on.
///
/// An `async fn` is measured from its first poll until it is ready, on any threads, as in
/// [`profile_future`](profiler::GpuMemoryProfiler::profile_future). A future that is dropped before has failed. A plain function that
/// returns a future is measured until it returns the future.
///
/// # Supported functions
/// Functions and methods with any arguments, generic or not, with any return type including `impl Trait`; also `unsafe` and `extern`
/// functions. Attributes, documentation and visibility do not change. A `const fn` or a function with `#[track_caller]` is rejected with an
/// error that gives the reason.
///
/// A `&mut self` method that uses a profiler in `self` must clone it, because the body borrows all of `self`. Store the profiler in an
/// `Arc`, or use a [`PoolProfiler`](profiler::PoolProfiler), and write `with = self.profiler.clone()`.
///
/// ```compile_fail
/// #[vramscope::profile]
/// const fn size() -> u64 { 4 }
/// ```
#[cfg(feature = "macros")]
pub use vramscope_macros::profile;

/// The items that most programs need, for `use vramscope::prelude::*`.
///
/// Every trait comes with the types that its methods take and return, so the prelude is enough to implement it. Names that a program is
/// likely to use itself are reached through their modules, which are also exported: `allocator::Device`, `allocator::Limit`,
/// `analysis::{By, Frames, Moment, Options, Summary}`, `history::{Context, Enabled}`, `hooks::Function`, `hooks::function::{Ended,
/// FunctionCall, Unit}`, `profiler::{AlertQuantity, CallOutcome, Observation, Reading, Severity, SourceError,
/// SourceInfo, Ticker, Watch}`, `report::{Answers, Names}`.
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
        CallLeakSuspect, DeviceSpec, FlightRecorder, FlightRecorderOptions, GpuMemoryProfiler,
        MemorySnapshot, MemorySource, MemoryTracker, OfPool, PoolProfiler, PoolSource, ProfileContext,
        ProfileResult, ProfileSummary, ProfilerError, ProfilerOptions, Threshold, TrackerOptions,
        global_profiler, set_global_profiler, take_global_profiler,
    };
    pub use vramscope_report::{ReportJson, TextOptions};
    pub use vramscope_trace::formats::{self, Recording};
    pub use vramscope_trace::{DeviceTrace, ReadError, TorchSettings, Trace};
}

#[cfg(doctest)]
mod book;
