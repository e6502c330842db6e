//! Any nesting of calls, allocations and frees, compared with a model that adds up.

use proptest::prelude::*;
use vramscope_allocator::{Allocation, MemoryPool, Policy};
use vramscope_profiler::{GpuMemoryProfiler, ProfileContext, ProfileResult};

#[derive(Debug, Clone, Copy)]
enum Step {
    Enter,
    /// Leaves the innermost or another open call.
    Leave(prop::sample::Index),
    Malloc(u64),
    Free(prop::sample::Index),
    EmptyCache,
    ResetPeaks,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Enter),
        2 => any::<prop::sample::Index>().prop_map(Step::Leave),
        4 => (1u64..50_000).prop_map(Step::Malloc),
        3 => any::<prop::sample::Index>().prop_map(Step::Free),
        1 => Just(Step::EmptyCache),
        1 => Just(Step::ResetPeaks),
    ]
}

/// The expected result of a call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Expected {
    before: u64,
    peak: u64,
    allocated: u64,
    freed: u64,
    created: u64,
    deleted: u64,
}

impl Expected {
    fn changed(&mut self, now: u64) {
        self.peak = self.peak.max(now);
    }
}

fn said(result: &ProfileResult) -> Expected {
    Expected {
        before: result.memory_before.allocated_memory.unwrap(),
        peak: result.peak_memory_usage().unwrap(),
        allocated: result.memory_allocated.unwrap(),
        freed: result.memory_freed.unwrap(),
        created: result.allocations_created.unwrap(),
        deleted: result.allocations_freed.unwrap(),
    }
}

proptest! {
    #[test]
    fn every_call_has_the_peak_and_the_sums_of_its_own_time(steps in prop::collection::vec(step(), 0..60)) {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
        let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
        let mut open: Vec<(ProfileContext<'_>, Expected)> = Vec::new();
        let mut live: Vec<Allocation> = Vec::new();
        let mut highest = 0;
        for step in steps {
            let now = |live: &[Allocation]| live.iter().map(Allocation::size).sum::<u64>();
            match step {
                Step::Enter => {
                    let before = now(&live);
                    let expected = Expected { before, peak: before, ..Expected::default() };
                    open.push((profiler.profile_context("call"), expected));
                }
                Step::Leave(which) if !open.is_empty() => {
                    let (context, expected) = open.remove(which.index(open.len()));
                    let result = context.finish();
                    prop_assert_eq!(said(&result), expected);
                    let thread = result.thread.unwrap();
                    prop_assert_eq!(
                        (thread.allocated_bytes, thread.freed_bytes, thread.num_allocations, thread.num_frees),
                        (expected.allocated, expected.freed, expected.created, expected.deleted)
                    );
                    prop_assert_eq!(thread.peak_above_start_bytes, expected.peak - expected.before);
                    prop_assert_eq!(result.memory_after.allocated_memory, Some(now(&live)));
                }
                Step::Malloc(size) => {
                    let block = pool.malloc(size).unwrap();
                    let size = block.size();
                    live.push(block);
                    for (_, expected) in &mut open {
                        expected.allocated += size;
                        expected.created += 1;
                        expected.changed(now(&live));
                    }
                }
                Step::Free(which) if !live.is_empty() => {
                    let block = live.swap_remove(which.index(live.len()));
                    for (_, expected) in &mut open {
                        expected.freed += block.size();
                        expected.deleted += 1;
                    }
                }
                Step::EmptyCache => pool.free_all_blocks().unwrap(),
                Step::ResetPeaks => pool.reset_peak_stats(),
                Step::Leave(_) | Step::Free(_) => {}
            }
            highest = highest.max(now(&live));
        }
        prop_assert_eq!(profiler.get_summary().peak_memory_usage, Some(highest));
    }
}
