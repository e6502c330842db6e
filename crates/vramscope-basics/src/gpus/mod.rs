//! GPUs by name, as data: how much memory they have, and what else programs ask a device for.

mod contexts;
mod gpu;
mod names;
mod table;

pub use contexts::{CONTEXT_MESSAGES, ContextMessage};
pub use gpu::Gpu;
pub use names::find;
pub use table::GPUS;

/// The newest major version of CUDA that [`Gpu::context_bytes`] knows contexts of.
pub const NEWEST_CUDA: u32 = 13;

/// All GPUs that are known, those with the least memory first.
pub fn by_size() -> Vec<&'static Gpu> {
    let mut gpus: Vec<&'static Gpu> = GPUS.iter().collect();
    gpus.sort_by_key(|gpu| (gpu.total_bytes, gpu.name));
    gpus
}
