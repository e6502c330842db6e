//! On which cards a program would fit.

use vramscope_analysis::{Capacity, Demand, on_cards};
use vramscope_basics::gpus::{GPUS, Gpu};

use crate::{alloc, recording};

const GIB: u64 = 1 << 30;

/// A program that holds so many tensors of 1 GiB at a time.
fn tensors(count: u64) -> Demand {
    let segments: Vec<(u64, u64)> = (1..=count).map(|n| (n << 36, GIB)).collect();
    let events: Vec<_> = (1..=count)
        .flat_map(|n| {
            let mut segment = alloc(n, GIB);
            segment["action"] = "segment_alloc".into();
            [segment, alloc(n, GIB)]
        })
        .collect();
    Demand::of(&recording(&events, &segments), 0).unwrap()
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
        let on = on_cards([&demand, &other], gpus.iter().copied(), |_| overhead, |on| !on.fits).unwrap();
        let smallest = on.last().unwrap();
        assert!(smallest.fits && smallest.peak_reserved == 20 * GIB);
        let expected = gpus.iter().find(|gpu| gpu.total_bytes - overhead >= 20 * GIB).unwrap();
        assert_eq!(smallest.gpu.name, expected.name);
        let (_, smaller) = on.split_last().unwrap();
        assert!(!smaller.is_empty() && smaller.iter().all(|on| !on.fits));
    }
}

#[test]
fn all_cards_are_asked_where_all_are_wanted() {
    let gpus = by_memory();
    let on = on_cards([&tensors(20)], gpus.iter().copied(), |_| 0, |_| true).unwrap();
    assert_eq!(on.len(), gpus.len());
    assert!(on.iter().all(|on| on.fits == (on.gpu.total_bytes >= 20 * GIB)));
}

#[test]
fn nothing_helps_where_the_tensors_are_larger_than_the_card() {
    let capacity = Capacity { total: 16 * GIB, overhead: 0 };
    assert_eq!(tensors(20).remedy(capacity).unwrap(), None);
}
