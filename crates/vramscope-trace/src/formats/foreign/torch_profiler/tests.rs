use super::*;
use crate::formats::read;

fn trace(events: &str) -> String {
    format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{events}], "baseTimeNanoseconds": 1000000}}"#
    )
}

fn memory(tid: u32, ts: f64, bytes: i64, kind: i64, device: i64) -> String {
    format!(
        r#"{{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": {tid}, "ts": {ts},
            "args": {{"Total Reserved": 9, "Bytes": {bytes}, "Device Id": {device}, "Device Type": {kind}, "Addr": 4096}}}}"#
    )
}

fn slice(cat: &str, name: &str, tid: u32, ts: f64, dur: f64) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": "x", "tid": {tid}, "ts": {ts}, "dur": {dur}}}"#
    )
}

#[test]
fn stacks_are_the_open_slices_of_the_thread() {
    let events = [
        slice("cpu_op", "aten::empty", 7, 12.0, 2.0),
        slice("python_function", "train.py(3): step", 7, 10.0, 20.0),
        slice("python_function", "train.py(9): other", 7, 15.0, 1.0),
        slice("python_function", "worker.py(1): run", 8, 0.0, 100.0),
        slice("user_annotation", "ProfilerStep#1", 7, 5.0, 50.0),
        memory(7, 20.0, -512, 1, 0),
        memory(7, 13.0, 512, 1, 0),
        memory(8, 14.0, 8, 0, -1),
    ];
    let recording = read(trace(&events.join(",")).as_bytes()).unwrap();
    let trace = &recording.trace;
    assert_eq!((recording.format, trace.devices.len()), (Format::TorchProfiler, 2));
    let rows = |device: usize| -> Vec<_> {
        let events = trace.devices[device].events.iter();
        let names = |stack: Option<_>| -> Vec<_> {
            let frames = stack.map(|id| trace.stacks.get(id)).unwrap_or_default();
            frames.iter().map(|&id| trace.strings.get(trace.frames.get(id).name)).collect()
        };
        events.map(|e| (e.action, e.size, e.time_us, names(e.stack))).collect()
    };
    assert_eq!(
        rows(0),
        [
            (Action::Alloc, 512, Some(1013), vec!["aten::empty", "step"]),
            (Action::Free, 512, Some(1020), vec!["step"]),
        ]
    );
    assert_eq!((trace.devices[1].device, rows(1)), (-1, vec![(Action::Alloc, 8, Some(1014), vec!["run"])]));
    let regions = trace.annotations.as_ref().unwrap();
    let region = |i: usize| (regions[i].stage, trace.strings.get(regions[i].name), regions[i].time_us);
    assert_eq!(region(0), (Stage::Start, "ProfilerStep#1", Some(1005)));
    assert_eq!(region(1), (Stage::End, "ProfilerStep#1", Some(1055)));
}

#[test]
fn a_trace_without_memory_events_is_refused_with_the_reason() {
    let message = read(trace("").as_bytes()).unwrap_err().to_string();
    assert!(message.contains("`torch.profiler` without memory events"), "{message}");
}

#[test]
fn invalid_memory_events_are_ignored() {
    let odd = [
        r#"{"name": "[memory]"}"#,
        r#"{"name": "[memory]", "tid": [1], "args": {"Bytes": "x", "Device Type": {"a": 1}}}"#,
        r#"{"name": "[memory]", "ts": 1e300, "args": {"Bytes": 1, "Device Type": 1}}"#,
        &memory(1, 1.0, 0, 1, 0),
        &memory(1, 1.0, i64::MIN + 1, 12, 3),
    ];
    let recording = read(trace(&odd.join(",")).as_bytes());
    // The sum of sizes is beyond any device.
    assert!(recording.unwrap_err().to_string().contains("2^61"));
    let wrong = trace(&odd[..4].join(","));
    assert_eq!(read(wrong.as_bytes()).unwrap().trace.devices.len(), 0);
}
