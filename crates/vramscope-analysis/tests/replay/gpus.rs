//! GPU models on which a program would fit.

use std::sync::Arc;

use vramscope_analysis::{
    Capacity, Demand, DeviceReplay, Fit, Frames, GpuFit, History, Replay, ReplayOptions, fit_on_device,
    fit_on_gpus,
};
use vramscope_basics::gpus::{GPUS, Gpu, NEWEST_CUDA};
use vramscope_trace::Trace;

use crate::{alloc, recording};

const GIB: u64 = 1 << 30;

/// A program that holds this many tensors of 1 GiB at a time.
fn tensors(count: u64) -> Demand {
    Demand::of(&recording_of(count), 0).unwrap()
}

fn recording_of(count: u64) -> Arc<Trace> {
    let segments: Vec<(u64, u64)> = (1..=count).map(|n| (n << 36, GIB)).collect();
    let events: Vec<_> = (1..=count)
        .flat_map(|n| {
            let mut segment = alloc(n, GIB);
            segment["action"] = "segment_alloc".into();
            [segment, alloc(n, GIB)]
        })
        .collect();
    recording(&events, &segments)
}

fn fits(on: &GpuFit) -> bool {
    on.replayed.fit == Fit::Fits
}

fn by_memory() -> Vec<&'static Gpu> {
    let mut gpus: Vec<&Gpu> = GPUS.iter().collect();
    gpus.sort_by_key(|gpu| gpu.total_bytes);
    gpus
}

#[test]
fn a_demand_is_what_was_allocated_at_most() {
    let demand = tensors(20);
    assert_eq!(
        (demand.device, demand.peak_allocated, demand.peak_reserved, demand.ooms),
        (0, 20 * GIB, 20 * GIB, 0)
    );
    let unused = recording(&[], &[]);
    assert!((0..unused.devices.len()).all(|position| Demand::of(&unused, position).is_none()));
}

#[test]
fn the_first_card_that_fits_has_room_beside_what_others_take() {
    let (demand, other) = (tensors(20), tensors(3));
    for overhead in [0, 4 * GIB] {
        let gpus = by_memory();
        let on =
            fit_on_gpus([&demand, &other], gpus.iter().copied(), |_| overhead..=overhead, |on| !fits(on))
                .unwrap();
        let smallest = on.last().unwrap();
        assert!(fits(smallest) && smallest.replayed.peak_reserved == 20 * GIB);
        let expected = gpus.iter().find(|gpu| gpu.total_bytes - overhead >= 20 * GIB).unwrap();
        assert_eq!(smallest.gpu.name, expected.name);
        let (_, smaller) = on.split_last().unwrap();
        assert!(!smaller.is_empty() && smaller.iter().all(|on| !fits(on)));
    }
}

#[test]
fn fit_on_gpus_can_try_all_gpus() {
    let gpus = by_memory();
    let on = fit_on_gpus([&tensors(20)], gpus.iter().copied(), |_| 0..=0, |_| true).unwrap();
    assert_eq!(on.len(), gpus.len());
    assert!(on.iter().all(|on| fits(on) == (on.gpu.total_bytes >= 20 * GIB)));
}

#[test]
fn a_demand_between_both_overheads_barely_fits() {
    let demand = tensors(20);
    for (low, high, fit) in
        [(3, 4, Fit::Fits), (4, 5, Fit::Barely), (5, 6, Fit::DoesNotFit), (5, 5, Fit::DoesNotFit)]
    {
        let on = fit_on_device([&demand], 24 * GIB, low * GIB..=high * GIB).unwrap();
        assert_eq!(on.fit, fit, "{low}..={high}");
    }
}

#[test]
fn no_setting_helps_if_the_tensors_are_larger_than_the_gpu() {
    let capacity = Capacity { total: 16 * GIB, overhead: 0 };
    assert_eq!(tensors(20).remedy(capacity).unwrap(), None);
}

#[test]
fn the_smallest_gpu_is_the_first_of_the_cards_that_fits_and_has_its_own_memory() {
    let trace = recording_of(20);
    let history = History::of(&trace, 0);
    let replay = Replay::of(&history).unwrap();
    for given in [0, 4 * GIB] {
        let overhead = |gpu: &Gpu| if given == 0 { *gpu.context_bytes(NEWEST_CUDA).end() } else { given };
        let own: Vec<&'static Gpu> = by_memory().into_iter().filter(|gpu| !gpu.integrated).collect();
        let on =
            fit_on_gpus([&tensors(20)], own.into_iter(), |gpu| overhead(gpu)..=overhead(gpu), |on| !fits(on))
                .unwrap();
        let expected = on.last().unwrap();
        let found = replay.smallest_gpu(&replay.policy, given, &|| {}).unwrap().unwrap();
        assert_eq!(found.gpu.total_bytes, expected.gpu.total_bytes);
        assert_eq!(found.overhead, overhead(found.gpu));
        assert_eq!(found.outcome.statistics.reserved.peak, expected.replayed.peak_reserved);
    }
    // No GPU has a TiB for other uses.
    assert_eq!(replay.smallest_gpu(&replay.policy, 1 << 40, &|| {}).unwrap(), None);
}

#[test]
fn if_no_setting_fits_the_nearest_one_fits_on_the_named_device_size() {
    let trace = recording_of(20);
    let frames = Frames::of(&trace);
    let on = |total| {
        let capacity = Some(Capacity { total, overhead: GIB });
        let options = ReplayOptions { capacity, ..ReplayOptions::default() };
        DeviceReplay::of(&trace, 0, &frames, &options, &|| {}).unwrap()
    };
    let nearest = on(16 * GIB).nearest.unwrap();
    assert_eq!(nearest.missing, nearest.needed - 16 * GIB);
    let there = on(nearest.needed);
    assert!(there.nearest.is_none());
    assert!(there.tried.iter().any(|t| t.setting.conf == nearest.conf && t.outcome.fits()));
    assert_eq!(nearest.needed, 21 * GIB);
}
