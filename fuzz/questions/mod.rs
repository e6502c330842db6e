//! Runs every query on a recording and checks the invariants of all recordings. Used by the fuzz targets and by the test that mutates
//! snapshots. A panic, a hang or runaway memory use is a failure.

use std::sync::Arc;

use vramscope::analysis::{
    Axis, Both, Budget, BudgetCheck, BudgetStatus, By, ByteKind, Cancel, Capacity, DeviceDiff, DeviceHistory,
    DeviceReplay, Frames, Growth, Options, PictureWindow, RecordingFacts, ReplayOptions, Summary, Timeline,
    changed_settings,
};
use vramscope::export::{ExportError, ExportFormat, ExportOptions, Source, Table};
use vramscope::prelude::*;
use vramscope::report::{
    Advice, Answers, CheckAnswers, CheckJson, Compared, DiffAnswers, DiffJson, InfoJson, ReplayAnswers,
    ReplayJson, ReportJson,
};
use vramscope::trace::{Category, Events, Trace};

/// Asks for the memory of other libraries.
fn ask_process(recording: &Recording) {
    let trace = &recording.trace;
    let frames = Frames::of(trace);
    for device in 0..trace.devices.len() {
        let summary = Summary::of(trace, device, &frames, &Options::default());
        let libraries = summary.libraries.expect("the recording has them");
        assert!(libraries.iter().all(|library| library.bytes <= library.peak && library.end <= library.peak));
        if let Some(device_use) = summary.device_use {
            let mut counts = device_use.here.into_iter().chain([device_use.first]);
            assert!(counts.all(|count| count.used <= device_use.highest.used));
        }
    }
}

/// Runs every query on `recording`.
pub(crate) fn ask(recording: &Recording) {
    if recording.trace.process.is_some() {
        ask_process(recording);
    }
    // A pickle, with which answers are compared, has no memory of other libraries.
    let mut recording = recording.clone();
    Arc::make_mut(&mut recording.trace).process = None;
    let recording = &recording;
    let trace = &recording.trace;

    let mut written = Vec::new();
    formats::write_pickle(trace, &mut written).expect("writing into memory cannot fail");
    let mut again = formats::read(&written[..]).expect("the reader accepts the writer's output");
    // Like PyTorch, the writer writes a list for each device below the highest, also for devices that were not recorded.
    let is_empty = |d: &DeviceTrace| {
        let holds = (d.events.len(), d.segments.len(), d.overflowed, d.max_entries, d.total_bytes);
        holds == (0, 0, None, None, None)
    };
    let was_there = |d: &DeviceTrace| trace.devices.iter().any(|known| known.device == d.device);
    Arc::make_mut(&mut again.trace).devices.retain(|d| was_there(d) || !is_empty(d));
    assert!(again.trace == *trace, "the trace changed after a write and a read");

    let frames = Frames::of(trace);
    compare(recording, &again, &frames);
    let devices: Vec<Summary> =
        (0..trace.devices.len()).map(|d| Summary::of(trace, d, &frames, &Options::default())).collect();
    for s in &devices {
        let held: u64 = s.holders.iter().map(|h| h.bytes).sum();
        assert_eq!(held, s.counters.allocated, "holders sum to the allocated bytes");
        assert_eq!(s.counters.allocated, s.peaks.allocated.bytes, "both counts of allocated bytes agree");
    }
    export(trace, &frames, devices.iter().map(|s| s.counters.allocated).sum());
    for s in &devices {
        purposes(s);
    }
    report(recording, &frames, devices, None);
    for by in [By::Category, By::Layer, By::Step] {
        let options = Options { by: Some(by), ..Options::default() };
        let of = |position| Summary::of(trace, position, &frames, &options);
        report(recording, &frames, (0..trace.devices.len()).map(of).collect(), Some(by));
    }
    let facts = RecordingFacts::of(trace);
    vramscope::report::info("fuzz", recording, &facts);
    is_json(&InfoJson::new("fuzz", recording, &facts));
    budgets(recording, &frames);
    let mut replays = Vec::new();
    for position in 0..trace.devices.len() {
        draw(trace, position);
        let capacity = Some(Capacity { total: 1 << 30, overhead: 1 << 20 });
        let options = ReplayOptions { capacity, ..ReplayOptions::default() };
        let Ok(replayed) = DeviceReplay::of(trace, position, &frames, &options, &|| {}) else { continue };
        assert!(replayed.lower_bounds.active <= replayed.lower_bounds.packed);
        for tried in &replayed.tried {
            let s = tried.outcome.statistics;
            assert!(s.allocated.peak <= s.active.peak && s.active.peak <= s.reserved.peak);
        }
        replays.push(replayed);
    }
    let answers = ReplayAnswers {
        file: "fuzz",
        recording,
        frames: &frames,
        devices: replays,
        advice: Advice::default(),
    };
    vramscope::report::replay(&answers, TextOptions { width: 100, top: 10, full_stacks: false });
    is_json(&ReplayJson::new(&answers));
}

/// Renders the report in every format.
fn report(recording: &Recording, frames: &Frames, devices: Vec<Summary>, by: Option<By>) {
    let answers = Answers {
        file: "fuzz",
        recording,
        frames,
        devices,
        by,
        at: None,
        top: None,
        advice: Advice::default(),
    };
    vramscope::report::report(&answers, TextOptions { width: 100, top: 10, full_stacks: true });
    is_json(&ReportJson::new(&answers));
}

/// Checks that categories and evidence sum to the allocated bytes, and that steps are contiguous.
fn purposes(s: &Summary) {
    let held: u64 = s.categories.iter().map(|h| h.bytes).sum();
    assert_eq!(held, s.counters.allocated, "categories sum to the allocated bytes");
    let told: u64 = s.reasons.iter().map(|t| t.bytes).sum();
    assert_eq!(told, held, "each category has evidence");
    for step in &s.steps.steps {
        assert!(step.from <= step.bytes.peak_moment && step.bytes.peak_moment <= step.to, "{step:?}");
        assert!(
            step.bytes.peak <= s.peaks.allocated.bytes,
            "no step has a higher peak than the run: {step:?}"
        );
    }
    assert!(s.steps.steps.windows(2).all(|two| two[0].to == two[1].from), "steps are contiguous");
}

/// Compares a recording with itself and with its first half.
fn compare(recording: &Recording, again: &Recording, frames: &Frames) {
    let trace = &recording.trace;
    let mut half = recording.clone();
    for device in &mut Arc::make_mut(&mut half.trace).devices {
        let mut events = Events::default();
        device.events.iter().take(device.events.len() / 2).for_each(|event| events.push(event));
        device.events = events;
    }
    let of = |other: &Recording| -> Vec<DeviceDiff> {
        let others = Frames::of(&other.trace);
        let diff = |position| {
            let [a, b] = [trace, &other.trace].map(|trace| History::replayed(trace, position));
            let a = DeviceHistory { history: &a, frames };
            let b = DeviceHistory { history: &b, frames: &others };
            DeviceDiff::of(Both { a, b }, Both::default(), &Cancel::default()).expect("never cancelled")
        };
        (0..trace.devices.len()).map(diff).collect()
    };
    for diff in of(again) {
        assert!(diff.is_same(), "a recording is the same as itself");
        assert!(
            diff.difference.findings.is_empty(),
            "and has no findings against itself: {:?}",
            diff.difference.findings
        );
    }
    let compared = |recording| Compared { file: "fuzz", recording, frames };
    let answers = DiffAnswers {
        recordings: Both { a: compared(recording), b: compared(&half) },
        devices: of(&half),
        only: Both { a: Vec::new(), b: vec![7] },
        settings: changed_settings(Both { a: trace, b: &half.trace }),
        at: None,
        advice: Advice::default(),
        promised: Some(1 << 20),
    };
    vramscope::report::diff(&answers, TextOptions { width: 100, top: 10, full_stacks: false });
    is_json(&DiffJson::new(&answers));
}

/// Checks that a strict parser accepts the JSON output.
fn is_json(answer: &impl serde::Serialize) {
    let mut out = Vec::new();
    vramscope::report::write_json(&mut out, answer).expect("writing into memory cannot fail");
    serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("valid JSON");
}

/// Checks budgets that only an empty recording meets, with the recording as its own baseline, in every format.
fn budgets(recording: &Recording, frames: &Frames) {
    let trace = &recording.trace;
    let mut budgets = vec![Budget::NoLeaks, Budget::NoOoms];
    for kind in ByteKind::ALL {
        budgets.extend([Budget::Peak(kind, 0), Budget::Growth(kind, Growth::Bytes(0))]);
    }
    budgets.extend(Category::ALL.map(|category| Budget::Category(category, 0)));
    let check = |position| {
        let recorded = DeviceHistory { history: &History::replayed(trace, position), frames };
        let check = BudgetCheck::of(recorded, Some(recorded), &budgets, &Cancel::default());
        let check = check.expect("never cancelled");
        for (budget, verdict) in budgets.iter().zip(&check.verdicts) {
            let grew = matches!(budget, Budget::Growth(..)) && verdict.status == BudgetStatus::Exceeded;
            assert!(!grew, "a recording shows no growth over itself");
        }
        check
    };
    let answers = CheckAnswers {
        file: "fuzz",
        recording,
        frames,
        baseline: Some("fuzz"),
        devices: (0..trace.devices.len()).map(check).collect(),
        only_in_baseline: Vec::new(),
        advice: Advice::default(),
    };
    let options = TextOptions { width: 100, top: 5, full_stacks: false };
    vramscope::report::check(&answers, options);
    vramscope::report::junit(&answers, options).expect("writing into memory cannot fail");
    is_json(&CheckJson::new(&answers));
}

/// Writes every format and table. The folded stacks sum to the allocated bytes.
fn export(trace: &Arc<Trace>, frames: &Frames, allocated: u64) {
    let source = Source { trace, frames, devices: (0..trace.devices.len()).collect() };
    let write = |format, table| {
        let mut out = Vec::new();
        let options = ExportOptions { table, ..ExportOptions::default() };
        match vramscope::export::write(&source, format, &options, &mut out) {
            Ok(written) => assert_eq!(written.bytes, out.len() as u64),
            Err(ExportError::NothingAllocated) => assert_eq!(allocated, 0),
            Err(ExportError::NoTime | ExportError::NotCuda) => assert_eq!(format, ExportFormat::Log),
            Err(e) => panic!("writing into memory cannot fail: {e}"),
        }
        if format == ExportFormat::Log && !out.is_empty() {
            let events = |trace: &Trace| trace.devices.iter().map(|d| d.events.len()).sum::<usize>();
            match vramscope::trace::formats::read(&out[..]) {
                Ok(read) => assert_eq!(events(&read.trace), events(trace), "a log has every event"),
                // The state at the start adds its sizes to those of the events, which may be near the reader's limit.
                Err(e) => assert!(e.to_string().contains("beyond any device"), "a log is read back: {e}"),
            }
        }
        if format == ExportFormat::Chrome {
            serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("valid JSON");
        }
        out
    };
    for format in ExportFormat::ALL {
        write(format, Table::Events);
    }
    for table in [Table::Allocations, Table::Segments] {
        write(ExportFormat::Csv, table);
        write(ExportFormat::Parquet, table);
    }
    let folded = String::from_utf8(write(ExportFormat::Folded, Table::Events)).expect("valid UTF-8");
    let bytes =
        folded.lines().map(|l| l.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a count"));
    assert_eq!(bytes.sum::<u64>(), allocated, "stacks sum to the allocated bytes");
}

/// Draws the whole timeline and a part of it, along both axes.
fn draw(trace: &Arc<Trace>, position: usize) {
    let history = Arc::new(History::of(trace, position));
    let timeline = Timeline::of(Arc::clone(&history));
    for (axis, whole) in
        [(Axis::Events, timeline.moments() as f64), (Axis::Time, timeline.duration().unwrap_or(0) as f64)]
    {
        for (from, to) in [(0.0, whole.max(1.0)), (whole * 0.4, whole * 0.6 + 1.0)] {
            for stacked in ByteKind::ALL {
                let window = PictureWindow {
                    stacked,
                    axis,
                    from,
                    to,
                    width: 50,
                    height: 20,
                    low: 0.0,
                    high: None,
                    fit_reserved: false,
                };
                let view = timeline.view(&window);
                let highest = view.highest[stacked as usize].iter().max().copied().unwrap_or(0);
                let peaks = history.peaks();
                let peak = [peaks.requested, peaks.allocated, peaks.active, peaks.reserved][stacked as usize];
                assert!(highest <= peak.bytes, "the drawing never exceeds the peak");
            }
        }
    }
}
