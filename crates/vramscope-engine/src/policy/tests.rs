use super::*;

fn torch(conf: &str, release: TorchRelease) -> Policy {
    Policy::torch(&TorchSettings::parse(conf).unwrap(), release)
}

#[test]
fn cupys_segments_have_the_requested_size_rounded_to_512() {
    let p = Policy::cupy();
    assert_eq!((p.round_size(1), p.segment_size(p.round_size(1))), (512, 512));
    assert_eq!(p.segment_size(p.round_size(50 * MIB + 1)), 50 * MIB + 512);
    assert!(p.should_split(p.class(1024), 512, 512));
}

/// `PowerOf2Ceil` in `CachingHostAllocatorImpl::allocate`, and one list of free blocks for each size.
#[test]
fn pinned_host_memory_comes_in_powers_of_two() {
    let p = Policy::torch_host();
    for (asked, given) in [(1, 1), (3, 4), (512, 512), (513, 1024), (17 * MIB, 32 * MIB)] {
        assert_eq!((p.round_size(asked), p.segment_size(p.round_size(asked))), (given, given), "{asked}");
    }
    assert!(p.may_serve(1024, 1024) && !p.may_serve(1024, 2048));
    assert!(!p.always_splits(1024));
}

#[test]
fn an_npu_pads_requests() {
    let p = Policy { rounding: Rounding::PaddedUnits(32), ..torch("", TorchRelease::new(2, 7)) };
    assert_eq!([0, 480, 481, 512].map(|size| p.round_size(size)), [512, 512, 1024, 1024]);
}

#[test]
fn blocks_of_another_allocator_are_as_recorded() {
    let p = Policy::as_recorded(OtherAllocator::Rmm);
    assert_eq!([1, 256, 1000].map(|size| p.round_size(size)), [1, 256, 1000]);
    assert!(p.release().is_none() && p.has_sizes_of_requests());
}

/// `get_allocation_size` in PyTorch 2.11.
#[test]
fn torch_takes_segments_by_class() {
    let p = torch("", TorchRelease::new(2, 11));
    for (rounded, segment) in
        [(512, 2), (MIB, 2), (MIB + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB, 12)]
    {
        assert_eq!(p.segment_size(rounded), segment * MIB, "{rounded}");
    }
}

#[test]
fn the_size_of_large_segments_is_a_setting_from_2_11_on() {
    let conf = "large_segment_size_mb:64";
    assert_eq!(torch(conf, TorchRelease::new(2, 11)).segment_size(2 * MIB), 64 * MIB);
    assert_eq!(torch(conf, TorchRelease::new(2, 10)).segment_size(2 * MIB), 20 * MIB);
}

/// `should_split` in PyTorch 2.11: the remainder must exceed 1 MiB in a large block, and be at least 512 bytes in a small one.
#[test]
fn torch_splits_by_class_and_max_split_size() {
    let p = torch("max_split_size_mb:128", TorchRelease::new(2, 11));
    assert!(!p.should_split(Class::Large, 2 * MIB, MIB));
    assert!(p.should_split(Class::Large, 2 * MIB, MIB + 512));
    assert!(!p.should_split(Class::Large, 128 * MIB, 64 * MIB));
    assert!(p.should_split(Class::Small, 512, 512));
    assert!(p.may_serve(100 * MIB, 120 * MIB));
    assert!(!p.may_serve(100 * MIB, 128 * MIB));
    assert!(p.may_serve(128 * MIB, 147 * MIB));
    assert!(!p.may_serve(128 * MIB, 148 * MIB));
}
