//! JSON of memory beside PyTorch's allocator.

use serde::Serialize;
use vramscope_analysis::LibraryUse;

use super::stacks::{Builder, FrameJson};

/// What one library holds of one kind of memory, beside PyTorch's allocator.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Library"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportLibrary"))]
pub(super) struct LibraryJson {
    /// File name of the library or program that called.
    library: String,
    /// `device`, `async`, `physical`, `managed`, `array`, `pinned` or `registered`.
    memory: &'static str,
    /// Bytes at the event of the holders.
    bytes: u64,
    count: u64,
    peak_bytes: u64,
    end_bytes: u64,
    /// Stack of the largest allocation, innermost frame first.
    stack: Vec<FrameJson>,
}

impl Builder<'_> {
    pub(super) fn libraries(&self, uses: &[LibraryUse]) -> Vec<LibraryJson> {
        let library = |u: &LibraryUse| LibraryJson {
            library: self.names.trace.strings.get(u.library).to_owned(),
            memory: u.memory.name(),
            bytes: u.bytes,
            count: u.count,
            peak_bytes: u.peak,
            end_bytes: u.end,
            stack: self.stack(u.stack).frames,
        };
        uses.iter().map(library).collect()
    }
}
