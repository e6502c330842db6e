#![doc = include_str!("../README.md")]
//!
//! # Modules
//! - `attach`: a process that already runs, into which a debugger loads the library.
//! - `run`: the folder of a run, the environment of its processes, and the thread that reads their rings.
//! - `mapped`, `ring`, `record`, `records`: a ring in memory, its format, and its records as plain data. `ring` and `record` are also part
//!   of the library in `library/`, which writes them.
//! - `symbols`: the names of native frames, from the files of the loaded objects.
//! - `log`: one process's records as its log. Follows which library holds which memory.

#[cfg(target_os = "linux")]
mod attach;
mod log;
mod mapped;
#[allow(dead_code, reason = "fields that only the library writes")]
mod record;
mod records;
#[allow(dead_code, reason = "what only the library does")]
mod ring;
mod run;
mod symbols;

#[cfg(target_os = "linux")]
pub use attach::{AttachError, AttachedProcess};
pub use log::{CopyAt, LogCopy};
pub use run::{RecordError, RecordedProcess, RecordedStacks, RecorderOptions, RecorderRun, is_running};
