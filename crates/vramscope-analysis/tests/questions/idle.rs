//! Idle memory, compared with a computation by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use vramscope_analysis::{
    AllocationCategories, Frames, History, HolderKey, IdleFinding, IdleInterval, IdleKind, IdleMemory,
    Moment, NoProperties, Options, Summary, Uses,
};
use vramscope_trace::{Accesses, AllocationAccesses, Category, Purpose, Trace};

use crate::counters::{SLOTS, Slot, end_state, simulate, step};
use crate::{at_line, defaults, recording};

const KIB: u64 = 1024;

/// The accesses of the allocation that event `event` makes, at these moments in order.
fn accesses(event: usize, moments: &[usize]) -> AllocationAccesses {
    let mut longest_idle = (moments[0], moments[0]);
    for pair in moments.windows(2) {
        if pair[1] - pair[0] > longest_idle.1 - longest_idle.0 {
            longest_idle = (pair[0], pair[1]);
        }
    }
    let [first, last] = [moments[0], moments[moments.len() - 1]];
    AllocationAccesses {
        device: 0,
        allocation: event,
        first,
        last,
        count: moments.len() as u64,
        longest_idle,
    }
}

fn with_accesses(mut trace: Arc<Trace>, of: &[(usize, &[usize])]) -> Arc<Trace> {
    let allocations = of.iter().map(|(event, moments)| accesses(*event, moments)).collect();
    Arc::get_mut(&mut trace).unwrap().accesses =
        Some(Accesses { allocations, launches: 40, unknown_launches: 3 });
    trace
}

fn alloc(slot: u64, kib: u64, line: u32) -> Value {
    at_line("alloc", slot << 16, kib * KIB, line)
}

fn free(slot: u64, kib: u64) -> Value {
    at_line("free_completed", slot << 16, kib * KIB, 0)
}

fn idle_of(trace: &Arc<Trace>) -> IdleMemory {
    IdleMemory::of(&History::of(trace, 0), &Frames::of(trace), &NoProperties, |_| true).unwrap()
}

fn line_of(trace: &Trace, finding: &IdleFinding) -> u32 {
    let HolderKey::Line(frame) = finding.line else { panic!("{finding:?}") };
    trace.frames.get(frame).line
}

/// Kind, line, bytes, bytes at the peak, remaining peak and events of each finding.
fn told(trace: &Trace, idle: &IdleMemory) -> Vec<(IdleKind, u32, u64, u64, u64, usize)> {
    let one = |f: &IdleFinding| {
        let [bytes, at_peak, remaining] = [f.bytes, f.bytes_at_peak, f.remaining_peak].map(|b| b / KIB);
        (f.kind, line_of(trace, f), bytes, at_peak, remaining, f.longest.events())
    };
    idle.findings.iter().map(one).collect()
}

#[test]
fn memory_is_idle_after_its_last_use_and_before_its_first() {
    let events = vec![
        alloc(0, 4, 1), // 4 KiB are live
        alloc(1, 2, 2), // 6
        alloc(2, 1, 3), // 7
        free(2, 1),     // 6
        free(1, 2),     // 4
        free(0, 4),
    ];
    let trace = recording(events, vec![], defaults());
    // The block of line 1 is used once. That of line 2 is initialized when it is made, and used when that of line 3 is gone.
    let trace = with_accesses(trace, &[(0, &[1]), (1, &[2, 4]), (2, &[3])]);
    let idle = idle_of(&trace);
    assert_eq!(
        told(&trace, &idle),
        // Without line 1 after moment 1, the peak is 4 KiB at moment 1; without line 2 before moment 4, it is 6 KiB then.
        [(IdleKind::FreedLate, 1, 4, 4, 4, 4), (IdleKind::AllocatedEarly, 2, 2, 2, 6, 2)]
    );
    assert_eq!([idle.peak.bytes, idle.lower_bound], [7 * KIB, 4 * KIB]);
    assert_eq!((idle.peak.moment.index(), idle.launches, idle.unknown_launches), (3, 40, 3));
    assert_eq!((idle.left_out, idle.left_out_bytes), (0, 0));
    let late = &idle.findings[0];
    let interval = IdleInterval { allocation: 0, from: Moment::from_index(1), to: Moment::from_index(5) };
    assert_eq!((late.longest, late.is_used_once), (interval, true));
    // At the moments 2 to 5.
    assert_eq!((late.byte_events, &late.allocations[..]), (4 * 4 * u128::from(KIB), &[0][..]));
    assert_eq!(idle.saved(late), 3 * KIB);
}

#[test]
fn idle_memory_between_two_uses_is_listed_after_simpler_findings() {
    let events = vec![
        alloc(0, 8, 1), // 8
        alloc(1, 1, 2), // 9
        alloc(2, 6, 3), // 15
        free(2, 6),     // 9
        free(1, 1),     // 8
        free(0, 8),
    ];
    let trace = recording(events, vec![], defaults());
    // Line 1 is idle at moment 3. Nothing uses line 2.
    let trace = with_accesses(trace, &[(0, &[1, 2, 4, 5]), (2, &[3])]);
    let idle = idle_of(&trace);
    assert_eq!(
        told(&trace, &idle),
        [(IdleKind::NeverUsed, 2, 1, 1, 14, 2), (IdleKind::BetweenUses, 1, 8, 8, 9, 2)]
    );
    // From its first to its last use, line 1 is live beside line 3.
    assert_eq!(idle.lower_bound, 14 * KIB);
}

#[test]
fn allocations_of_a_line_are_one_finding() {
    // Three blocks of line 1 are used when they are made and freed together.
    let mut events: Vec<Value> = (0..3).map(|slot| alloc(slot, slot + 1, 1)).collect();
    events.push(alloc(3, 2, 2));
    events.extend([free(3, 2), free(0, 1), free(1, 2), free(2, 3)]);
    let trace = recording(events, vec![], defaults());
    let trace = with_accesses(trace, &[(0, &[1]), (1, &[2]), (2, &[3]), (3, &[4])]);
    let idle = idle_of(&trace);
    // At the peak, moment 4, all three are idle. Without them, the third alone is the peak.
    assert_eq!(told(&trace, &idle), [(IdleKind::FreedLate, 1, 6, 6, 3, 4)]);
    assert_eq!(idle.findings[0].allocations, [0, 1, 2]);
}

#[test]
fn memory_live_at_the_end_is_idle_only_after_its_longest_pause() {
    let live = |uses: &'static [usize]| {
        let events = vec![alloc(0, 4, 1), alloc(1, 1, 2), free(1, 1), alloc(1, 1, 3), free(1, 1)];
        let events = events.into_iter().chain([alloc(1, 1, 4), free(1, 1)]).collect();
        let trace = recording(events, vec![], defaults());
        let trace = with_accesses(trace, &[(0, uses), (1, &[2]), (3, &[4]), (5, &[6])]);
        let idle = idle_of(&trace);
        let of_line = told(&trace, &idle).into_iter().filter(|of| of.1 == 1).collect::<Vec<_>>();
        (of_line, idle.lower_bound / KIB)
    };
    // From its last use at moment 2, it rests for 5 events, longer than between its uses. But the peak is at moment 2.
    assert_eq!(live(&[1, 2]), (vec![], 5));
    // Its only use was at moment 1: the peak, at moment 2, is without it.
    assert_eq!(live(&[1]), (vec![(IdleKind::NotFreed, 1, 4, 4, 4, 6)], 4));
    // It rests for 4 events, then for 2: it may be used again.
    assert_eq!(live(&[1, 5]).0.into_iter().filter(|of| of.0 == IdleKind::NotFreed).count(), 0);
}

#[test]
fn modules_of_one_name_are_one_finding() {
    let made_by = |(slot, module): (u64, &'static str)| {
        let mut event = alloc(slot, 2, 1);
        event["user_metadata"] = json!(Purpose { module: Some(module), ..Purpose::default() }.to_string());
        event
    };
    let mut events: Vec<Value> = (0..).zip(["h.0.mlp", "h.1.mlp", "head"]).map(made_by).collect();
    events.push(alloc(3, 2, 2));
    events.extend((0..4).rev().map(|slot| free(slot, 2)));
    let trace = recording(events, vec![], defaults());
    let trace = with_accesses(trace, &[(0, &[1]), (1, &[2]), (2, &[3]), (3, &[4])]);
    let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    let modules: Vec<_> =
        summary.idle.unwrap().findings.into_iter().map(|f| (f.module, f.allocations)).collect();
    assert_eq!(modules, [(Some("h.*.mlp".to_owned()), vec![0, 1]), (Some("head".to_owned()), vec![2])]);
}

#[test]
fn memory_from_before_recording_has_no_known_uses() {
    let events = vec![free(9, 1), alloc(0, 4, 1), alloc(1, 4, 2)];
    let without = recording(events, vec![], defaults());
    let uses = |trace: &Arc<Trace>| {
        let history = History::of(trace, 0);
        history.allocations.iter().map(|a| Uses::of(&history, a)).collect::<Vec<_>>()
    };
    assert_eq!(uses(&without), [None, None, None]);
    assert!(
        IdleMemory::of(&History::of(&without, 0), &Frames::of(&without), &NoProperties, |_| true).is_none()
    );
    // A file may claim any moments.
    let with = with_accesses(without, &[(1, &[7, 9])]);
    let at = Moment::from_index;
    let first = Uses { first: at(3), last: at(3), count: 2, longest_idle: (at(3), at(3)) };
    assert_eq!(uses(&with), [None, Some(Some(first)), Some(None)]);
    assert_eq!(idle_of(&with).peak.bytes, 8 * KIB);
}

/// An allocation as a test follows it.
struct Life {
    event: usize,
    from: usize,
    /// The first moment at which it is not allocated; `None` if it stays.
    freed: Option<usize>,
    size: u64,
    line: u32,
    accesses: Vec<usize>,
}

/// Follows each slot from state to state.
fn lives(states: &[[Slot; SLOTS as usize]]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for slot in 0..SLOTS as usize {
        for at in 1..states.len() {
            match (states[at - 1][slot], states[at][slot]) {
                (Slot::Free, Slot::Allocated(size)) => lives.push(Life {
                    event: at - 1,
                    from: at,
                    freed: None,
                    size: size.next_multiple_of(512),
                    line: slot as u32 % 3,
                    accesses: Vec::new(),
                }),
                (Slot::Allocated(_), state) if !matches!(state, Slot::Allocated(_)) => {
                    lives.last_mut().unwrap().freed = Some(at);
                }
                _ => {}
            }
        }
    }
    lives.sort_by_key(|life| life.event);
    lives
}

/// Whether the allocation is idle at a moment, and in which way, from its list of accesses.
fn idle_at(life: &Life, at: usize, moments: usize, category: Category) -> Option<IdleKind> {
    let end = life.freed.unwrap_or(moments);
    if !(life.from..end).contains(&at) {
        return None;
    }
    let is_workspace = life.freed.is_none() && matches!(category, Category::Temporary | Category::Workspace);
    let (Some(&first), Some(&last)) = (life.accesses.first(), life.accesses.last()) else {
        return (!is_workspace).then_some(IdleKind::NeverUsed);
    };
    let rests = life.accesses.windows(2).map(|pair| (pair[0], pair[1]));
    // The first of the longest.
    let (from, to) = rests.rev().max_by_key(|(from, to)| to - from).unwrap_or((first, first));
    let is_rest = from + 1 < to;
    let is_initialized =
        is_rest && from == first && !matches!(category, Category::Activation | Category::Gradient);
    if at < (if is_initialized { to } else { first }) {
        return Some(IdleKind::AllocatedEarly);
    }
    if is_rest && from < at && at < to {
        return Some(IdleKind::BetweenUses);
    }
    let is_parameter = category == Category::Parameter && life.accesses.len() > 1;
    match life.freed {
        _ if at <= last => None,
        Some(_) => Some(IdleKind::FreedLate),
        None if moments - 1 - last > to - from && !is_parameter && !is_workspace => Some(IdleKind::NotFreed),
        None => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn remaining_peaks_are_those_of_a_sum_at_every_moment(
        steps in proptest::collection::vec(step(), 1..100),
        uses in proptest::collection::vec(proptest::collection::vec(any::<proptest::sample::Index>(), 0..5), 60),
    ) {
        let (events, states) = simulate(&steps);
        let mut lives = lives(&states);
        for (life, uses) in lives.iter_mut().zip(&uses) {
            let end = life.freed.unwrap_or(states.len());
            life.accesses = uses.iter().map(|at| life.from + at.index(end - life.from)).collect();
            life.accesses.sort_unstable();
        }
        let trace = recording(events, end_state(states.last().unwrap()), defaults());
        let of: Vec<(usize, &[usize])> = lives.iter().filter(|life| !life.accesses.is_empty())
            .map(|life| (life.event, &life.accesses[..])).collect();
        let trace = with_accesses(trace, &of);
        let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
        let idle = summary.idle.unwrap();

        let history = History::of(&trace, 0);
        let categories = AllocationCategories::of(&history);
        let category = |life: &Life| categories.category(history.subject(life.event).unwrap());
        let sum = |keeps: &dyn Fn(&Life, usize) -> bool| {
            let bytes = |at: usize| {
                let live = lives.iter().filter(|life| (life.from..life.freed.unwrap_or(states.len())).contains(&at));
                live.filter(|life| keeps(life, at)).map(|life| life.size).sum::<u64>()
            };
            (0..states.len()).map(bytes).max().unwrap()
        };
        let peak = sum(&|_, _| true);
        prop_assert_eq!(idle.peak.bytes, peak);
        prop_assert_eq!(idle.lower_bound, sum(&|life, at| {
            life.accesses.first().is_some_and(|&first| first <= at) && life.accesses.last().is_some_and(|&last| at <= last)
        }));

        // The bytes of each kind and line at each moment.
        let mut expected: BTreeMap<(IdleKind, u32), Vec<u64>> = BTreeMap::new();
        for life in &lives {
            for at in 0..states.len() {
                if let Some(kind) = idle_at(life, at, states.len(), category(life)) {
                    expected.entry((kind, life.line)).or_insert_with(|| vec![0; states.len()])[at] += life.size;
                }
            }
        }
        prop_assert_eq!(idle.findings.len() + idle.left_out, expected.len());
        for f in &idle.findings {
            let line = line_of(&trace, f);
            let bytes = &expected[&(f.kind, line)];
            prop_assert_eq!(f.bytes, *bytes.iter().max().unwrap());
            prop_assert_eq!(f.bytes_at_peak, bytes[idle.peak.moment.index()]);
            prop_assert_eq!(f.byte_events, bytes.iter().map(|&b| u128::from(b)).sum::<u128>());
            let remaining = sum(&|life, at| {
                life.line != line || idle_at(life, at, states.len(), category(life)) != Some(f.kind)
            });
            prop_assert_eq!(f.remaining_peak, remaining, "{:?}", f);
        }
        // Only findings that hardly lower the peak are left out.
        for (kind, line) in expected.keys() {
            let is_listed = idle.findings.iter().any(|f| f.kind == *kind && line_of(&trace, f) == *line);
            let remaining = sum(&|life, at| {
                life.line != *line || idle_at(life, at, states.len(), category(life)) != Some(*kind)
            });
            prop_assert!(is_listed || peak - remaining <= peak / 1000, "{:?} {} {} {}", kind, line, peak, remaining);
        }
    }
}
