//! Verdicts on budgets: kept, exceeded and unknown.

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{
    Budget, BudgetCheck, BudgetStatus, ByteKind, Cancel, DeviceHistory, Frames, Growth, History, Holder,
    HolderChange, HolderKey, Measured, Unknown,
};
use vramscope_trace::Trace;
use vramscope_trace::formats;

use crate::leaks::Program;
use crate::{at_line, defaults, event, recording, segment};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const ALLOCATED: ByteKind = ByteKind::Allocated;
const RESERVED: ByteKind = ByteKind::Reserved;

/// Returns the verdicts on device 0, optionally compared with that of `baseline`.
fn check(trace: &Arc<Trace>, baseline: Option<&Arc<Trace>>, budgets: &[Budget]) -> BudgetCheck {
    let known = |trace| (History::replayed(trace, 0), Frames::of(trace));
    let (new, old) = (known(trace), baseline.map(known));
    let old = old.as_ref().map(|(history, frames)| DeviceHistory { history, frames });
    let new = DeviceHistory { history: &new.0, frames: &new.1 };
    BudgetCheck::of(new, old, budgets, &Cancel::default()).unwrap()
}

fn status(trace: &Arc<Trace>, baseline: Option<&Arc<Trace>>, budget: Budget) -> BudgetStatus {
    check(trace, baseline, &[budget]).verdicts[0].status
}

/// A recording of allocations, each given as (line, size).
fn lines(lines: &[(u32, u64)]) -> Arc<Trace> {
    code(&lines.iter().map(|&(line, size)| ("/home/user/train.py", line, "step", size)).collect::<Vec<_>>())
}

/// A recording of allocations, each given as (file, line, function, size).
fn code(lines: &[(&str, u32, &str, u64)]) -> Arc<Trace> {
    let alloc = |(i, &(file, line, name, size)): (usize, &(&str, u32, &str, u64))| {
        let mut e = event("alloc", (i as u64 + 1) * MIB, size);
        e["frames"] = json!([{"name": name, "filename": file, "line": line}]);
        e
    };
    recording(lines.iter().enumerate().map(alloc).collect(), Vec::new(), defaults())
}

/// A recording with only an end state, with one allocated block.
fn without_history(bytes: u64) -> Arc<Trace> {
    let block = [(0x10_0000, bytes, bytes, "active_allocated")];
    recording(Vec::new(), vec![segment(0x10_0000, 2 * MIB, "small", &block)], defaults())
}

/// Returns the growth as (line, or largest line of a function; new bytes; old bytes).
fn grown(new: &Arc<Trace>, old: &Arc<Trace>) -> Vec<(String, u64, u64)> {
    let check = check(new, Some(old), &[Budget::Growth(ALLOCATED, Growth::Bytes(0))]);
    let Measured::Growth { lines, .. } = &check.verdicts[0].measured else { panic!("expected a growth") };
    let row = |line: &HolderChange| {
        let name = match line.holders.b.as_ref().unwrap().key {
            HolderKey::Line(id) if line.is_function => {
                format!("function of line {}", new.frames.get(id).line)
            }
            HolderKey::Line(id) => format!("line {}", new.frames.get(id).line),
            _ => "no stack".to_owned(),
        };
        (name, line.held().b.bytes, line.held().a.bytes)
    };
    lines.iter().map(row).collect()
}

#[test]
fn a_peak_may_come_to_its_budget_and_not_a_byte_higher() {
    let trace = lines(&[(1, 3 * KIB), (2, 5 * KIB)]);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 8 * KIB)), BudgetStatus::Kept);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 8 * KIB - 1)), BudgetStatus::Exceeded);
    let check = check(&trace, None, &[Budget::Peak(ALLOCATED, 1)]);
    assert!(!check.keeps_all());
    let Measured::Peak { peak, holders, .. } = &check.verdicts[0].measured else { panic!("expected a peak") };
    assert_eq!((peak.peak.bytes, peak.allocated, peak.exact), (8 * KIB, 8 * KIB, true));
    assert_eq!(holders.iter().map(|h: &Holder| h.bytes).collect::<Vec<_>>(), [5 * KIB, 3 * KIB]);
}

#[test]
fn every_kind_of_bytes_has_its_own_peak() {
    let mut freed = at_line("free_requested", 0x10_0000, 1000, 1);
    freed["size"] = json!(1000);
    let events = vec![
        event("segment_alloc", 0x10_0000, 2 * MIB),
        at_line("alloc", 0x10_0000, 1000, 1),
        freed,
        at_line("alloc", 0x10_0400, 1000, 2),
    ];
    let blocks =
        [(0x10_0000, 1024, 1000, "active_pending_free"), (0x10_0400, 1024, 1000, "active_allocated")];
    let trace = recording(events, vec![segment(0x10_0000, 2 * MIB, "small", &blocks)], defaults());
    for (kind, peak) in
        [(ByteKind::Requested, 2000), (ALLOCATED, 1024), (ByteKind::Active, 2048), (RESERVED, 2 * MIB)]
    {
        assert_eq!(status(&trace, None, Budget::Peak(kind, peak)), BudgetStatus::Kept, "{kind:?}");
        assert_eq!(status(&trace, None, Budget::Peak(kind, peak - 1)), BudgetStatus::Exceeded, "{kind:?}");
    }
}

#[test]
fn peaks_include_memory_that_was_live_before_recording() {
    let blocks =
        [(0x10_0000, 64 * KIB, 64 * KIB, "active_allocated"), (0x20_0000, KIB, KIB, "active_allocated")];
    let events = vec![at_line("alloc", 0x20_0000, KIB, 7)];
    let trace = recording(events, vec![segment(0x10_0000, 2 * MIB, "small", &blocks)], defaults());
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 65 * KIB)), BudgetStatus::Kept);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 65 * KIB - 1)), BudgetStatus::Exceeded);
}

#[test]
fn growth_is_counted_from_the_baselines_peak() {
    let old = lines(&[(1, 100 * KIB)]);
    let new = lines(&[(1, 100 * KIB), (2, 10 * KIB)]);
    for (growth, kept) in [
        (Growth::Bytes(0), false),
        (Growth::Bytes(10 * KIB - 1), false),
        (Growth::Bytes(10 * KIB), true),
        (Growth::Bytes(u64::MAX), true),
        (Growth::Percent(0.0), false),
        (Growth::Percent(9.99), false),
        (Growth::Percent(10.0), true),
    ] {
        let expected = if kept { BudgetStatus::Kept } else { BudgetStatus::Exceeded };
        assert_eq!(status(&new, Some(&old), Budget::Growth(ALLOCATED, growth)), expected, "{growth:?}");
    }
    let none = Growth::Bytes(0);
    assert_eq!(
        status(&old, Some(&new), Budget::Growth(ALLOCATED, none)),
        BudgetStatus::Kept,
        "the peak fell"
    );
    assert_eq!(
        status(&new, Some(&new), Budget::Growth(ALLOCATED, none)),
        BudgetStatus::Kept,
        "it did not grow"
    );
}

#[test]
fn a_percentage_is_in_whole_bytes_rounded_down() {
    assert_eq!(Growth::Percent(5.0).over(1000), 50);
    assert_eq!(Growth::Percent(0.1).over(1999), 1);
    assert_eq!(Growth::Percent(250.0).over(2), 5);
    assert_eq!(Growth::Percent(f64::NAN).over(u64::MAX), 0);
    assert_eq!(Growth::Percent(1e6).over(u64::MAX), u64::MAX);
}

#[test]
fn lines_that_grew_are_matched_by_text_and_not_by_id() {
    // In a different order, so that the ids differ.
    let old = lines(&[(3, 4 * KIB), (2, 8 * KIB), (1, 2 * KIB)]);
    let new = lines(&[(1, 2 * KIB), (2, 9 * KIB), (3, 3 * KIB), (4, 16 * KIB)]);
    assert_eq!(
        grown(&new, &old),
        [("line 4".to_owned(), 16 * KIB, 0), ("line 2".to_owned(), 9 * KIB, 8 * KIB)]
    );
    assert_eq!(grown(&old, &old), []);
}

#[test]
fn a_function_whose_lines_moved_is_compared_as_a_whole() {
    let old = lines(&[(10, 64 * KIB), (11, KIB)]);
    // A line was added above, so line 11 now has different code.
    let moved = lines(&[(11, 64 * KIB), (12, KIB)]);
    assert_eq!(grown(&moved, &old), []);
    let grew = lines(&[(11, 64 * KIB), (12, KIB), (13, 2 * KIB)]);
    assert_eq!(grown(&grew, &old), [("function of line 11".to_owned(), 67 * KIB, 65 * KIB)]);
}

#[test]
fn a_line_that_only_went_away_moves_none() {
    let old = lines(&[(1, KIB), (2, KIB)]);
    assert_eq!(grown(&lines(&[(2, 2 * KIB)]), &old), [("line 2".to_owned(), 2 * KIB, KIB)]);
}

#[test]
fn functions_of_the_same_name_are_distinguished_by_file() {
    let old = code(&[("/home/user/a.py", 1, "forward", 4 * KIB), ("/home/user/b.py", 1, "forward", KIB)]);
    let new = code(&[("/home/user/a.py", 1, "forward", 4 * KIB), ("/home/user/b.py", 1, "forward", 2 * KIB)]);
    assert_eq!(grown(&new, &old), [("line 1".to_owned(), 2 * KIB, KIB)]);
}

#[test]
fn another_checkout_has_the_same_lines() {
    let old = code(&[
        ("/builds/1/app/train.py", 1, "step", 4 * KIB),
        ("/builds/1/app/models/net.py", 2, "forward", KIB),
    ]);
    let new = code(&[
        ("/builds/2/app/train.py", 1, "step", 4 * KIB),
        ("/builds/2/app/models/net.py", 2, "forward", 2 * KIB),
    ]);
    assert_eq!(grown(&new, &old), [("line 2".to_owned(), 2 * KIB, KIB)]);
}

#[test]
fn in_one_checkout_a_file_elsewhere_changes_no_name() {
    let old = code(&[("/home/user/app/train.py", 1, "step", 4 * KIB)]);
    // The common directory of all files has changed.
    let new =
        code(&[("/home/user/app/train.py", 1, "step", 5 * KIB), ("/home/user/lib.py", 9, "cache", 2 * KIB)]);
    assert_eq!(
        grown(&new, &old),
        [("line 9".to_owned(), 2 * KIB, 0), ("line 1".to_owned(), 5 * KIB, 4 * KIB)]
    );
}

#[test]
fn a_file_in_another_folder_is_the_same_by_the_end_of_its_path() {
    let optimizer = |folder: &str, size| code(&[(&format!("{folder}/optim/adamw.py"), 14, "step", size)]);
    let main = |file: &str, optimizer: &str, size| {
        code(&[(file, 1, "main", KIB), (&format!("{optimizer}/adamw.py"), 14, "step", size)])
    };
    let line_14 = |new, old| [("line 14".to_owned(), new, old)];
    assert_eq!(grown(&optimizer("/b/src", 2 * KIB), &optimizer("/a/lib/app", KIB)), line_14(2 * KIB, KIB));
    // Two checkouts with different folders, and a copy in the same checkout.
    let old = main("/a/app/train.py", "/a/app/mine", KIB);
    assert_eq!(grown(&main("/b/train.py", "/b/optimizers", 2 * KIB), &old), line_14(2 * KIB, KIB));
    assert_eq!(grown(&main("/a/app/train.py", "/a/app/others", 2 * KIB), &old), line_14(2 * KIB, KIB));
    // A checkout of a package, and the installed package.
    let installed = main("/a/app/train.py", "/v/lib/python3.11/site-packages/mine", KIB);
    assert_eq!(grown(&main("/b/train.py", "/b/src/mine", 2 * KIB), &installed), line_14(2 * KIB, KIB));
    // A different package has a file of the same name.
    let other = main("/a/app/train.py", "/v/lib/python3.11/site-packages/torch/optim", KIB);
    assert_eq!(grown(&main("/b/train.py", "/b/src/mine", 2 * KIB), &other), line_14(2 * KIB, 0));
    // Several files match.
    let two = code(&[("/a/x/adamw.py", 14, "step", KIB), ("/a/y/adamw.py", 14, "step", KIB)]);
    assert_eq!(grown(&optimizer("/b/src", 2 * KIB), &two), line_14(2 * KIB, 0));
}

#[test]
fn allocations_without_a_stack_are_compared_too() {
    let old = recording(vec![event("alloc", MIB, KIB)], Vec::new(), defaults());
    let new = recording(vec![event("alloc", MIB, 3 * KIB)], Vec::new(), defaults());
    assert_eq!(grown(&new, &old), [("no stack".to_owned(), 3 * KIB, KIB)]);
}

#[test]
fn a_line_is_the_same_before_recording_and_after() {
    let mut block = segment(0x10_0000, 2 * MIB, "small", &[(0x10_0000, KIB, KIB, "active_allocated")]);
    let frame = json!([{"name": "step", "filename": "/home/user/train.py", "line": 1}]);
    block["blocks"][0]["frames"] = frame;
    let old = recording(vec![at_line("alloc", 0x90_0000, KIB, 2)], vec![block], defaults());
    let new = lines(&[(1, KIB), (2, 2 * KIB)]);
    assert_eq!(grown(&new, &old), [("line 2".to_owned(), 2 * KIB, KIB)]);
}

#[test]
fn a_device_the_baseline_lacks_is_not_passed() {
    let trace = lines(&[(1, KIB)]);
    let growth = Budget::Growth(ALLOCATED, Growth::Percent(1000.0));
    assert_eq!(status(&trace, None, growth), BudgetStatus::Unknown(Unknown::NoBaseline));
    let unused = recording(Vec::new(), Vec::new(), defaults());
    assert_eq!(status(&unused, None, growth), BudgetStatus::Kept, "an unused device has not grown");
    assert_eq!(status(&trace, Some(&unused), growth), BudgetStatus::Exceeded, "the baseline used none of it");
}

#[test]
fn an_end_state_alone_can_show_an_exceeded_budget_but_not_a_kept_one() {
    let end = without_history(64 * KIB);
    let unknown = BudgetStatus::Unknown(Unknown::NoHistory);
    assert_eq!(status(&end, None, Budget::Peak(ALLOCATED, 63 * KIB)), BudgetStatus::Exceeded);
    assert_eq!(status(&end, None, Budget::Peak(ALLOCATED, 64 * KIB)), unknown);
    assert_eq!(status(&end, None, Budget::Peak(RESERVED, 2 * MIB)), unknown);
    assert_eq!(status(&end, None, Budget::NoLeaks), unknown);
    assert_eq!(status(&end, None, Budget::NoOoms), unknown);
    let recorded = lines(&[(1, KIB)]);
    let growth = Budget::Growth(ALLOCATED, Growth::Bytes(0));
    assert_eq!(status(&end, Some(&recorded), growth), BudgetStatus::Exceeded);
    assert_eq!(status(&without_history(512), Some(&recorded), growth), unknown);
    let in_baseline = BudgetStatus::Unknown(Unknown::NoBaselineHistory);
    assert_eq!(status(&recorded, Some(&end), growth), in_baseline);
    assert_eq!(status(&end, Some(&end), growth), in_baseline);
}

/// The same recording, marked as having dropped its oldest events.
fn overflowed(mut trace: Arc<Trace>) -> Arc<Trace> {
    Arc::make_mut(&mut trace).devices[0].overflowed = Some(true);
    trace
}

#[test]
fn a_budget_is_unknown_if_events_were_dropped() {
    let left = overflowed(lines(&[(1, 64 * KIB)]));
    let unknown = BudgetStatus::Unknown(Unknown::EventsDropped);
    assert_eq!(status(&left, None, Budget::Peak(ALLOCATED, 63 * KIB)), BudgetStatus::Exceeded);
    assert_eq!(status(&left, None, Budget::Peak(ALLOCATED, 64 * KIB)), unknown);
    assert_eq!(status(&left, None, Budget::Peak(RESERVED, 2 * MIB)), unknown);
    assert_eq!(status(&left, None, Budget::NoLeaks), unknown);
    assert_eq!(status(&left, None, Budget::NoOoms), unknown);
    let failed = overflowed(recording(vec![at_line("oom", 0, 2 * MIB, 5)], Vec::new(), defaults()));
    assert_eq!(status(&failed, None, Budget::NoOoms), BudgetStatus::Exceeded);
    // All events were dropped.
    let none = overflowed(recording(Vec::new(), Vec::new(), defaults()));
    assert_eq!(status(&none, None, Budget::Peak(ALLOCATED, 1)), unknown);
}

/// A recording of two allocations at its peak of 96 KiB, of which the second is freed, and of a third one.
fn with_a_peak() -> Arc<Trace> {
    let events = vec![
        at_line("alloc", MIB, 64 * KIB, 1),
        at_line("alloc", 2 * MIB, 32 * KIB, 2),
        at_line("free_requested", 2 * MIB, 32 * KIB, 2),
        at_line("free_completed", 2 * MIB, 32 * KIB, 2),
        at_line("alloc", 3 * MIB, 8 * KIB, 3),
    ];
    recording(events, Vec::new(), defaults())
}

/// The rule for each kind of budget: a part that is missing makes a verdict unknown if it could change it.
#[test]
fn a_missing_part_makes_a_verdict_unknown_if_it_could_change_it() {
    use BudgetStatus::{Exceeded, Kept};
    let unknown = BudgetStatus::Unknown;
    let with = |change: fn(&mut Trace)| {
        let mut trace = with_a_peak();
        change(Arc::make_mut(&mut trace));
        trace
    };
    let resized = |size: u64, free: u64| {
        let mut events = vec![at_line("alloc", MIB, 64 * KIB, 1), at_line("alloc", 2 * MIB, 32 * KIB, 2)];
        events.push(at_line("free_completed", 2 * MIB, 32 * KIB, 2));
        events.push(at_line("alloc", 3 * MIB, size, 3));
        events.push(at_line("free_completed", 3 * MIB, free, 3));
        recording(events, Vec::new(), defaults())
    };
    let gap = |start: usize, end: usize| {
        let mut trace = with_a_peak();
        Arc::make_mut(&mut trace).devices[0].gap = Some(start..end);
        trace
    };
    let freed_twice = {
        let twice = || at_line("free_completed", 2 * MIB, 32 * KIB, 2);
        let events =
            [at_line("alloc", MIB, 64 * KIB, 1), at_line("alloc", 2 * MIB, 32 * KIB, 2), twice(), twice()];
        recording(events.to_vec(), Vec::new(), defaults())
    };
    let dropped = unknown(Unknown::EventsDropped);
    let [damaged, early, wrong] =
        [Unknown::Damaged, Unknown::EndsEarly, Unknown::Contradictions].map(BudgetStatus::Unknown);
    // Limits on the peak at it, right below it, and far below it; on leaks; on failed requests.
    for (missing, trace, expected) in [
        ("nothing", with_a_peak(), [Kept, Exceeded, Exceeded, Kept, Kept]),
        ("the first events", overflowed(with_a_peak()), [dropped, Exceeded, Exceeded, dropped, dropped]),
        ("the last events", with(|t| t.ends_early = true), [early, Exceeded, Exceeded, early, early]),
        // The block that is never freed may have been freed in the gap, and is certain up to there.
        ("between the allocations", gap(1, 1), [damaged, damaged, Exceeded, damaged, damaged]),
        ("before all", gap(0, 0), [damaged, Exceeded, Exceeded, damaged, damaged]),
        ("after the peak", gap(2, 2), [damaged, Exceeded, Exceeded, damaged, damaged]),
        ("after the last event", gap(5, 5), [damaged, Exceeded, Exceeded, damaged, damaged]),
        ("anywhere", gap(0, 5), [damaged, damaged, damaged, damaged, damaged]),
        ("half of a size", resized(16 * KIB, 32 * KIB), [wrong, wrong, Exceeded, wrong, wrong]),
        ("a wrong bit of a size", resized(40 * KIB, 8 * KIB), [wrong, wrong, Exceeded, wrong, wrong]),
        ("an allocation", freed_twice, [wrong, wrong, Exceeded, wrong, wrong]),
    ] {
        let budgets = [
            Budget::Peak(ALLOCATED, 96 * KIB),
            Budget::Peak(ALLOCATED, 96 * KIB - 1),
            Budget::Peak(ALLOCATED, 40 * KIB),
            Budget::NoLeaks,
            Budget::NoOoms,
        ];
        let found: Vec<_> = check(&trace, None, &budgets).verdicts.iter().map(|v| v.status).collect();
        assert_eq!(found, expected, "{missing}");
    }
    // A failed request that was read happened.
    let mut failed = recording(vec![at_line("oom", 0, 2 * MIB, 5)], Vec::new(), defaults());
    let trace = Arc::make_mut(&mut failed);
    (trace.devices[0].gap, trace.ends_early) = (Some(0..1), true);
    assert_eq!(status(&failed, None, Budget::NoOoms), Exceeded);
}

#[test]
fn the_recorders_own_count_is_a_lower_bound() {
    let mut trace = with_a_peak();
    Arc::make_mut(&mut trace).devices[0].counted_peak = Some(100 * KIB);
    let more = BudgetStatus::Unknown(Unknown::CountedMore);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 100 * KIB)), BudgetStatus::Kept);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 99 * KIB)), more);
    assert_eq!(status(&trace, None, Budget::Peak(ALLOCATED, 95 * KIB)), BudgetStatus::Exceeded);
}

#[test]
fn a_failed_request_may_be_an_event_of_an_unknown_kind() {
    let mut unclear = at_line("oom", 0, 2 * MIB, 5);
    unclear["action"] = json!("oon");
    let trace = recording(vec![at_line("alloc", MIB, KIB, 1), unclear], Vec::new(), defaults());
    assert_eq!(status(&trace, None, Budget::NoOoms), BudgetStatus::Unknown(Unknown::UnknownEvents));
    let other = recording(vec![at_line("segment_move", MIB, KIB, 1)], Vec::new(), defaults());
    assert_eq!(status(&other, None, Budget::NoOoms), BudgetStatus::Kept);
}

#[test]
fn a_damaged_baseline_allows_what_it_allows_for_certain() {
    let (whole, growth) = (with_a_peak(), Budget::Growth(ALLOCATED, Growth::Bytes(0)));
    let incomplete = BudgetStatus::Unknown(Unknown::BaselineIncomplete);
    let mut damaged = with_a_peak();
    Arc::make_mut(&mut damaged).devices[0].gap = Some(1..1);
    // Its peak was at least 64 KiB.
    for (bytes, expected) in [(64 * KIB, BudgetStatus::Kept), (65 * KIB, incomplete), (1 << 40, incomplete)] {
        assert_eq!(status(&lines(&[(1, bytes)]), Some(&damaged), growth), expected, "{bytes}");
    }
    let mut early = with_a_peak();
    Arc::make_mut(&mut early).ends_early = true;
    assert_eq!(status(&whole, Some(&early), growth), BudgetStatus::Kept);
    assert_eq!(status(&lines(&[(1, 97 * KIB)]), Some(&early), growth), incomplete);
}

#[test]
fn growth_is_known_only_as_far_as_both_peaks_are() {
    let (small, large) = (lines(&[(1, 64 * KIB)]), lines(&[(1, 65 * KIB)]));
    let growth = Budget::Growth(ALLOCATED, Growth::Bytes(0));
    let unknown = BudgetStatus::Unknown(Unknown::EventsDropped);
    assert_eq!(status(&overflowed(small.clone()), Some(&small), growth), unknown);
    assert_eq!(status(&overflowed(large.clone()), Some(&small), growth), BudgetStatus::Exceeded);
    // The baseline's peak was at least that of the remaining events.
    let baseline = overflowed(small.clone());
    assert_eq!(
        status(&large, Some(&baseline), growth),
        BudgetStatus::Unknown(Unknown::BaselineEventsDropped)
    );
    assert_eq!(status(&small, Some(&baseline), growth), BudgetStatus::Kept);
    assert_eq!(status(&overflowed(small), Some(&baseline), growth), unknown);
}

#[test]
fn a_leak_is_a_finding_with_its_line() {
    let mut p = Program::default();
    for _ in 0..40 {
        p.step();
        p.alloc(99, 4 * KIB);
    }
    let leaking = recording(p.events, Vec::new(), defaults());
    let check = check(&leaking, None, &[Budget::NoLeaks]);
    let Measured::Leaks(suspects) = &check.verdicts[0].measured else { panic!("expected leaks") };
    assert_eq!(suspects.iter().map(|s| leaking.frames.get(s.line).line).collect::<Vec<_>>(), [99]);
    assert_eq!(check.verdicts[0].status, BudgetStatus::Exceeded);

    let mut p = Program::default();
    for _ in 0..40 {
        p.step();
    }
    let quiet = recording(p.events, Vec::new(), defaults());
    assert_eq!(status(&quiet, None, Budget::NoLeaks), BudgetStatus::Kept);
}

#[test]
fn the_budget_no_leaks_is_unknown_without_stacks() {
    let trace = recording(vec![event("alloc", MIB, KIB)], Vec::new(), defaults());
    assert_eq!(status(&trace, None, Budget::NoLeaks), BudgetStatus::Unknown(Unknown::NoStacks));
    assert_eq!(status(&trace, None, Budget::NoOoms), BudgetStatus::Kept);
    assert_eq!(status(&lines(&[(1, KIB)]), None, Budget::NoLeaks), BudgetStatus::Kept);
    // The stack of a free is not the stack of an allocation.
    let freed = recording(vec![at_line("free_completed", MIB, KIB, 1)], Vec::new(), defaults());
    assert_eq!(status(&freed, None, Budget::NoLeaks), BudgetStatus::Unknown(Unknown::NoStacks));
}

#[test]
fn an_out_of_memory_is_a_finding_only_with_the_budget_no_ooms() {
    let mut oom = at_line("oom", 0, 2 * MIB, 5);
    oom["device_free"] = json!(512);
    let trace = recording(vec![at_line("alloc", MIB, KIB, 1), oom], Vec::new(), defaults());
    let check = check(&trace, None, &[Budget::NoOoms, Budget::Peak(ALLOCATED, KIB)]);
    assert_eq!(
        [check.verdicts[0].status, check.verdicts[1].status],
        [BudgetStatus::Exceeded, BudgetStatus::Kept]
    );
    assert_eq!(check.ooms, 1);
    let Measured::Ooms { explained, more: 0 } = &check.verdicts[0].measured else {
        panic!("expected failed requests")
    };
    assert_eq!((explained[0].event, explained[0].request.bytes, explained[0].device_free), (1, 2 * MIB, 512));
}

#[test]
fn an_inexact_number_is_marked() {
    let exact = |segments: Vec<Value>, settings: Value, kind| {
        let trace = recording(vec![at_line("alloc", MIB, KIB, 1)], segments, settings);
        let check = check(&trace, None, &[Budget::Peak(kind, 0)]);
        let Measured::Peak { peak, .. } = check.verdicts[0].measured else { panic!("expected a peak") };
        peak.exact
    };
    let segments = || vec![segment(MIB, 2 * MIB, "small", &[(MIB, KIB, KIB, "active_allocated")])];
    assert!(exact(segments(), defaults(), ALLOCATED));
    assert!(exact(segments(), defaults(), RESERVED));
    // Without settings, the rounding is assumed; segments are recorded as they are.
    assert!(!exact(segments(), Value::Null, ALLOCATED));
    assert!(exact(segments(), Value::Null, RESERVED));
    assert!(!exact(Vec::new(), defaults(), RESERVED), "more bytes are in use than reserved");
}

/// One recording of two devices: each has its own verdicts.
#[test]
fn each_device_has_verdicts_of_its_own() {
    let events = |size| vec![at_line("alloc", MIB, size, 1)];
    let snapshot = json!({"segments": [], "device_traces": [events(KIB), events(3 * KIB)], "allocator_settings": defaults()});
    let trace = formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    let frames = Frames::of(&trace);
    let checks = (0..trace.devices.len()).map(|position| {
        let recorded = DeviceHistory { history: &History::replayed(&trace, position), frames: &frames };
        let budgets = [Budget::Peak(ALLOCATED, 2 * KIB)];
        let check = BudgetCheck::of(recorded, None, &budgets, &Cancel::default()).unwrap();
        (check.device, check.keeps_all())
    });
    assert_eq!(checks.collect::<Vec<_>>(), [(0, true), (1, false)]);
}
