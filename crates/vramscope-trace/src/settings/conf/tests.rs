use super::*;
use crate::settings::PowerOfTwoDivisions;

#[test]
fn a_list_of_divisions_fills_below_its_first_pair_and_above_its_last() {
    let conf =
        TorchSettings::parse("expandable_segments:True,roundup_power2_divisions:[4:2,16:4,>:8]").unwrap();
    assert_eq!(conf.expandable_segments, Some(true));
    assert_eq!(
        conf.roundup_power2_divisions,
        Some(PowerOfTwoDivisions([2, 2, 2, 0, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]))
    );
}

#[test]
fn everything_the_dictionary_leaves_out_is_parsed() {
    let conf = TorchSettings::parse(
        "large_segment_size_mb:64, max_non_split_rounding_mb:32,per_process_memory_fraction:0.12,backend:native,\
         pinned_free_catch_all:True",
    )
    .unwrap();
    assert_eq!(conf.large_segment_size, Some(64 * MIB));
    assert_eq!(conf.max_non_split_rounding, Some(32 * MIB));
    assert_eq!(conf.per_process_memory_fraction, Some(0.12));
    assert_eq!(conf.backend.as_deref(), Some("native"));
    assert_eq!(conf.other, [("pinned_free_catch_all".to_owned(), "True".to_owned())]);
}

#[test]
fn a_wrong_item_is_named() {
    let error = |text| TorchSettings::parse(text).unwrap_err().to_string();
    assert_eq!(error("max_split_size_mb:big"), "`max_split_size_mb:big` is not a whole number of MiB");
    assert_eq!(error("backend"), "`backend` is not `key:value`");
    assert_eq!(
        error("roundup_power2_divisions:3"),
        "`roundup_power2_divisions:3` has a count of divisions that is not a power of two or 0"
    );
    assert_eq!(
        error("garbage_collection_threshold:7"),
        "`garbage_collection_threshold:7` is not between 0 and 1"
    );
}

fn complaint(text: &str) -> String {
    match TorchSettings::parse_for(text, TorchRelease::new(2, 11)) {
        Ok(_) => "accepted".to_owned(),
        Err(e) => e.to_string(),
    }
}

/// PyTorch 2.11 gives the same answer in `torch._C._accelerator_setAllocatorSettings`.
#[test]
fn settings_that_pytorch_accepts_are_accepted() {
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
fn settings_that_pytorch_refuses_get_its_message() {
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
    let old = TorchSettings::parse_for("large_segment_size_mb:64", TorchRelease::new(2, 6))
        .unwrap_err()
        .to_string();
    assert!(old.contains("PyTorch 2.6 does not support it"), "{old}");
}
