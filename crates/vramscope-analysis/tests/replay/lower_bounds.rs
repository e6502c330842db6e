//! No replay needs less than the floors, and how a program ends has no effect that it should not have.

use proptest::prelude::*;
use serde_json::Value;
use vramscope_analysis::{DeviceReplay, Frames, History, Replay, ReplayOptions};

use crate::{MIB, alloc, free, recording};

/// A program of blocks that are allocated and freed.
fn program() -> impl Strategy<Value = Vec<Value>> {
    let size = prop_oneof![3 => 1u64..5000, 2 => 1u64..8 * MIB, 1 => MIB..60 * MIB];
    prop::collection::vec((size, any::<usize>(), 0u8..3), 1..60).prop_map(|steps| {
        let (mut events, mut live) = (Vec::new(), Vec::new());
        for (n, (size, which, what)) in steps.into_iter().enumerate() {
            if what == 0 && !live.is_empty() {
                events.push(free(live.swap_remove(which % live.len())));
            } else {
                events.push(alloc(n as u64 + 1, size));
                live.push(n as u64 + 1);
            }
        }
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn floors_never_exceed_any_replayed_peak(events in program()) {
        let trace = recording(&events, &[]);
        let frames = Frames::of(&trace);
        let answer =
            DeviceReplay::of(&trace, 0, &frames, &ReplayOptions::default(), &|| {}).unwrap();
        prop_assert!(answer.tried.len() > 8);
        prop_assert!(answer.lower_bounds.active <= answer.lower_bounds.packed);
        for tried in &answer.tried {
            let s = tried.outcome.statistics;
            prop_assert!(answer.lower_bounds.packed <= s.reserved.peak, "{}", tried.setting.conf);
            prop_assert!(answer.lower_bounds.active <= s.allocated.peak, "{}", tried.setting.conf);
            // The properties that every allocator must share.
            prop_assert!(s.requested.peak <= s.allocated.peak && s.allocated.peak <= s.active.peak);
            prop_assert!(s.active.peak <= s.reserved.peak);
        }
    }

    #[test]
    fn a_device_that_is_one_page_smaller_than_the_smallest_is_too_small(events in program()) {
        let trace = recording(&events, &[]);
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        for expandable_segments in [false, true] {
            let mut policy = replay.policy.clone();
            policy.expandable_segments = expandable_segments;
            let (bytes, outcome) = replay.smallest_capacity(&policy, 0, &|| {}).unwrap();
            prop_assert!(outcome.fits());
            prop_assert!(outcome.statistics.reserved.peak <= bytes);
            let smaller = vramscope_analysis::Capacity { total: bytes - 2 * MIB, overhead: 0 };
            prop_assert!(!replay.under(&policy, smaller).unwrap().fits());
        }
    }
}
