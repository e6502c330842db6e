//! The history of a device's memory as plain data.
//!
//! A [`Trace`] is one recording. For each device it has [`Events`] in columns and the end state ([`Segment`]s and [`Block`]s). All
//! devices share interned strings, frames and stacks, the allocator's settings and the annotated regions. A trace has only recorded
//! facts; `vramscope-analysis` draws conclusions from them.
//!
//! [`samples`] has logs of programs that were only sampled periodically.
//!
//! [`formats`] reads the snapshots that PyTorch writes, as pickle or JSON, and writes pickles. [`formats::log`] is a recording that
//! grows while the program runs.
//!
//! ```
//! use vramscope_trace::formats;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 24, "stream": 0, "time_us": 7,
//!      "frames": [{"name": "main", "filename": "train.py", "line": 3}]}]]}"#;
//! let recording = formats::read(&snapshot[..])?;
//! let events = &recording.trace.devices[0].events;
//! assert_eq!(events.len(), 1);
//! assert_eq!(events.get(0).size, 24);
//! # Ok::<(), vramscope_trace::ReadError>(())
//! ```
//!
//! Sizes and addresses are bytes; times are microseconds since the Unix epoch.
//!
//! # Modules
//! - `trace`: [`Trace`] and [`DeviceTrace`]. `equality` compares two traces by content, independent of their ids.
//! - `events`: columns of 33 bytes for each event. Values that runs of events share (stream, pool, texts) are one interned [`Tags`].
//! - `stacks`, `strings`, `ids`: each frame, stack and string is stored once. Only the table of an id can make the id.
//! - `end_state`: segments and blocks at the time of the snapshot.
//! - `settings`: PyTorch's settings. Each has a row in `table.rs`, from which snapshots, logs, `PYTORCH_CUDA_ALLOC_CONF`, the page and
//!   `docs/settings.md` follow. `release` has PyTorch's releases.
//! - `accesses`: accesses of allocations by kernels, libraries and copies, on a phantom GPU.
//! - `devices`: kinds of devices, and allocators other than PyTorch's.
//! - `process`: memory of the process beside PyTorch's allocator, where the recorder saw it.
//! - `operators`: the operators, kernels and annotations of a trace of `torch.profiler`, which is not a recording.
//! - `purpose`: the category of an allocation, as the Python package writes it into `user_metadata`; `tensor_note`: the tensor in it.
//! - `notices`: contents of a file that are not in the trace; each is reported once.
//! - `samples`: logs of samples in bounded memory. If there are too many samples, two neighbors become one, with the lowest and the
//!   highest value of both.
//! - `formats`: one file or folder for each format. [`formats::Reader`] reads any of them. `formats/mod.rs` lists the [`formats::FormatReader`]s, which recognize a file by its
//!   first bytes. One thread reads and decompresses a file on disk (`ahead`), another decodes it; a pipe is read on demand. Readers pass
//!   each container to `assembler` as it closes, and the assembler writes events into columns at once. No tree is built.
//! - `annotations`: regions that the program named while it ran.
//! - `error`: errors of reading a file.
//! - `named`: enums whose values have names in files.
//!
//! Nothing in a file is trusted: lengths, memo indexes, nesting, the number of pending values, uses of a record. The limits are constants
//! with their reasons at the top of each file. `assembler/budget.rs` compares the memory of all records with the bytes read after each
//! chunk, so no kind of record needs its own limit.

mod accesses;
mod annotations;
mod devices;
mod end_state;
mod equality;
mod error;
mod events;
pub mod formats;
mod ids;
mod named;
mod notices;
mod operators;
mod process;
mod purpose;
mod release;
pub mod samples;
mod settings;
mod stacks;
mod strings;
mod tensor_note;
mod trace;

pub use accesses::{Accesses, AllocationAccesses};
pub use annotations::{Annotation, Stage};
pub use devices::{DeviceKind, OtherAllocator};
pub use end_state::{Block, BlockState, Segment, SegmentKind};
pub use error::{ReadError, TableFull};
pub use events::{Action, Event, Events, NO_COMPILE_CONTEXT, PoolId, Tags, TagsTable};
pub use ids::{FrameId, LaunchId, StackId, StringId, StringListId, TagsId};
pub use notices::{Damage, Notices, RecordKind, ValueKind};
pub use operators::{LaneKind, Launch, MemoryChange, OperatorLane, OperatorSpan, OperatorTrace, SpanAt};
pub use process::{DriverEvent, DriverMemory, HostReading, LogCut, LogFact, MemoryReading, ProcessEvents};
pub use purpose::{Category, Phase, Purpose};
pub use release::TorchRelease;
pub use settings::{
    AllocatorSettings, ConfError, PowerOfTwoDivisions, SettingKind, SettingValue, TorchSetting,
    TorchSettings, conf_with,
};
pub use stacks::{Frame, FrameTable, FxNode, StackTable};
pub use strings::{StringListTable, StringTable};
pub use tensor_note::TensorNote;
pub use trace::{DeviceTrace, Trace};

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
