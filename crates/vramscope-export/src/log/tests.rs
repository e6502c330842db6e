use std::sync::Arc;

use vramscope_analysis::{Frames, History};
use vramscope_trace::formats;

use crate::{ExportError, ExportFormat, ExportOptions, Source, testing, write};

#[test]
fn a_log_keeps_what_is_missing() {
    let mut trace = (*testing::two_devices()).clone();
    let events = trace.devices[1].events.len();
    (trace.devices[0].gap, trace.devices[1].gap, trace.ends_early) = (Some(1..2), Some(events..events), true);
    let (log, _) = testing::export(&Arc::new(trace), ExportFormat::Log, &ExportOptions::default());
    let read = formats::read(&log[..]).unwrap().trace;
    assert!(read.ends_early);
    assert_eq!(read.devices[0].gap.as_ref().map(|gap| gap.start), Some(1));
    // Places of the file that are damaged before a device's first event may have had its events, too.
    assert_eq!(read.devices[1].gap, Some(0..events));
}

#[test]
fn a_log_keeps_events_and_the_end_state() {
    let trace = testing::two_devices();
    let (log, written) = testing::export(&trace, ExportFormat::Log, &ExportOptions::default());
    assert_eq!(written.rows, 8);
    let read = formats::read(&log[..]).unwrap();
    assert!(read.notices.to_string().is_empty(), "{}", read.notices);
    assert_eq!(trace.devices.len(), read.trace.devices.len());
    for (position, (before, after)) in trace.devices.iter().zip(&read.trace.devices).enumerate() {
        assert_eq!(before.events.len(), after.events.len());
        assert_eq!(before.segments.len(), after.segments.len());
        let sizes = |d: &vramscope_trace::DeviceTrace| -> Vec<_> {
            d.blocks.iter().map(|b| (b.address, b.size, b.state)).collect()
        };
        assert_eq!(sizes(before), sizes(after));
        let peaks = |trace| History::replayed(trace, position).peaks();
        assert_eq!(peaks(&trace), peaks(&read.trace));
    }
    let names = |trace: &vramscope_trace::Trace| -> Vec<_> {
        let annotations = trace.annotations.iter().flatten();
        annotations.map(|a| (a.stage, trace.strings.get(a.name).to_owned(), a.time_us)).collect()
    };
    assert_eq!(names(&read.trace), names(&trace));
    // The same bytes each time.
    assert_eq!(log, testing::export(&trace, ExportFormat::Log, &ExportOptions::default()).0);
}

#[test]
fn a_log_cannot_lack_times() {
    let alloc = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0});
    let trace = testing::read(&serde_json::json!({"segments": [], "device_traces": [[alloc]]}));
    let written = |trace: &Arc<_>| {
        let frames = Frames::of(trace);
        let source = Source { trace, frames: &frames, devices: vec![0] };
        write(&source, ExportFormat::Log, &ExportOptions::default(), &mut Vec::new())
    };
    assert!(matches!(written(&trace), Err(ExportError::NoTime)));
    let mut npu = Arc::clone(&trace);
    Arc::make_mut(&mut npu).kind = vramscope_trace::DeviceKind::Npu;
    assert!(matches!(written(&npu), Err(ExportError::NotCuda)));
}
