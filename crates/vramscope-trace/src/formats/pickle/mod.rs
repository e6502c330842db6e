//! Snapshots as pickles, written by `torch.cuda.memory._dump_snapshot` or by libtorch's pickler.
//!
//! The machine runs the opcodes that build data, and no others. Four properties make it fast and safe:
//!
//! - No objects: a value is 16 bytes, either a plain value or the number of a record in the assembler. `memo` stores it in 8 bytes.
//! - Containers close once: see `machine`.
//! - Stacks are recognized by their bytes: see `spans`.
//! - Entries have the same shape: see `shape`.

mod machine;
mod memo;
mod opcode;
mod shape;
mod spans;
mod writer;

pub use writer::write;
#[cfg(not(target_family = "wasm"))]
pub use writer::write_file;

use super::{Contents, FormatReader, Window};
use crate::error::ReadError;

/// The reader of pickles.
#[derive(Debug)]
pub(super) struct Pickle;

impl FormatReader for Pickle {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(&[0x80])
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        machine::read(stream)
    }
}
