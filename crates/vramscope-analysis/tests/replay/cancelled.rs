//! Questions that nobody waits for any more end without an answer.

use std::sync::Arc;

use vramscope_analysis::{
    Axis, ByteKind, Cancel, DeviceReplay, Frames, History, Options, ReplayError, ReplayOptions, Summary,
    Timeline, Window,
};

use crate::{MIB, alloc, free, recording};

#[test]
fn a_replay_that_is_cancelled_has_no_answer() {
    let events: Vec<_> = (1..=200).flat_map(|n| [alloc(n, n * MIB), free(n)]).collect();
    let trace = recording(&events, &[]);
    let frames = Frames::of(&trace);
    let options = ReplayOptions::default();
    let answer = |done: &(dyn Fn() + Sync)| DeviceReplay::of(&trace, 0, &frames, &options, done);
    assert!(answer(&|| {}).is_ok());
    // While the table of settings is being made.
    let cancelled = answer(&|| options.cancel.cancel());
    assert_eq!(cancelled.map(|_| ()), Err(ReplayError::Cancelled));
    // Before anything was done: no setting is tried.
    let cancelled = answer(&|| unreachable!("a setting was tried"));
    assert_eq!(cancelled.map(|_| ()), Err(ReplayError::Cancelled));
}

#[test]
fn a_picture_that_is_cancelled_is_not_drawn() {
    let events: Vec<_> = (1..=20).map(|n| alloc(n, n * MIB)).collect();
    let trace = recording(&events, &[]);
    let history = Arc::new(History::of(&trace, 0));
    let timeline = Timeline::of(history);
    let window = Window {
        stacked: ByteKind::Allocated,
        axis: Axis::Events,
        from: 0.0,
        to: 20.0,
        width: 40,
        height: 30,
        low: 0.0,
        high: None,
        fit_reserved: false,
    };
    let cancel = Cancel::default();
    assert_eq!(timeline.view_unless(&window, &cancel), Some(timeline.view(&window)));
    cancel.clone().cancel();
    assert_eq!(timeline.view_unless(&window, &cancel), None);
}

#[test]
fn a_history_and_a_report_that_are_cancelled_are_not_made() {
    // The blocks are gone by the end, and what lay behind them is not known: a replay is asked for their sizes.
    let mut events: Vec<_> = (1..=200).flat_map(|n| [alloc(n, n * MIB + 1), free(n)]).collect();
    events.push(
        serde_json::json!({"action": "oom", "addr": 0, "size": 1u64 << 40, "stream": 0, "device_free": MIB}),
    );
    let trace = recording(&events, &[]);
    let frames = Frames::of(&trace);
    let cancel = Cancel::default();
    let history = History::replayed_unless(&trace, 0, &cancel).unwrap();
    assert_eq!(history.quality, History::replayed(&trace, 0).quality);
    let ask = |cancel: &Cancel| Summary::of_history_unless(&history, &frames, &Options::default(), cancel);
    let answered = ask(&cancel).unwrap();
    assert_eq!(answered.peaks, Summary::of(&trace, 0, &frames, &Options::default()).peaks);
    assert!(answered.best_setting.is_some());
    cancel.cancel();
    assert!(History::replayed_unless(&trace, 0, &cancel).is_none());
    assert!(ask(&cancel).is_none());
}
