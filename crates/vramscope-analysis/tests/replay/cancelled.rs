//! Cancelled computations end without a result.

use std::path::Path;
use std::sync::Arc;

use vramscope_analysis::{
    Axis, ByteKind, Cancel, DeviceReplay, Frames, History, Options, PictureWindow, ReplayError,
    ReplayOptions, Summary, Timeline,
};
use vramscope_trace::formats;

use crate::{MIB, alloc, free, recording};

#[test]
fn a_replay_that_is_cancelled_has_no_answer() {
    let events: Vec<_> = (1..=200).flat_map(|n| [alloc(n, n * MIB), free(n)]).collect();
    let trace = recording(&events, &[]);
    let frames = Frames::of(&trace);
    let options = ReplayOptions::default();
    let answer = |done: &(dyn Fn() + Sync)| DeviceReplay::of(&trace, 0, &frames, &options, done);
    assert!(answer(&|| {}).is_ok());
    // While the settings are being tried.
    let cancelled = answer(&|| options.cancel.cancel());
    assert_eq!(cancelled.map(|_| ()), Err(ReplayError::Cancelled));
    // Before the start: no setting is tried.
    let cancelled = answer(&|| unreachable!("a setting was tried"));
    assert_eq!(cancelled.map(|_| ()), Err(ReplayError::Cancelled));
}

#[test]
fn a_picture_that_is_cancelled_is_not_drawn() {
    let events: Vec<_> = (1..=20).map(|n| alloc(n, n * MIB)).collect();
    let trace = recording(&events, &[]);
    let history = Arc::new(History::of(&trace, 0));
    let timeline = Timeline::of(history);
    let window = PictureWindow {
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/oom.pickle");
    let trace = formats::read(std::fs::File::open(path).unwrap()).unwrap().trace;
    let frames = Frames::of(&trace);
    let cancel = Cancel::default();
    let history = History::replayed_unless(&trace, 0, &cancel).unwrap();
    assert_eq!(history.quality, History::replayed(&trace, 0).quality);
    let ask = |cancel: &Cancel| Summary::of_history_unless(&history, &frames, &Options::default(), cancel);
    let answered = ask(&cancel).unwrap();
    assert_eq!(answered.best_setting, Summary::of(&trace, 0, &frames, &Options::default()).best_setting);
    assert!(answered.best_setting.is_some());
    cancel.cancel();
    assert!(History::replayed_unless(&trace, 0, &cancel).is_none());
    assert!(ask(&cancel).is_none());
}
