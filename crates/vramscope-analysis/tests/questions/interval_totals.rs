//! The effects of an interval of a recording, compared with a computation by hand.

use std::sync::Arc;

use proptest::prelude::*;
use vramscope_analysis::{
    Amount, By, Cancel, Frames, History, HolderKey, Interval, IntervalTotals, Moment, NoProperties, Timeline,
    interval_group_changes, interval_groups,
};

use crate::counters::{SLOTS, Slot, end_state, simulate, step};
use crate::{defaults, recording};

fn held(slot: Slot) -> Option<Amount> {
    let Slot::Allocated(size) = slot else { return None };
    Some(Amount { bytes: size.next_multiple_of(512), requested: size, count: 1 })
}

fn add(to: &mut Amount, one: Amount) {
    to.bytes += one.bytes;
    to.requested += one.requested;
    to.count += one.count;
}

/// The effects of the slots of one line between two moments, following each slot from state to state.
fn by_hand(states: &[[Slot; SLOTS as usize]], from: usize, to: usize, line: Option<usize>) -> IntervalTotals {
    let mut totals = IntervalTotals::default();
    let total = |state: &[Slot]| state.iter().filter_map(|&s| held(s)).map(|held| held.bytes).sum::<u64>();
    let mut highest = from;
    for at in from..=to {
        if total(&states[at]) > total(&states[highest]) {
            highest = at;
        }
    }
    for slot in (0..SLOTS as usize).filter(|slot| line.is_none_or(|line| slot % 3 == line)) {
        if let Some(one) = held(states[from][slot]) {
            add(&mut totals.before, one);
        }
        if let Some(one) = held(states[highest][slot]) {
            add(&mut totals.at_peak, one);
        }
        let mut was_there = held(states[from][slot]).is_some();
        for at in from..to {
            match (held(states[at][slot]), held(states[at + 1][slot])) {
                (None, Some(one)) => {
                    add(&mut totals.allocated, one);
                    was_there = false;
                }
                (Some(one), None) if was_there => add(&mut totals.freed_before, one),
                (Some(one), None) => add(&mut totals.temporary, one),
                _ => {}
            }
        }
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_totals_of_an_interval_equal_a_count_by_hand(
        steps in proptest::collection::vec(step(), 1..120), ends in (0usize..120, 0usize..120),
    ) {
        let (events, states) = simulate(&steps);
        let last = events.len();
        let (from, to) = (ends.0.min(ends.1).min(last), ends.0.max(ends.1).min(last));
        let trace = recording(events, end_state(states.last().unwrap()), defaults());
        let history = Arc::new(History::of(&trace, 0));
        let frames = Frames::of(&trace);
        let (begin, end) = (Moment::from_index(from), Moment::from_index(to));
        let interval = Interval::of(&history, begin, end);
        // The timeline returns the same allocations, possibly in another order.
        let mut quick = Timeline::of(Arc::clone(&history)).interval(begin, end);
        quick.allocations.sort_unstable();
        prop_assert_eq!(&quick, &interval);

        let cancel = Cancel::default();
        let ask = |by, takes: &dyn Fn(usize) -> bool| {
            interval_groups(&history, &frames, &NoProperties, &interval, by, takes, &cancel).unwrap()
        };
        let answer = ask(By::Line, &|_| true);
        let hand = by_hand(&states, from, to, None);
        prop_assert_eq!(answer.all, hand);
        prop_assert_eq!(answer.taken, hand);
        prop_assert_eq!(interval.peak.bytes, hand.at_peak.bytes);
        prop_assert_eq!(answer.all.after().bytes, history.counters_at(end).allocated);
        for group in &answer.groups {
            let HolderKey::Line(frame) = group.key else { panic!("{group:?}") };
            let line = trace.frames.get(frame).line as usize;
            prop_assert_eq!(group.totals, by_hand(&states, from, to, Some(line)));
        }
        for by in [By::Stack, By::Function, By::File, By::Module, By::Category, By::Layer, By::Step, By::Stream, By::Pool] {
            let sum = ask(by, &|_| true).groups.iter().fold([0; 6], |sum, group| {
                let IntervalTotals { before, allocated, freed_before, temporary, at_peak } = group.totals;
                let parts = [before, allocated, freed_before, temporary, at_peak, group.totals.survived()];
                std::array::from_fn(|i| sum[i] + parts[i].bytes)
            });
            let parts = [hand.before, hand.allocated, hand.freed_before, hand.temporary, hand.at_peak, hand.survived()];
            prop_assert_eq!(sum, parts.map(|part| part.bytes), "{:?}", by);
        }
        // Allocations that the groups exclude still count in the totals.
        let large = ask(By::Line, &|id| history.allocations[id].size > 20_000);
        prop_assert_eq!(large.all, hand);
        prop_assert!(large.taken.allocated.bytes <= hand.allocated.bytes);
        cancel.cancel();
        let unwanted = interval_groups(&history, &frames, &NoProperties, &interval, By::Line, &|_| true, &cancel);
        prop_assert_eq!(unwanted.is_none(), !interval.allocations.is_empty());
    }

    #[test]
    fn changes_have_every_group_of_both_once(
        steps in proptest::collection::vec(step(), 20..120), ends in proptest::collection::vec(0usize..120, 3),
    ) {
        let (events, states) = simulate(&steps);
        let mut ends = ends.into_iter().map(|end| end.min(events.len())).collect::<Vec<_>>();
        ends.sort_unstable();
        let trace = recording(events, end_state(states.last().unwrap()), defaults());
        let (history, frames) = (History::of(&trace, 0), Frames::of(&trace));
        let ask = |from, to| {
            let interval = Interval::of(&history, Moment::from_index(from), Moment::from_index(to));
            interval_groups(&history, &frames, &NoProperties, &interval, By::Line, &|_| true, &Cancel::default()).unwrap()
        };
        let (before, now) = (ask(ends[0], ends[1]), ask(ends[1], ends[2]));
        let changes = interval_group_changes(now.groups, before.groups);
        let sum = |of: &dyn Fn(&vramscope_analysis::IntervalGroupChange) -> u64| changes.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(&|change| change.group.totals.allocated.bytes), now.all.allocated.bytes);
        prop_assert_eq!(sum(&|change| change.before.allocated.bytes), before.all.allocated.bytes);
        let grown = changes.iter().map(|change| change.group.totals.allocated.bytes as i64 - change.before.allocated.bytes as i64);
        prop_assert!(grown.is_sorted_by(|a, b| a >= b));
    }
}
