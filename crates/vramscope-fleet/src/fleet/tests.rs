use proptest::prelude::*;
use vramscope_analysis::{Quality, Recorder};
use vramscope_report::out_of_memory::MainCause;
use vramscope_trace::Notices;

use super::*;
use crate::naming::Rank;
use crate::summary::{
    CELLS, Course, DeviceUsed, Held, Holders, Leak, Oom, Over, PeakAt, Program, RankSummary, Unused,
};

/// A summary with these lines, all of one category.
fn summary(lines: &[(&str, u64)]) -> RankSummary {
    let held = |&(name, bytes): &(&str, u64)| Held {
        name: name.to_owned(),
        place: Some(format!("/home/user/{name}")),
        preexisting: false,
        bytes,
        count: 1,
    };
    let of = |top| Holders { top, rest_bytes: 0, rest_groups: 0 };
    let bytes = lines.iter().map(|(_, bytes)| bytes).sum();
    let peak = PeakAt { bytes, event: Some(1), time_us: Some(7) };
    RankSummary {
        format: "pickle".to_owned(),
        device: 0,
        other_devices: Vec::new(),
        events: 10,
        begin_us: Some(0),
        end_us: Some(100),
        peak_allocated: peak,
        peak_reserved: peak,
        preexisting_bytes: 0,
        oom: None,
        ooms: 0,
        capacity_bytes: None,
        device_use: None,
        lines: of(lines.iter().map(held).collect()),
        categories: of(vec![Held { place: None, ..held(&("activation", bytes)) }]),
        layers: Holders::default(),
        leaks: Vec::new(),
        more_leaks: 0,
        fragmentation_at_peak: None,
        fragmentation_at_most_reserved: None,
        steps: None,
        course: Course { over: Over::Time, allocated_bytes: vec![0; CELLS], reserved_bytes: vec![0; CELLS] },
        release: "2.11".to_owned(),
        settings: Some(BTreeMap::new()),
        program: Program {
            lines: 2,
            sketch: vec![1, 2],
            functions: vec![3],
            files: vec!["train.py".to_owned()],
        },
        quality: Quality::default(),
        peak_at_least: bytes,
        peak_at_most: Some(bytes),
        overflowed: false,
        recorder: Recorder::Torch,
        notices: Notices::default(),
    }
}

fn row(number: u64, summary: RankSummary) -> RankRow {
    let rank = Rank { number, host: None, groups: BTreeMap::new() };
    RankRow { rank, file: format!("rank{number}.pickle"), summary: Ok(Box::new(summary)) }
}

fn oom(time_us: Option<i64>) -> Oom {
    Oom {
        event: 9,
        time_us,
        requested_bytes: 512,
        device_free_bytes: 0,
        allocated_bytes: 100,
        reserved_bytes: 100,
        enough_in_total: false,
        at_limit: false,
        line: None,
        main_cause: MainCause::default(),
        remedy: None,
        best_setting: None,
        growth_per_step: None,
    }
}

/// The ranks of each kind, and whether it is usual.
fn kinds(fleet: &Fleet) -> Vec<(Vec<u64>, bool)> {
    fleet.kinds.iter().map(|kind| (kind.ranks.clone(), kind.is_usual)).collect()
}

#[test]
fn ranks_that_differ_by_little_are_alike() {
    let peaks = [1000, 1020, 1200, 1010, 1000, 1205];
    let rows =
        peaks.iter().zip(0..).map(|(&peak, number)| row(number, summary(&[("a.py:1 f", peak)]))).collect();
    let fleet = Fleet::of(rows, None);
    assert_eq!(kinds(&fleet), [(vec![0, 1, 3, 4], true), (vec![2, 5], true)]);
    assert_eq!(fleet.kinds[1].compared_with, Some(0));
    assert_eq!((fleet.kinds[1].lines[0].bytes, fleet.kinds[1].lines[0].other_bytes), (1200, 1000));
    // Ranks with the same total but different lines do not match.
    let rows = vec![
        row(0, summary(&[("a.py:1 f", 500), ("a.py:2 g", 500)])),
        row(1, summary(&[("a.py:1 f", 500), ("a.py:2 g", 500)])),
        row(2, summary(&[("a.py:1 f", 480), ("a.py:2 g", 520)])),
        row(3, summary(&[("a.py:1 f", 500), ("a.py:2 g", 500)])),
    ];
    let fleet = Fleet::of(rows, None);
    assert_eq!(kinds(&fleet), [(vec![0, 1, 3], true), (vec![2], false)]);
    let lines: Vec<_> = fleet.kinds[1].lines.iter().map(|d| (d.name.as_str(), d.by())).collect();
    assert_eq!(lines, [("a.py:1 f", -20), ("a.py:2 g", 20)]);
    assert_eq!(fleet.kinds[1].categories, []);
}

/// A line may be listed for one rank, and be part of the rest for another.
#[test]
fn a_line_that_may_be_among_the_rest_is_no_difference() {
    let cut = |first: [(&str, u64); 2], rest_bytes: u64| {
        let mut summary = summary(&first);
        summary.lines.rest_bytes = rest_bytes;
        summary.lines.rest_groups = 10;
        let PeakAt { bytes, .. } = &mut summary.peak_allocated;
        *bytes += rest_bytes;
        summary.categories.top[0].bytes += rest_bytes;
        summary
    };
    let rows = vec![
        row(0, cut([("a.py:1 f", 800), ("a.py:2 g", 100)], 900)),
        row(1, cut([("a.py:1 f", 800), ("a.py:3 h", 101)], 899)),
        row(2, cut([("a.py:1 f", 800), ("a.py:3 h", 101)], 899)),
        row(3, cut([("a.py:4 leak", 800), ("a.py:3 h", 101)], 899)),
    ];
    let fleet = Fleet::of(rows, None);
    assert_eq!(kinds(&fleet), [(vec![0, 1, 2], true), (vec![3], false)]);
    let lines: Vec<_> = fleet.kinds[1].lines.iter().map(|d| (d.name.as_str(), d.by())).collect();
    assert_eq!(lines, [("a.py:1 f", -800), ("a.py:4 leak", 800)]);
}

/// Pipeline stages are separate usual kinds; an unusual rank is compared with its stage.
#[test]
fn a_rank_is_compared_with_the_most_similar_kind() {
    let stage = |number: u64| [1000, 2000, 4000][number as usize / 4];
    let rows = (0..12).map(|number| {
        let leak = if number == 5 { 300 } else { 1 };
        row(number, summary(&[("a.py:1 f", stage(number)), ("a.py:9 leak", leak)]))
    });
    let fleet = Fleet::of(rows.collect(), None);
    assert_eq!(
        kinds(&fleet),
        [(vec![0, 1, 2, 3], true), (vec![8, 9, 10, 11], true), (vec![4, 6, 7], true), (vec![5], false)]
    );
    assert_eq!(fleet.kinds[3].compared_with, Some(2));
    assert_eq!((fleet.kinds[3].lines[0].name.as_str(), fleet.kinds[3].lines[0].by()), ("a.py:9 leak", 299));
}

#[test]
fn imbalance_is_reported_by_group() {
    let rows = (0..4).map(|number| {
        let mut row = row(number, summary(&[("a.py:1 f", [100, 100, 300, 100][number as usize])]));
        row.rank.groups = BTreeMap::from([("pp".to_owned(), number / 2), ("tp".to_owned(), 0)]);
        row
    });
    let imbalances = Fleet::of(rows.collect(), None).imbalances.unwrap();
    assert_eq!(
        (imbalances.all.highest_bytes, imbalances.all.mean_bytes, imbalances.all.percent),
        (300, 150, 100.0)
    );
    // A single group has no imbalance between groups.
    assert_eq!(imbalances.between.keys().collect::<Vec<_>>(), ["pp"]);
    assert_eq!(imbalances.between["pp"].percent, 33.33);
    let within: Vec<_> =
        imbalances.groups.iter().map(|g| (g.number, g.ranks.clone(), g.within.percent)).collect();
    assert_eq!(within, [(0, vec![0, 1], 0.0), (1, vec![2, 3], 50.0)]);
}

#[test]
fn out_of_memory_is_in_order_of_time() {
    let times = [Some(50), None, Some(20), None, Some(20)];
    let rows = times.iter().zip(0..).map(|(&time, number)| {
        row(number, RankSummary { oom: Some(oom(time)), ooms: 3, ..summary(&[("a.py:1 f", 100)]) })
    });
    let fleet = Fleet::of(rows.collect(), None);
    let told: Vec<_> = fleet.out_of_memory.iter().map(|o| (o.rank, o.after_first_us, o.more)).collect();
    assert_eq!(told, [(2, Some(0), 2), (4, Some(0), 2), (0, Some(30), 2), (1, None, 2), (3, None, 2)]);
    assert_eq!(fleet.out_of_memory[2].into_recording_us, Some(50));
}

#[test]
fn leaks_fragmentation_and_the_card() {
    let leak = |kept_bytes| Leak {
        name: "a.py:9 leak".to_owned(),
        place: None,
        kept: 2,
        kept_bytes,
        bytes_a_step: Some(kept_bytes / 2),
    };
    let unused = |unusable_bytes| Unused {
        event: None,
        reserved_bytes: 100,
        internal_bytes: 0,
        external_bytes: unusable_bytes,
        whole_segments_bytes: 0,
        unusable_bytes,
    };
    let rows = (0..5).map(|number| {
        row(
            number,
            RankSummary {
                leaks: if number < 2 { vec![leak(10 * (number + 1))] } else { Vec::new() },
                fragmentation_at_most_reserved: Some(unused([10, 11, 16, 9, 12][number as usize])),
                capacity_bytes: [None, Some(150), Some(130), None, None][number as usize],
                ..summary(&[("a.py:1 f", 100 + number)])
            },
        )
    });
    let rows: Vec<RankRow> = rows.collect();
    let fleet = Fleet::of(rows.clone(), None);
    let of = &fleet.leaks[0];
    assert_eq!(
        (&of.ranks[..], of.is_everywhere, of.worst_rank, of.kept_bytes, of.bytes_a_step),
        (&[0, 1][..], false, 1, 20, Some(10))
    );
    assert!(Fleet::of(rows[..2].to_vec(), None).leaks[0].is_everywhere);
    let unused = fleet.fragmentation.unwrap();
    assert_eq!((unused.median.rank, unused.highest.rank, unused.above), (1, 2, vec![2]));
    let card = fleet.card.unwrap();
    assert_eq!(
        (card.rank, card.shown_by_rank, card.capacity_bytes, card.headroom_bytes),
        (4, Some(2), 130, 26)
    );
    let card = Fleet::of(rows, Some(100)).card.unwrap();
    assert_eq!((card.shown_by_rank, card.headroom_bytes), (None, -4));
}

#[test]
fn ranks_of_mixed_programs_settings_and_releases_are_reported() {
    let program = |sketch: &[u64], functions: &[u64]| Program {
        lines: 1,
        sketch: sketch.to_vec(),
        functions: functions.to_vec(),
        files: Vec::new(),
    };
    let settings = |text: &str| {
        Some(BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), text.to_owned())]))
    };
    let plain = summary(&[("a.py:1 f", 100)]);
    let rows = vec![
        row(0, RankSummary { settings: settings("x"), ..plain.clone() }),
        row(1, RankSummary { settings: settings("x"), program: program(&[2, 9], &[]), ..plain.clone() }),
        row(2, RankSummary { settings: settings("y"), program: program(&[5], &[3]), ..plain.clone() }),
        row(
            3,
            RankSummary {
                settings: None,
                program: program(&[6], &[7]),
                release: "2.15".to_owned(),
                ..plain.clone()
            },
        ),
        row(4, RankSummary { settings: settings("x"), program: program(&[], &[]), ..plain }),
    ];
    let mixed = Fleet::of(rows, None).mixed;
    let told =
        |several: &[Variety]| several.iter().map(|v| (v.value.clone(), v.ranks.clone())).collect::<Vec<_>>();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        told(&mixed.settings),
        [(text("b:x"), vec![0, 1, 4]), (None, vec![3]), (text("b:y"), vec![2])]
    );
    assert_eq!(told(&mixed.releases), [(text("2.11"), vec![0, 1, 2, 4]), (text("2.15"), vec![3])]);
    let programs: Vec<_> = mixed.programs.iter().map(|p| (p.relation, p.ranks.clone())).collect();
    assert_eq!(
        programs,
        [(Relation::Same, vec![0, 1]), (Relation::OtherVersion, vec![2]), (Relation::Other, vec![3])]
    );
}

#[test]
fn missing_and_broken_ranks_are_reported() {
    let broken = RankRow { summary: Err("the file is empty".to_owned()), ..row(4, summary(&[])) };
    let fleet = Fleet::of(vec![row(1, summary(&[("a.py:1 f", 1)])), broken.clone()], None);
    assert_eq!(fleet.missing_ranks, [0, 2, 3]);
    assert_eq!((fleet.unread[0].rank, fleet.unread[0].reason.as_str()), (4, "the file is empty"));
    assert_eq!((fleet.rank_count, fleet.read_count), (2, 1));
    let nothing = Fleet::of(vec![broken], None);
    assert!(nothing.peak_allocated.is_none() && nothing.imbalances.is_none() && nothing.kinds.is_empty());
    assert_eq!(Fleet::of(Vec::new(), Some(1)).card, None);
}

/// Numbers in files may have any value.
#[test]
fn sums_of_a_fleet_never_overflow() {
    let rows = (0..3).map(|number| {
        let mut summary = summary(&[("a.py:1 f", 1)]);
        summary.peak_allocated.bytes = u64::MAX - number;
        summary.peak_reserved.bytes = u64::MAX;
        summary.lines.top = vec![Held { bytes: u64::MAX, ..summary.lines.top[0].clone() }; 3];
        summary.lines.rest_bytes = u64::MAX;
        summary.capacity_bytes = Some(number);
        summary.oom = Some(oom(Some(if number == 0 { i64::MIN } else { i64::MAX })));
        row(number * (u64::MAX / 2), summary)
    });
    let fleet = Fleet::of(rows.collect(), None);
    assert_eq!(fleet.card.unwrap().headroom_bytes, i64::MIN);
    assert_eq!(fleet.missing_ranks.len(), MOST_MISSING);
}

proptest! {
    #[test]
    fn the_order_of_files_makes_no_difference(
        ranks in prop::collection::vec((0..5u64, 90..110u64, prop::option::of(0..3i64), 0..6u8), 1..40)
            .prop_map(|ranks| ranks.into_iter().enumerate().collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let make = |&(number, (line, bytes, time, what)): &(usize, (u64, u64, Option<i64>, u8))| {
            let name = format!("a.py:{line} f");
            let mut summary = summary(&[(&name, 10 * bytes), ("a.py:0 g", 100)]);
            summary.oom = Some(oom(time)).filter(|_| what == 1);
            summary.program.sketch = vec![u64::from(what / 3)];
            let mut row = row(number as u64, summary);
            row.rank.groups = BTreeMap::from([("tp".to_owned(), line % 2)]);
            if what == 0 {
                row.summary = Err("broken".to_owned());
            }
            row
        };
        let shuffled: Vec<RankRow> = ranks.iter().map(make).collect();
        let mut sorted = shuffled.clone();
        sorted.sort_by_key(|row| row.rank.number);
        let fleet = Fleet::of(shuffled, None);
        prop_assert_eq!(&fleet, &Fleet::of(sorted, None));
        // Each rank that was read has exactly one kind.
        let mut of_kinds: Vec<u64> = fleet.kinds.iter().flat_map(|kind| kind.ranks.clone()).collect();
        of_kinds.sort_unstable();
        let read: Vec<u64> = fleet.ranks.iter().filter(|row| row.summary.is_ok()).map(|row| row.rank.number).collect();
        prop_assert_eq!(of_kinds, read);
        if let Some(spread) = fleet.peak_allocated {
            let rising = [spread.lowest.bytes, spread.lower_quartile_bytes, spread.median.bytes, spread.upper_quartile_bytes, spread.highest.bytes];
            prop_assert!(rising.is_sorted());
        }
    }
}

#[test]
fn the_use_of_devices_is_that_of_the_ranks_that_have_it() {
    let with = |number, used_bytes, rest_bytes| {
        let (time_us, total_bytes) = (5, 1000);
        let device_use = Some(DeviceUsed { time_us, used_bytes, total_bytes, rest_bytes });
        row(number, RankSummary { device_use, ..summary(&[("a", 100)]) })
    };
    let fleet = Fleet::of(vec![with(0, 500, -7), row(1, summary(&[("a", 100)])), with(2, 400, 90)], None);
    let [used, rest] = [fleet.device_used, fleet.device_rest].map(|spread| spread.unwrap());
    assert_eq!((used.highest, used.lowest.rank), (PeakOfRank { rank: 0, bytes: 500 }, 2));
    assert_eq!((rest.highest, rest.lowest.bytes), (PeakOfRank { rank: 2, bytes: 90 }, 0));
    assert_eq!(Fleet::of(vec![row(1, summary(&[("a", 100)]))], None).device_used, None);
}
