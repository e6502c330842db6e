#![doc = include_str!("../README.md")]
//!
//! # Modules
//! - `attach`: a process that already runs, into which a debugger loads the library.
//! - `run`: the folder of a run, the environment of its processes, and the thread that reads their rings.
//! - `options`: what a recorder records.
//! - `output`: the file of a new recording, which replaces no earlier one.
//! - `recorded`: one recorded process, its log and the names of its files.
//! - `control`: requests of other processes to a running recorder.
//! - `requests`: requests to the thread that reads the rings.
//! - `leftovers`: removes rings in memory that no recorder reads any longer.
//! - `running`: recorded processes while they run, and the memory that they hold now.
//! - `mapped`, `ring`, `record`, `records`: a ring in memory, its format, and its records as plain data. `ring` and `record` are also part
//!   of the library in `library/`, which writes them.
//! - `notes`: categories, phases and modules of allocations, from the notes of the Python package.
//! - `symbols`: the names of native frames, from the files of the loaded objects.
//! - `accesses`: the accesses of live blocks, on phantom GPUs.
//! - `facts`: how a process is recorded, such as its command and the versions of its libraries.
//! - `host`: the host memory of a process, from the files of Linux.
//! - `log`: one process's records as its log. Follows which library holds which memory.

/// The atomics of the ring.
use std::sync::atomic as atomics;

mod accesses;
#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod control;
mod facts;
mod host;
#[cfg(target_os = "linux")]
mod leftovers;
mod log;
mod mapped;
mod notes;
mod options;
mod output;
#[allow(dead_code, reason = "fields that only the library writes")]
mod record;
mod recorded;
mod records;
mod requests;
#[allow(dead_code, reason = "what only the library does")]
mod ring;
mod run;
mod running;
mod symbols;

#[cfg(target_os = "linux")]
pub use attach::{AttachError, AttachedProcess};
#[cfg(target_os = "linux")]
pub use control::{ControlError, RunningRecorder};
pub use log::LogCopy;
pub use options::{CopyAt, RecordedStacks, RecorderOptions};
pub use output::{NewRecording, OutputError, free};
pub use recorded::RecordedProcess;
pub use run::{IMPORTS, RecordError, RecorderRun, RunningProcesses, names_log};
pub use running::{RunningCount, RunningDevice, RunningLibrary, RunningProcess, is_running};
