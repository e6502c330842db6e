#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use vramscope_trace::TorchSettings;

use super::*;
use crate::device::DEVICE_PAGE as PAGE;
use crate::plan::PlannedRequest;
use crate::{TorchRelease, VirtualDevice};

const STREAMS: [u64; 2] = [0, 0x55];

/// Plans whose places overlap at random.
fn plan() -> impl Strategy<Value = Plan> {
    let request = (1u64..9000, 0u32..2, prop::option::weighted(0.9, any::<u64>()));
    let requests = prop::collection::vec(request, 0..30);
    (requests.clone(), requests, 1u64..8, any::<bool>()).prop_map(|(startup, step, pages, is_shared)| {
        let segment = pages * PAGE;
        let place = |(units, stream, at): (u64, u32, Option<u64>)| {
            let size = (units * 512).min(segment);
            let offset = at.map(|at| at % ((segment - size) / 512 + 1) * 512);
            PlannedRequest { size, stream, offset }
        };
        let place = |list: Vec<_>| list.into_iter().map(place).collect();
        if is_shared {
            Plan::shared(segment, place(startup), place(step)).unwrap()
        } else {
            Plan::new(vec![segment; 2], place(startup), place(step)).unwrap()
        }
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let torch = |conf| Policy::torch(&TorchSettings::parse(conf).unwrap(), TorchRelease::new(2, 11));
    let expandable = torch("expandable_segments:True");
    prop_oneof![Just(torch("")), Just(expandable), Just(Policy::cupy())]
}

enum Held {
    Live(LiveBlock),
    Pending(PendingBlock, u64),
}

impl Held {
    fn range(&self) -> (u64, u64) {
        match self {
            Self::Live(block) => (block.address(), block.address() + block.size()),
            Self::Pending(block, address) => (*address, address + block.size()),
        }
    }

    fn free(self) {
        match self {
            Self::Live(block) => block.free(),
            Self::Pending(block, _) => block.free_completed(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Follows the plan, leaves it, frees early and late, and empties the cache, on devices that run out of memory.
    #[test]
    fn blocks_in_use_never_overlap_under_any_plan(
        plan in plan(),
        policy in policies(),
        mib in 4u64..160,
        steps in prop::collection::vec((0u8..16, any::<usize>(), 1u64..9000), 1..200),
    ) {
        let capacity = mib << 20;
        let device = Arc::new(VirtualDevice::with_capacity(capacity));
        let mut allocator = CachingAllocator::new(policy, device).unwrap();
        let all: Vec<PlannedRequest> = plan.startup().iter().chain(plan.step()).copied().collect();
        allocator.follow_plan(Arc::new(plan));
        let mut held: Vec<Held> = Vec::new();
        let (mut next, mut requests) = (0, 0);
        for (what, which, units) in steps {
            let planned = all.get(next % all.len().max(1)).copied();
            let request = match (what, planned) {
                (0..8, Some(planned)) => {
                    next += 1;
                    Some((planned.size, planned.stream))
                }
                (8 | 9, _) => Some((units * 512, which as u32 % 2)),
                _ => None,
            };
            if let Some((size, stream)) = request {
                requests += 1;
                let stream = STREAMS[stream as usize];
                let served = allocator.malloc(PoolId::default(), stream, size);
                // A request that released the cache has waited for all streams.
                if allocator.statistics().num_alloc_retries > 0 {
                    held.retain(|held| matches!(held, Held::Live(_)));
                }
                let Ok(block) = served else { continue };
                prop_assert!(block.size() >= size);
                let (from, to) = (block.address(), block.address() + block.size());
                for other in &held {
                    let (other_from, other_to) = other.range();
                    prop_assert!(to <= other_from || other_to <= from);
                }
                held.push(Held::Live(block));
            } else if what == 15 {
                // Blocks that wait for a stream become free here.
                held.retain(|held| matches!(held, Held::Live(_)));
                allocator.empty_cache().unwrap();
            } else if !held.is_empty() {
                let index = which % held.len();
                match held.swap_remove(index) {
                    Held::Live(block) if what == 14 => {
                        let address = block.address();
                        held.push(Held::Pending(block.free_requested(), address));
                    }
                    other => other.free(),
                }
            }
            let s = allocator.statistics();
            prop_assert!(s.reserved.current <= capacity);
            prop_assert!(s.active.current <= s.reserved.current);
            let ranges = held.iter().map(|h| h.range().1 - h.range().0);
            prop_assert!(s.active.current >= ranges.sum::<u64>());
        }
        prop_assert_eq!(allocator.plan_use().unwrap().all().requests, requests);
        held.into_iter().for_each(Held::free);
        allocator.empty_cache().unwrap();
        let s = allocator.statistics();
        prop_assert_eq!((s.reserved.current, s.active.current, s.allocated.current), (0, 0, 0));
        prop_assert!(allocator.segments().is_empty());
    }
}

/// A plan of small blocks and of one with 16 MiB, in a segment of 18 MiB.
fn with_a_large_block() -> (CachingAllocator, Vec<u64>) {
    let sizes = vec![512, 1024, 1536, 2048, 16 << 20];
    let offsets = [16 << 20, (16 << 20) + 512, (16 << 20) + 1536, (16 << 20) + 3072, 0];
    let place = |(&size, offset)| PlannedRequest { size, stream: 0, offset: Some(offset) };
    let step = sizes.iter().zip(offsets).map(place).collect();
    let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
    let mut allocator =
        CachingAllocator::new(policy, Arc::new(VirtualDevice::with_capacity(1 << 30))).unwrap();
    allocator.follow_plan(Arc::new(Plan::new(vec![18 << 20], Vec::new(), step).unwrap()));
    (allocator, sizes)
}

fn step(allocator: &CachingAllocator, sizes: &[u64]) {
    let malloc = |&size: &u64| allocator.malloc(PoolId::default(), 0, size).unwrap();
    let blocks: Vec<LiveBlock> = sizes.iter().map(malloc).collect();
    blocks.into_iter().for_each(LiveBlock::free);
}

#[test]
fn free_memory_of_a_plan_is_released_before_other_requests_take_more() {
    let (allocator, sizes) = with_a_large_block();
    step(&allocator, &sizes);
    assert_eq!(allocator.reserved_bytes(), 18 << 20);
    let other = allocator.malloc(PoolId::default(), 0, 12 << 20).unwrap();
    assert_eq!(allocator.reserved_bytes(), 12 << 20);
    other.free();
    // The memory of the other request is released in turn.
    step(&allocator, &sizes);
    assert_eq!((allocator.reserved_bytes(), allocator.statistics().reserved.peak), (18 << 20, 18 << 20));
    assert_eq!(allocator.engine.plan_exchanges(), 1);
}

#[test]
fn a_program_whose_steps_need_both_memories_runs_without_its_plan() {
    let (allocator, sizes) = with_a_large_block();
    for steps in 1..=6 {
        step(&allocator, &sizes);
        step(&allocator, &[12 << 20]);
        let planned = allocator.plan_use().unwrap().planned.requests;
        assert_eq!(planned, 5 * steps.min(5), "step {steps}");
        let peak = allocator.statistics().reserved.peak;
        assert!(steps > 5 || peak == 18 << 20, "step {steps}: {peak}");
    }
}

#[test]
fn planned_blocks_have_their_addresses_and_pages_are_mapped_where_they_are_used() {
    let at = |size: u64, offset| PlannedRequest { size, stream: 0, offset: Some(offset) };
    let requests = vec![at(3 * PAGE, PAGE), at(512, 8 * PAGE - 512)];
    let plan = Plan::new(vec![8 * PAGE], Vec::new(), requests).unwrap();
    let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
    let device = Arc::new(VirtualDevice::with_capacity(100 * PAGE));
    let mut allocator = CachingAllocator::new(policy, device).unwrap();
    allocator.follow_plan(Arc::new(plan));
    let a = allocator.malloc(PoolId::default(), 0, 3 * PAGE).unwrap();
    assert_eq!(allocator.reserved_bytes(), 3 * PAGE);
    let b = allocator.malloc(PoolId::default(), 0, 100).unwrap();
    assert_eq!(b.address() - a.address(), 7 * PAGE - 512);
    assert_eq!(allocator.reserved_bytes(), 4 * PAGE);
    assert!(a.is_planned() && b.is_planned());
    // Its place is in use, so the request is served as without a plan.
    let c = allocator.malloc(PoolId::default(), 0, 3 * PAGE).unwrap();
    assert!(!c.is_planned());
    assert_eq!(allocator.plan_use().unwrap().in_use.requests, 1);
    [a, b, c].into_iter().for_each(LiveBlock::free);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.reserved_bytes(), 0);
}
