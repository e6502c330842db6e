//! Snapshots as pickles: what `torch.cuda.memory._dump_snapshot` writes, and libtorch's own pickler.

mod machine;
mod memo;
mod opcode;
mod shape;
mod spans;
mod writer;

pub(super) use machine::read;
pub use writer::write;
