//! Snapshots as pickles, written by `torch.cuda.memory._dump_snapshot` or by libtorch's pickler.

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
