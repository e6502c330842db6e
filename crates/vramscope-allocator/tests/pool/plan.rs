//! Requests that follow a plan.

use std::sync::Arc;

use vramscope_allocator::{Device, MemoryPool, Policy, VirtualDevice};
use vramscope_engine::{Plan, PlannedRequest, Served};

use crate::{MIB, torch_2_11};

/// A plan whose steps have blocks of these numbers of MiB in a row.
fn plan(sizes: &[u64]) -> Arc<Plan> {
    let places = sizes.iter().scan(0, |at, &mib| {
        let offset = Some(*at * MIB);
        *at += mib;
        Some(PlannedRequest { size: mib * MIB, stream: 0, offset })
    });
    let step: Vec<_> = places.collect();
    let bytes = sizes.iter().sum::<u64>().next_multiple_of(2) * MIB;
    Arc::new(Plan::new(vec![bytes], Vec::new(), step).unwrap())
}

fn pool(policy: &Policy, mib: u64, plan: Arc<Plan>) -> MemoryPool {
    let device: Arc<dyn Device> = Arc::new(VirtualDevice::with_capacity(mib * MIB));
    let pool = MemoryPool::new(policy, vec![device]).unwrap();
    assert!(pool.follow_plan(Arc::clone(&plan)));
    assert!(!pool.follow_plan(plan), "the first plan stays");
    pool
}

#[test]
fn planned_requests_have_their_places_in_every_step() {
    let pool = pool(&torch_2_11(), 64, plan(&[4, 1, 8]));
    let mut before = None;
    for _ in 0..3 {
        let step = [4, 1, 8].map(|mib| pool.malloc(mib * MIB).unwrap());
        let addresses = step.each_ref().map(|block| block.address());
        assert_eq!([addresses[1] - addresses[0], addresses[2] - addresses[1]], [4 * MIB, MIB]);
        assert_eq!(*before.get_or_insert(addresses), addresses);
    }
    let usage = pool.plan_use().unwrap();
    assert_eq!(usage.planned, Served { requests: 9, bytes: 39 * MIB });
    assert_eq!(usage.all(), usage.planned);
    assert_eq!((pool.total_bytes(), pool.used_bytes()), (14 * MIB, 0));
}

#[test]
fn a_request_beside_the_plan_follows_the_rules_and_the_plan_continues() {
    let pool = pool(&torch_2_11(), 64, plan(&[4, 1, 8]));
    let first = pool.malloc(4 * MIB).unwrap();
    let other = pool.malloc(3 * MIB).unwrap();
    assert!(other.address().abs_diff(first.address()) >= 4 * MIB);
    let _second = pool.malloc(MIB).unwrap();
    let usage = pool.plan_use().unwrap();
    assert_eq!((usage.planned.requests, usage.differing.requests), (2, 1));
    // The step comes again while its first block is in use.
    let _third = pool.malloc(8 * MIB).unwrap();
    let _again = pool.malloc(4 * MIB).unwrap();
    assert_eq!(pool.plan_use().unwrap().in_use.requests, 1);
}

/// Free pages of the plan are released, and free memory between its blocks serves other requests when nothing else is left.
#[test]
fn a_plan_releases_its_free_memory_under_pressure() {
    let pool = pool(&torch_2_11(), 22, plan(&[4, 1, 8]));
    drop([4, 1, 8].map(|mib| pool.malloc(mib * MIB).unwrap()));
    assert_eq!(pool.total_bytes(), 14 * MIB);
    let large = pool.malloc(22 * MIB).unwrap();
    assert_eq!(pool.total_bytes(), 22 * MIB);
    drop(large);
    pool.free_all_blocks().unwrap();

    // A block of 1 MiB at 4 MiB keeps the page around it, which has 1 MiB more.
    drop(pool.malloc(4 * MIB).unwrap());
    let planned = pool.malloc(MIB).unwrap();
    let _rest = pool.malloc(20 * MIB).unwrap();
    let last = pool.malloc(MIB).unwrap();
    assert_eq!(last.address(), planned.address() + MIB);
    assert_eq!((pool.statistics().num_ooms, pool.total_bytes()), (0, 22 * MIB));
    assert!(pool.malloc(MIB).is_err());
    drop(last);
    assert!(pool.malloc(MIB).is_ok());
}
