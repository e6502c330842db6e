//! The table of settings. A new setting needs a row here. If it affects blocks of device memory, it also needs a rule in `Policy` of
//! `vramscope-engine`.

mod setting;

pub use setting::{SettingKind, SettingValue, TorchSetting};

use crate::release::TorchRelease;
use setting::settings;

const MIB: i64 = 1 << 20;

/// Default size of large segments in bytes (`kLargeBuffer`).
const LARGE_SEGMENT: i64 = 20 * MIB;

// Rows with a key of the snapshot's dictionary are in the order in which PyTorch writes them.
settings! {
    /// The allocator: `native` is PyTorch's. vramscope's pools write `cupy` if they follow CuPy's rules.
    backend: Word = TorchSetting::new().conf("backend").refuses(other_allocator);

    /// Size of segments for requests from 1 MiB to 10 MiB; must be more than 10 MiB (pytorch/pytorch#172056).
    large_segment_size: Bytes =
        TorchSetting::new().conf("large_segment_size_mb").since(TorchRelease::new(2, 11)).refuses(hardly_large);

    /// A request of at least `max_split_size` only takes a cached block smaller than the request plus this size.
    max_non_split_rounding: Bytes =
        TorchSetting::new().conf("max_non_split_rounding_mb").refuses(|s| too_small(s, s.max_non_split_rounding?));

    /// Blocks of at least this size are never split; -1 is no limit.
    max_split_size: Bytes =
        TorchSetting::new().recorded("max_split_size").conf("max_split_size_mb").refuses(|s| too_small(s, s.max_split_size?));

    /// Fraction of the limit on reserved bytes above which cached segments are released before new ones are taken; 0 is never. Has no
    /// effect without a limit.
    garbage_collection_threshold: Fraction = TorchSetting::new()
        .recorded("garbage_collection_threshold")
        .conf("garbage_collection_threshold")
        .refuses(nothing_to_collect);

    /// Maximum fraction of the device that the process may reserve (pytorch/pytorch#161035).
    per_process_memory_fraction: Fraction =
        TorchSetting::new().conf("per_process_memory_fraction").since(TorchRelease::new(2, 10));

    /// Segments grow by mapping memory into reserved addresses, so that free blocks from different growth steps can merge.
    expandable_segments: Truth = TorchSetting::new().recorded("expandable_segments").conf("expandable_segments");

    /// Number of threads that register pinned host memory; a power of two.
    pinned_num_register_threads: Number = TorchSetting::elsewhere()
        .recorded("pinned_num_register_threads")
        .conf("pinned_num_register_threads")
        .default(SettingValue::Int(1))
        .refuses(odd_number_of_threads);

    /// Releases the allocator's lock while `cudaMalloc` runs.
    release_lock_on_cudamalloc: Truth = TorchSetting::elsewhere()
        .recorded("release_lock_on_cudamalloc")
        .conf("release_lock_on_cudamalloc")
        .default(SettingValue::Bool(false))
        .recorded_since(TorchRelease::new(2, 6));

    /// Allocates pinned host memory with `cudaHostRegister`.
    pinned_use_cuda_host_register: Truth = TorchSetting::elsewhere()
        .recorded("pinned_use_cuda_host_register")
        .conf("pinned_use_cuda_host_register")
        .default(SettingValue::Bool(false));

    /// Frees inside a CUDA graph capture reuse stream markers.
    graph_capture_record_stream_reuse: Truth = TorchSetting::elsewhere()
        .recorded("graph_capture_record_stream_reuse")
        .conf("graph_capture_record_stream_reuse")
        .default(SettingValue::Bool(false))
        .recorded_since(TorchRelease::WITH_CONTEXTS);

    /// Largest request of pinned host memory that is rounded up, in bytes; -1 is no limit.
    max_round_threshold: Bytes = TorchSetting::elsewhere()
        .recorded("max_round_threshold")
        .conf("pinned_max_round_threshold_mb")
        .default(SettingValue::Int(-1))
        .recorded_since(TorchRelease::WITH_HOST_MEMORY);

    /// Largest block of pinned host memory that is cached, in bytes; -1 is no limit.
    max_cached_size: Bytes = TorchSetting::elsewhere()
        .recorded("max_cached_size")
        .conf("pinned_max_cached_size_mb")
        .default(SettingValue::Int(-1))
        .recorded_since(TorchRelease::WITH_HOST_MEMORY);

    /// Rounds requests up to one of this many steps between powers of two; a list has the steps by size in MiB.
    roundup_power2_divisions: Divisions =
        TorchSetting::new().recorded("roundup_power2_divisions").conf("roundup_power2_divisions");

    /// Manages pinned host memory in background threads.
    pinned_use_background_threads: Truth = TorchSetting::elsewhere().conf("pinned_use_background_threads");
}

/// Other keys that PyTorch accepts (2.11; the last five mid 2026). Nothing here depends on their values, so they are kept as written.
pub(super) const KEPT_AS_WRITTEN: [&str; 6] = [
    "pinned_reserve_segment_size_mb",
    "use_async_allocator",
    "throw_on_cudamalloc_oom",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "pinned_free_catch_all",
];

// Why PyTorch rejects a configuration text, with the substance of PyTorch's messages (`parseArgs` in `c10/core/AllocatorConfig.cpp`,
// 2.11).

fn other_allocator(s: &TorchSettings) -> Option<String> {
    (s.backend.as_ref()? != "native")
        .then(|| "is another allocator; only `native` can be replayed".to_owned())
}

fn hardly_large(s: &TorchSettings) -> Option<String> {
    (s.large_segment_size? <= 10 * MIB).then(|| "must be > 10".to_owned())
}

fn too_small(s: &TorchSettings, bytes: i64) -> Option<String> {
    let least = s.large_segment_size.unwrap_or(LARGE_SEGMENT);
    (bytes < least).then(|| format!("is too small, must be >= {}", least / MIB))
}

fn nothing_to_collect(s: &TorchSettings) -> Option<String> {
    let threshold = s.garbage_collection_threshold?;
    (threshold <= 0.0 || threshold >= 1.0).then(|| "is invalid, set it in (0.0, 1.0)".to_owned())
}

fn odd_number_of_threads(s: &TorchSettings) -> Option<String> {
    let threads = s.pinned_num_register_threads?;
    let is_power = u64::try_from(threads).is_ok_and(u64::is_power_of_two);
    (!is_power).then(|| "is not a power of 2".to_owned())
}
