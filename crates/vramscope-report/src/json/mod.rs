//! The parts of all JSON: stacks of bounded size, and the writer. Keys are stable, sizes are in bytes, times in microseconds since the Unix
//! epoch.

pub(crate) mod stacks;
mod writer;

pub use writer::{write_json, write_json_line};
