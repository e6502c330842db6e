//! Pictures of the timeline, each pixel compared with the history.

use std::sync::Arc;

use proptest::prelude::*;
use vramscope_analysis::{
    Axis, ByteKind, Cancel, History, Moment, NO_COLUMN, PictureWindow, RecordedAllocation, Span, Timeline,
};
use vramscope_trace::Category;

use crate::counters::{end_state, simulate, step};
use crate::{defaults, event, recording};

/// The moments that a pixel column covers, found by checking each moment.
fn covered(history: &History, axis: Axis, from: f64, to: f64) -> Vec<usize> {
    let events = &history.device().events;
    let time = |event: usize| (events.get(event).time_us.unwrap() - events.get(0).time_us.unwrap()) as f64;
    let begins = |moment: usize| match (axis, moment) {
        (Axis::Events, _) => moment as f64,
        (Axis::Time, 0) => f64::NEG_INFINITY,
        (Axis::Time, _) => time(moment - 1),
    };
    let moments = events.len() + 1;
    let ends = |moment: usize| match axis {
        Axis::Events => (moment + 1) as f64,
        Axis::Time if moment + 1 < moments => begins(moment + 1),
        Axis::Time => f64::INFINITY,
    };
    let outside = match axis {
        Axis::Events => to <= 0.0 || from >= moments as f64,
        Axis::Time => to < 0.0 || from > time(moments - 2),
    };
    if outside {
        return Vec::new();
    }
    match axis {
        Axis::Events => (0..moments).filter(|&m| ends(m) > from && begins(m) < to).collect(),
        // Moments without duration belong to the end of a column; those at time 0 belong to the first column.
        Axis::Time => (0..moments).filter(|&m| (ends(m) > from || from <= 0.0) && begins(m) <= to).collect(),
    }
}

fn lives(kind: ByteKind, a: &RecordedAllocation, moment: Moment) -> bool {
    match kind {
        ByteKind::Allocated => a.is_allocated_at(moment),
        _ => a.is_active_at(moment),
    }
}

fn bytes_of(kind: ByteKind, a: &RecordedAllocation) -> u64 {
    if kind == ByteKind::Requested { a.requested } else { a.size }
}

fn value(history: &History, kind: ByteKind, moment: usize) -> u64 {
    let c = history.counters_at(Moment::from_index(moment));
    [c.requested, c.allocated, c.active, c.reserved][kind as usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_pixel_shows_what_was_there(
        steps in proptest::collection::vec(step(), 2..90), gaps in proptest::collection::vec(0i64..4, 90),
        cut in 0usize..40, kind in 0usize..4, by_time: bool, at in -0.2f64..1.0, share in 0.01f64..1.3,
        width in 1u16..40, height in 1u16..30, low in 0u64..100_000, high in proptest::option::of(1u64..600_000),
    ) {
        let (mut events, states) = simulate(&steps);
        events.drain(..cut.min(events.len() / 2));
        prop_assume!(!events.is_empty());
        let mut now = 1_000_000;
        for (event, gap) in events.iter_mut().zip(gaps) {
            now += gap;
            event["time_us"] = now.into();
        }
        let trace = recording(events, end_state(states.last().unwrap()), defaults());
        let history = Arc::new(History::of(&trace, 0));
        let timeline = Timeline::of(Arc::clone(&history));

        let (axis, stacked) = (if by_time { Axis::Time } else { Axis::Events }, ByteKind::ALL[kind]);
        let whole = if by_time { timeline.duration().unwrap() as f64 } else { timeline.moments() as f64 }.max(1.0);
        let (from, to) = (at * whole, (at + share) * whole);
        let (low, high) = (low as f64, high.map(|h| (low + h) as f64));
        let window = PictureWindow { stacked, axis, from, to, width, height, low, high, fit_reserved: false };
        let view = timeline.view(&window);
        let picture = &view.picture;
        let high = high.unwrap_or(picture.high);
        prop_assert_eq!((picture.low, picture.high), (low, high));

        let edge = |column: usize| {
            if column == usize::from(width) { to } else { from + column as f64 * (to - from) / f64::from(width) }
        };
        for x in 0..usize::from(width) {
            let moments = covered(&history, axis, edge(x), edge(x + 1));
            for (of, highest) in ByteKind::ALL.into_iter().zip(&view.highest) {
                let most = moments.iter().map(|&m| value(&history, of, m)).max().unwrap_or(0);
                prop_assert_eq!(highest[x], most, "{:?} in column {}: {:?}", of, x, moments);
            }
            if moments.is_empty() {
                prop_assert_eq!(picture.column[x], NO_COLUMN);
                continue;
            }
            let column = picture.column[x] as usize;
            let shown = picture.moment[column] as usize;
            let top = value(&history, stacked, shown);
            prop_assert!(moments.contains(&shown));
            prop_assert_eq!(top, view.highest[kind][x]);

            // The layout at that moment, in order of begin.
            let moment = Moment::from_index(shown);
            let mut live: Vec<(Moment, u32, u64)> = if stacked == ByteKind::Reserved {
                (0u32..).zip(&history.reserved).filter(|(_, r)| r.lives_at(moment)).map(|(id, r)| (r.from, id, r.size)).collect()
            } else {
                (0u32..)
                    .zip(&history.allocations)
                    .filter(|(_, a)| lives(stacked, a, moment))
                    .map(|(id, a)| (a.from, id, bytes_of(stacked, a)))
                    .collect()
            };
            live.sort_unstable();
            let runs = picture.start[column] as usize..picture.start[column + 1] as usize;
            let mut below = 0;
            for run in runs.clone() {
                prop_assert!(picture.end[run] > below && picture.end[run] <= height, "runs rise");
                below = picture.end[run];
            }
            let row_bytes = (high - low) / f64::from(height);
            for row in 0..height {
                let middle = low + (f64::from(row) + 0.5) * row_bytes;
                let mut sum = 0;
                let there = live.iter().find(|(_, _, bytes)| {
                    sum += bytes;
                    sum as f64 > middle
                });
                let painted = runs.clone().find(|&run| row < picture.end[run]);
                let painted = painted.map(|run| picture.things[picture.thing[run] as usize]);
                prop_assert_eq!(painted, there.map(|t| t.1), "row {} of column {}", row, x);
            }
        }
    }

    #[test]
    fn bands_have_the_bytes_at_the_highest_moment_of_each_column(
        steps in proptest::collection::vec(step(), 2..90), cut in 0usize..40, at in -0.2f64..1.0,
        share in 0.01f64..1.3, width in 1u16..40,
    ) {
        let (mut events, states) = simulate(&steps);
        events.drain(..cut.min(events.len() / 2));
        prop_assume!(!events.is_empty());
        let trace = recording(events, end_state(states.last().unwrap()), defaults());
        let history = Arc::new(History::of(&trace, 0));
        let timeline = Timeline::of(Arc::clone(&history));
        let whole = timeline.moments() as f64;
        let (from, to) = (at * whole, (at + share) * whole);
        let category = |id: u32| Category::ALL[id as usize % 5];
        let span = Span { axis: Axis::Events, from, to, width };
        let bands = timeline.bands_unless(&span, category, &Cancel::default()).unwrap();
        let edge = |column: usize| {
            if column == usize::from(width) { to } else { from + column as f64 * (to - from) / f64::from(width) }
        };
        for x in 0..usize::from(width) {
            let moments = covered(&history, Axis::Events, edge(x), edge(x + 1));
            let Some(most) = moments.iter().map(|&m| value(&history, ByteKind::Allocated, m)).max() else {
                prop_assert_eq!(bands.column[x], NO_COLUMN);
                continue;
            };
            let column = bands.column[x] as usize;
            let moment = Moment::from_index(bands.moment[column] as usize);
            prop_assert!(moments.contains(&moment.index()));
            prop_assert_eq!(bands.bytes.iter().map(|(_, bytes)| bytes[column]).sum::<u64>(), most);
            for of in Category::ALL {
                let live = (0u32..).zip(&history.allocations).filter(|&(id, a)| category(id) == of && a.is_allocated_at(moment));
                let band = bands.bytes.iter().find(|(category, _)| *category == of);
                prop_assert_eq!(band.map_or(0, |(_, bytes)| bytes[column]), live.map(|(_, a)| a.size).sum::<u64>());
            }
        }
    }
}

/// A parameter that stays, and two activations; the second begins after the first has ended.
#[test]
fn bands_by_hand() {
    const MIB: u64 = 1 << 20;
    let at = |mib: u64| 0x1000_0000 + mib * MIB;
    let events = vec![
        event("segment_alloc", at(0), 32 * MIB),
        event("alloc", at(0), 4 * MIB),
        event("alloc", at(4), 8 * MIB),
        event("free_requested", at(4), 8 * MIB),
        event("free_completed", at(4), 8 * MIB),
        event("alloc", at(4), 2 * MIB),
    ];
    let trace = recording(events, Vec::new(), defaults());
    let timeline = Timeline::of(Arc::new(History::of(&trace, 0)));
    let category = |id: u32| if id == 0 { Category::Parameter } else { Category::Activation };
    let bands = |from: f64, to: f64, width| {
        let span = Span { axis: Axis::Events, from, to, width };
        let bands = timeline.bands_unless(&span, category, &Cancel::default()).unwrap();
        (bands.column, bands.moment, bands.bytes)
    };
    // A column for each moment: before the first event, and after each of the six.
    let mib = |of: [u64; 7]| of.map(|n| n * MIB).to_vec();
    assert_eq!(
        bands(0.0, 7.0, 7),
        (
            (0..7).collect(),
            (0..7).collect(),
            vec![
                (Category::Parameter, mib([0, 0, 4, 4, 4, 4, 4])),
                (Category::Activation, mib([0, 0, 0, 8, 0, 0, 2])),
            ]
        )
    );
    // One column for all moments shows the peak; a column after the end shows nothing.
    assert_eq!(
        bands(0.0, 14.0, 2),
        (
            vec![0, NO_COLUMN],
            vec![3],
            vec![(Category::Parameter, vec![4 * MIB]), (Category::Activation, vec![8 * MIB])]
        )
    );
}
