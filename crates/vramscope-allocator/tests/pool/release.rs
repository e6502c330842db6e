//! The release whose rules replay a pool's dump: the reported release must be the pool's.

use std::sync::Arc;

use vramscope_allocator::{HistoryOptions, MemoryPool, TorchRelease, VirtualDevice};
use vramscope_analysis::{DeviceReplay, Frames, ReplayOptions};
use vramscope_trace::{Trace, formats};

use crate::{MIB, torch};

/// A program in which releases choose differently: the younger of two free segments has the lower address.
fn dump(release: TorchRelease) -> Arc<Trace> {
    let gpu = Arc::new(VirtualDevice::with_capacity(256 * MIB));
    let pool = MemoryPool::new(&torch("", release), vec![gpu]).unwrap();
    pool.record_memory_history(&HistoryOptions::default()).unwrap();
    let low = pool.malloc(20 * MIB).unwrap();
    let high = pool.malloc(20 * MIB).unwrap();
    let at = low.address();
    drop(low);
    pool.free_all_blocks().unwrap();
    let low = pool.malloc(20 * MIB).unwrap();
    assert_eq!(low.address(), at, "the device hands out the lowest address");
    let by_age = high.address();
    drop((low, high));
    let kept = pool.malloc(20 * MIB).unwrap();
    assert_eq!(kept.address() == by_age, release >= TorchRelease::new(2, 13));
    let mut file = Vec::new();
    formats::write_pickle(&pool.snapshot().unwrap(), &mut file).unwrap();
    formats::read(&file[..]).unwrap().trace
}

fn replay(trace: &Arc<Trace>) -> DeviceReplay {
    let frames = Frames::of(trace);
    DeviceReplay::of(trace, 0, &frames, &ReplayOptions::default(), &|| {}).unwrap()
}

fn assert_is_of(trace: &Arc<Trace>, (major, minor): (u32, u32)) {
    let replay = replay(trace);
    let release = TorchRelease::new(major, minor);
    assert_eq!(replay.first_difference, None, "{release}");
    assert_eq!((replay.rules, replay.release), (format!("PyTorch {release}"), Some(release)));
    assert_eq!(replay.recorded_setting.policy, torch("", release));
}

#[test]
fn a_dump_of_a_pool_is_replayed_by_its_own_release() {
    for release in [(2, 6), (2, 11), (2, 15)] {
        assert_is_of(&dump(TorchRelease::new(release.0, release.1)), release);
    }
}

/// If a file does not show its release, or seems to show another, the release that reproduces it is reported.
#[test]
fn the_release_that_reproduces_a_recording_is_the_one_that_is_named() {
    for (release, named) in [((2, 11), (2, 11)), ((2, 13), (2, 15)), ((2, 15), (2, 15))] {
        let release = TorchRelease::new(release.0, release.1);
        let mut trace = dump(release);
        Arc::make_mut(&mut trace).settings = None;
        let replay = replay(&trace);
        assert_eq!(replay.release, Some(TorchRelease::new(named.0, named.1)), "{release}");
        assert_eq!(replay.first_difference, None, "{release}");
    }
    let mut trace = dump(TorchRelease::new(2, 13));
    assert!(trace.settings.as_ref().unwrap().recorded.max_round_threshold.is_none());
    assert_eq!(replay(&trace).rules, "PyTorch 2.15");
    Arc::make_mut(&mut trace).settings.as_mut().unwrap().recorded.max_round_threshold = Some(-1);
    assert_eq!(replay(&trace).rules, "PyTorch 2.15");
}
