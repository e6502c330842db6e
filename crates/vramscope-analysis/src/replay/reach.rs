//! Determines which rules affect a recording.

use vramscope_engine::Policy;

use super::program::{Program, StepKind};
use crate::history::History;

/// The largest sizes in a recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// Bytes of the largest request, before rounding.
    request: u64,
    /// Bytes of the largest recorded segment.
    segment: u64,
}

impl Reach {
    pub(super) fn of(history: &History, program: &Program) -> Self {
        let asked = history.allocations.iter().map(|a| a.requested);
        let failed =
            program.steps.iter().filter(|step| step.kind == StepKind::Oom).map(|step| step.size(history));
        let segments = history.reserved.iter().map(|range| range.size);
        Self {
            request: asked.chain(failed).max().unwrap_or_default(),
            segment: segments.max().unwrap_or_default(),
        }
    }

    /// Returns `policy` without rules that only apply to larger blocks than there are. Every decision about `max_split_size`
    /// compares it with a block or a request, and no block is larger than its segment. The size of an expandable segment is not
    /// limited.
    pub(super) fn rules_that_matter(self, policy: &Policy) -> Policy {
        let largest = self.segment.max(policy.segment_size(policy.round_size(self.request)));
        let matters = |&max: &u64| policy.expandable_segments || largest >= max;
        let mut rules = policy.clone();
        rules.max_split_size = policy.max_split_size.filter(matters);
        rules
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use vramscope_engine::{CachingAllocator, Statistics, TorchRelease, VirtualDevice};
    use vramscope_trace::{PoolId, TorchSettings};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn torch(conf: &str) -> Policy {
        Policy::torch(&TorchSettings::parse(conf).unwrap(), TorchRelease::new(2, 11))
    }

    /// Returns the allocated addresses and the statistics. A request of zero bytes frees the oldest block.
    fn run(policy: &Policy, capacity: u64, requests: &[u64]) -> (Vec<Option<u64>>, Statistics) {
        let device = Arc::new(VirtualDevice::with_capacity(capacity));
        let allocator = CachingAllocator::new(policy.clone(), device).unwrap();
        let mut live = std::collections::VecDeque::new();
        let mut addresses = Vec::new();
        for &size in requests {
            if size == 0 {
                live.pop_front();
                continue;
            }
            let block = allocator.malloc(PoolId::default(), 0, size).ok();
            addresses.push(block.as_ref().map(|block| block.address()));
            live.extend(block);
        }
        let statistics = allocator.statistics();
        (addresses, statistics)
    }

    proptest! {
        #[test]
        fn a_limit_that_nothing_reaches_changes_nothing(
            requests in prop::collection::vec(prop_oneof![Just(0), 1..70 * MIB, 1..64u64], 1..120),
            max in 20u64..100,
            rounding in prop_oneof![Just(""), Just(",roundup_power2_divisions:4")],
            capacity in 100u64..2000,
        ) {
            let limited = torch(&format!("max_split_size_mb:{max}{rounding}"));
            let reach = Reach { request: requests.iter().copied().max().unwrap_or_default(), segment: 0 };
            let matters = reach.rules_that_matter(&limited);
            prop_assert_eq!(run(&limited, capacity * MIB, &requests), run(&matters, capacity * MIB, &requests));
        }
    }

    #[test]
    fn a_limit_that_something_reaches_stays() {
        let reach = Reach { request: 30 * MIB, segment: 0 };
        let max = |conf: &str| reach.rules_that_matter(&torch(conf)).max_split_size;
        assert_eq!(max("max_split_size_mb:30"), Some(30 * MIB));
        assert_eq!(max("max_split_size_mb:31"), None);
        assert_eq!(max("max_split_size_mb:31,expandable_segments:True"), Some(31 * MIB));
        assert_eq!(max("max_split_size_mb:31,roundup_power2_divisions:2"), Some(31 * MIB));
        let recorded = Reach { request: 30 * MIB, segment: 64 * MIB };
        assert_eq!(recorded.rules_that_matter(&torch("max_split_size_mb:64")).max_split_size, Some(64 * MIB));
    }
}
