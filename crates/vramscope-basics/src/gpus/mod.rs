//! GPUs by name, as data: how much memory they have, and what else programs ask a device for.

mod gpu;
mod names;
mod table;

pub use gpu::Gpu;
pub use names::find;
pub use table::GPUS;
