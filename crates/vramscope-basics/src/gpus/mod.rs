//! Data about GPUs by name: memory sizes, context sizes and hardware limits.

mod contexts;
mod gpu;
mod names;
mod table;

pub use contexts::{CONTEXT_MESSAGES, ContextMessage};
pub use gpu::Gpu;
pub use names::find;
pub use table::GPUS;

/// The newest major version of CUDA for which [`Gpu::context_bytes`] has measurements.
pub const NEWEST_CUDA: u32 = 13;

/// Returns all GPUs of the table, in ascending order of memory.
pub fn by_size() -> Vec<&'static Gpu> {
    let mut gpus: Vec<&'static Gpu> = GPUS.iter().collect();
    gpus.sort_by_key(|gpu| (gpu.total_bytes, gpu.name));
    gpus
}
