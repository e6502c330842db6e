//! Source lines and their memory.

use serde::{Deserialize, Serialize};

use crate::columns::{F64s, U32s};
use crate::protocol::search::SearchQuery;

/// Requests the memory of each line of a file, or of each file.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SourceLinesQuery {
    /// A frame of the file; null: all files.
    pub(crate) frame: Option<usize>,
    pub(crate) moment: usize,
    /// The search whose matches alone count; null: all allocations.
    pub(crate) only: Option<SearchQuery>,
}

/// The memory of the lines of a file, by line; or of files, most live bytes first. An allocation counts once for each line and file in its
/// stack.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceLines {
    /// A frame of the line or file.
    pub(crate) frame: U32s,
    /// The number of the line; 0 for a file.
    pub(crate) line: U32s,
    /// Bytes live at the moment.
    pub(crate) live: F64s,
    /// The part of these bytes whose allocation the line names, as in tables.
    pub(crate) own: F64s,
    /// Bytes and number of all allocations of the recording.
    pub(crate) allocated: F64s,
    pub(crate) count: U32s,
    /// The findings about lines of the file.
    pub(crate) findings: Vec<LineFinding>,
}

/// A finding of the report about a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LineFinding {
    pub(crate) line: u32,
    pub(crate) kind: LineFindingKind,
    /// The position of the leak or of the idle memory in the report, or the rank of the holder, from 1.
    pub(crate) number: usize,
    /// Bytes of the finding: retained, idle, or live at the moment.
    pub(crate) bytes: u64,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum LineFindingKind {
    Leak,
    Idle,
    Holder,
}

/// Requests the text of a frame's source file.
#[cfg(feature = "server")]
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceQuery {
    pub(crate) frame: usize,
    /// The chosen file, if several match equally well: a position in `Source.files`.
    pub(crate) choice: Option<usize>,
}

/// The source file of a frame, from the folders of `--source`.
#[cfg(feature = "server")]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Source {
    /// The folders as the user named them; empty without `--source`.
    pub(crate) folders: Vec<String>,
    /// The files that share most of the end of the recorded path, equally well.
    pub(crate) files: Vec<SourceFile>,
    /// The position of the read file in `files`; null if none or several match.
    pub(crate) taken: Option<usize>,
    /// Its text; null if it was not read.
    pub(crate) text: Option<String>,
    /// Why it was not read.
    pub(crate) why: Option<String>,
}

/// A file that matches a recorded path.
#[cfg(feature = "server")]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    /// The number of equal components at the end of both paths, and that of the recorded path.
    pub(crate) equal: usize,
    pub(crate) recorded: usize,
}
