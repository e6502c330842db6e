//! Questions that nobody waits for any more end without an answer.

use std::sync::Arc;

use vramscope_analysis::{
    Axis, ByteKind, Cancel, DeviceReplay, Frames, History, ReplayError, ReplayOptions, Timeline, Window,
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
