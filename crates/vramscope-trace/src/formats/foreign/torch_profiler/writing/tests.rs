use super::*;
use crate::formats::Reader;
use crate::ids::LaunchId;
use crate::operators::OperatorLane;

fn written(trace: &OperatorTrace) -> String {
    let mut out = Vec::new();
    write_operators(trace, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn read(text: &str) -> OperatorTrace {
    Reader::new(text.as_bytes()).read_operators().unwrap()
}

#[test]
fn a_written_trace_is_the_same_when_read() {
    let span = |cat: &str, name: &str, tid: u32, ts: &str, dur: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{"device": 2, "stream": {tid}}}}}"#
        )
    };
    let launching = |cat: &str, name: &str, tid: u32, ts: u64, correlation: u32| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "tid": {tid}, "ts": {ts}, "dur": 1, "args": {{"device": 2, "stream": {tid},
                "correlation": {correlation}}}}}"#
        )
    };
    let rows = [
        span("user_annotation", "step \\\"1\\\" </script>", 5, "4860790065696.236", "104.565"),
        span("python_function", "train.py(3): step", 5, "4860790065697", "1e2"),
        span("cpu_op", "aten::\u{e4}", 5, "4860790065698.001", "0"),
        span("gpu_user_annotation", "step", 7, "4860790065700", "0.001"),
        span("gpu_memcpy", "Memcpy HtoD", 7, "4860790065701", "12.5"),
        span("kernel", "ncclDevKernel_AllReduce", 20, "4860790065701", "12.5"),
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 5, "ts": 4860790065710, "dur": 9, "args": {"External id": 70}}"#
            .to_owned(),
        launching("cuda_runtime", "cudaLaunchKernel", 5, 4_860_790_065_711, 33),
        launching("cuda_runtime", "cudaGraphLaunch", 5, 4_860_790_065_720, 34),
        launching("kernel", "gemm", 7, 4_860_790_065_730, 33),
        launching("kernel", "in a graph", 7, 4_860_790_065_740, 34),
        launching("kernel", "in a graph", 7, 4_860_790_065_750, 34),
        r#"{"ph": "X", "cat": "kernel", "name": "of an operator", "tid": 7, "ts": 4860790065760, "dur": 9,
               "args": {"device": 2, "stream": 7, "External id": 70}}"#
            .to_owned(),
        r#"{"ph": "M", "name": "thread_name", "tid": 5, "args": {"name": "thread 5 (py\"thon)"}}"#.to_owned(),
        r#"{"ph": "i", "name": "[memory]", "tid": 5, "ts": 4860790065600.5, "args": {"Bytes": -512, "Device Id": 2,
               "Device Type": 1, "Addr": 18446744073709551104}}"#
            .to_owned(),
    ];
    let text = format!(
        r#"{{"schemaVersion": 1, "traceEvents": [{}], "baseTimeNanoseconds": 1790857026000000000}}"#,
        rows.join(",")
    );
    let trace = OperatorTrace { left_out: 3, ..read(&text) };
    assert_eq!((trace.lanes.len(), trace.memory.len(), trace.launches.len()), (6, 1, 3));
    let again = read(&written(&trace));
    assert_eq!(again.memory, trace.memory);
    assert_eq!((again.left_out, again.lanes.len()), (3, 6));
    for (one, other) in trace.lanes.iter().zip(&again.lanes) {
        let about = |lane: &OperatorLane| (lane.kind, lane.of, lane.stream, lane.thread_name.clone());
        assert_eq!(about(one), about(other));
        let spans = |trace: &OperatorTrace, lane: &OperatorLane| -> Vec<_> {
            let name = |id| trace.names.get(id).to_owned();
            let launch = |id: LaunchId| trace.launches[id.index()];
            let all = lane.spans.iter();
            all.map(|s| (s.start_ns, s.end_ns, name(s.name), s.launch.map(launch), s.is_call)).collect()
        };
        assert_eq!(spans(&trace, one), spans(&again, other));
    }
}

#[test]
fn an_empty_trace_and_one_of_odd_times_are_written() {
    let empty = written(&OperatorTrace::default());
    assert!(read(&empty).lanes.is_empty());
    let odd = r#"{"schemaVersion": 1, "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "endless", "tid": -2, "ts": -9e16, "dur": 1e300},
            {"ph": "X", "cat": "cpu_op", "name": "late", "tid": -2, "ts": 9e16, "dur": 1}
        ], "baseTimeNanoseconds": -9223372036854775808}"#;
    let again = read(&written(&read(odd)));
    assert_eq!((again.lanes[0].of, again.lanes[0].spans.len()), (-2, 2));
}
