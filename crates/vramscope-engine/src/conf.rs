//! What PyTorch itself would say to a configuration text.

use vramscope_trace::{Conf, ConfError};

use crate::policy::TorchRelease;

const MIB: u64 = 1 << 20;

/// Keys that PyTorch knows and that decide nothing about blocks of device memory (2.11; the last six mid 2026).
const OTHER_KEYS: [&str; 14] = [
    "backend",
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "graph_capture_record_stream_reuse",
    "use_async_allocator",
    "throw_on_cudamalloc_oom",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
    "pinned_free_catch_all",
];

/// Parses a configuration text as strictly as PyTorch does when it starts with it (`parseArgs` of
/// `c10/core/AllocatorConfig.cpp`, 2.11). [`Conf::parse`] is lenient: what is in a recording was accepted once.
///
/// # Errors
/// The first item that PyTorch would refuse, in substance with its own complaint; or that asks for another
/// allocator, whose rules are not known here.
pub fn parse_conf(text: &str, release: TorchRelease) -> Result<Conf, ConfError> {
    let conf = Conf::parse(text)?;
    let wrong = |key: &str, value: &dyn std::fmt::Display, why: String| {
        Err(ConfError { item: format!("{key}:{value}"), why })
    };
    for (key, value) in &conf.other {
        if !OTHER_KEYS.contains(&key.as_str()) {
            return wrong(key, value, format!("has an unrecognized key; PyTorch's are {}", known_keys()));
        }
        match key.as_str() {
            "backend" if value != "native" => {
                return wrong(key, value, "is another allocator; only `native` can be replayed".to_owned());
            }
            "pinned_num_register_threads" if !value.parse::<u64>().is_ok_and(|n| n.is_power_of_two()) => {
                return wrong(key, value, "is not a power of 2".to_owned());
            }
            "release_lock_on_cudamalloc"
            | "pinned_use_cuda_host_register"
            | "pinned_use_background_threads"
                if !["True", "False"].contains(&value.as_str()) =>
            {
                return wrong(key, value, "is neither True nor False".to_owned());
            }
            _ => {}
        }
    }
    let unknown =
        |since: &str| format!("has an unrecognized key: PyTorch {release} does not know it, {since} does");
    // #161035
    if let Some(x) = conf.per_process_memory_fraction.filter(|_| release < TorchRelease::new(2, 10)) {
        return wrong("per_process_memory_fraction", &x, unknown("2.10"));
    }
    // #172056
    if let Some(bytes) = conf.large_segment_size {
        if release < TorchRelease::new(2, 11) {
            return wrong("large_segment_size_mb", &(bytes / MIB), unknown("2.11"));
        }
        if bytes <= 10 * MIB {
            return wrong("large_segment_size_mb", &(bytes / MIB), "must be > 10".to_owned());
        }
    }
    let large = conf.large_segment_size.unwrap_or(20 * MIB);
    for (key, bytes) in [
        ("max_split_size_mb", conf.max_split_size),
        ("max_non_split_rounding_mb", conf.max_non_split_rounding),
    ] {
        if let Some(bytes) = bytes.filter(|&bytes| bytes < large) {
            return wrong(key, &(bytes / MIB), format!("is too small, must be >= {}", large / MIB));
        }
    }
    if let Some(x) = conf.garbage_collection_threshold.filter(|&x| x <= 0.0 || x >= 1.0) {
        return wrong("garbage_collection_threshold", &x, "is invalid, set it in (0.0, 1.0)".to_owned());
    }
    Ok(conf)
}

fn known_keys() -> String {
    let ours = [
        "expandable_segments",
        "garbage_collection_threshold",
        "large_segment_size_mb",
        "max_non_split_rounding_mb",
        "max_split_size_mb",
        "per_process_memory_fraction",
        "roundup_power2_divisions",
    ];
    format!("{} and others that do not change where blocks lie", ours.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        match parse_conf(text, TorchRelease::new(2, 11)) {
            Ok(_) => "accepted".to_owned(),
            Err(e) => e.to_string(),
        }
    }

    /// Each as PyTorch 2.11 answers `torch._C._accelerator_setAllocatorSettings`.
    #[test]
    fn what_pytorch_accepts_is_accepted() {
        for text in [
            "",
            "max_split_size_mb:20",
            "large_segment_size_mb:11",
            "large_segment_size_mb:64,max_split_size_mb:64",
            "garbage_collection_threshold:0.5",
            "per_process_memory_fraction:0",
            "per_process_memory_fraction:1",
            "roundup_power2_divisions:128",
            "roundup_power2_divisions:[256:1,512:0,>:8]",
            "expandable_segments:True,",
            " expandable_segments : True , max_split_size_mb : 64",
            "backend:native,release_lock_on_cudamalloc:True,pinned_num_register_threads:8",
        ] {
            assert_eq!(complaint(text), "accepted", "{text}");
        }
    }

    #[test]
    fn what_pytorch_refuses_is_refused_in_its_words() {
        for (text, why) in [
            ("foo:1", "unrecognized key"),
            ("Expandable_Segments:True", "unrecognized key"),
            ("max_split_size_mb:19", "too small, must be >= 20"),
            ("max_non_split_rounding_mb:19", "too small, must be >= 20"),
            ("max_split_size_mb:32,large_segment_size_mb:64", "too small, must be >= 64"),
            ("large_segment_size_mb:10", "must be > 10"),
            ("garbage_collection_threshold:0", "set it in (0.0, 1.0)"),
            ("garbage_collection_threshold:1", "set it in (0.0, 1.0)"),
            ("garbage_collection_threshold:2", "is not between 0 and 1"),
            ("per_process_memory_fraction:1.5", "is not between 0 and 1"),
            ("roundup_power2_divisions:3", "power of two"),
            ("roundup_power2_divisions:0", "power of two"),
            ("roundup_power2_divisions:[256:1,500:2]", "power of two"),
            ("roundup_power2_divisions:[256:1", "no closing bracket"),
            ("expandable_segments:true", "neither True nor False"),
            ("pinned_num_register_threads:3", "power of 2"),
            ("max_split_size_mb:abc", "not a whole number"),
            ("max_split_size_mb", "not `key:value`"),
            ("backend:cudaMallocAsync", "another allocator"),
        ] {
            let said = complaint(text);
            assert!(said.contains(why), "{text}: {said}");
        }
        let old = parse_conf("large_segment_size_mb:64", TorchRelease::new(2, 6)).unwrap_err().to_string();
        assert!(old.contains("PyTorch 2.6 does not know it"), "{old}");
    }
}
