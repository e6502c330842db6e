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

/// Whether a GPU shares the host's memory, by the name that NVML or the CUDA driver reports: `NVIDIA GB10`, `Orin (nvgpu)`.
///
/// A word of the name is the model of an integrated GPU of the table. No other GPU of the table has such a word.
pub fn shares_host_memory(full_name: &str) -> bool {
    let words = |name: &'static str| name.split_ascii_whitespace().filter(|&word| word != "NVIDIA");
    let is_model = |word: &str| {
        GPUS.iter().filter(|gpu| gpu.integrated).any(|gpu| words(gpu.full).any(|model| model == word))
    };
    full_name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_model)
}

/// Returns the GPUs that have room for these bytes besides `overhead` bytes, in ascending order of memory, each with its overhead. If
/// `overhead` is 0, it is the largest size of a CUDA context. Integrated GPUs are left out: they share the host's memory, so their free
/// memory is unknown.
pub fn with_room_for(bytes: u64, overhead: u64) -> impl Iterator<Item = (&'static Gpu, u64)> {
    by_size().into_iter().filter(|gpu| !gpu.integrated).filter_map(move |gpu| {
        let overhead = if overhead == 0 { *gpu.context_bytes(NEWEST_CUDA).end() } else { overhead };
        (gpu.total_bytes >= bytes.saturating_add(overhead)).then_some((gpu, overhead))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrated_gpus_share_the_hosts_memory() {
        for gpu in GPUS {
            assert_eq!(shares_host_memory(gpu.full), gpu.integrated, "{}", gpu.full);
        }
        for (name, expected) in [
            ("Orin (nvgpu)", true),
            ("NVIDIA Jetson AGX Thor", true),
            ("NVIDIA GB10", true),
            ("NVIDIA GB100", false),
            ("NVIDIA GH200 480GB", false),
            ("NVIDIA GB200", false),
            ("NVIDIA", false),
            ("", false),
        ] {
            assert_eq!(shares_host_memory(name), expected, "{name}");
        }
    }
}
