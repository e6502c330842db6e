use super::*;
use crate::formats::Reader;

fn read(events: &str) -> Result<OperatorTrace, ReadError> {
    let text = format!(
        r#"{{"schemaVersion": 1, "traceEvents": [{events}], "baseTimeNanoseconds": 1700000000000000000}}"#
    );
    Reader::new(text.as_bytes()).read_operators()
}

fn span(cat: &str, name: &str, tid: u32, ts: f64, dur: f64) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {ts}, "dur": {dur},
            "args": {{"External id": 4, "device": 1, "stream": {tid}}}}}"#
    )
}

#[test]
fn events_become_lanes_of_threads_and_streams() {
    let events = [
        span("kernel", "gemm", 7, 20.0, 5.0),
        span("gpu_memcpy", "Memcpy HtoD", 7, 10.5, 1.0),
        span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, 21.0, 9.0),
        span("kernel", "ncclKernel_Broadcast", 21, 41.0, 9.0),
        span("gpu_user_annotation", "nccl:all_reduce", 20, 21.0, 9.0),
        span("cpu_op", "aten::empty", 5, 2.0, 1.0),
        span("cpu_op", "aten::zeros", 5, 2.0, 3.0),
        span("cuda_runtime", "cudaMalloc", 5, 2.25, 0.5),
        span("user_annotation", "forward", 5, 0.0, 100.0),
        span("python_function", "train.py(3): step", 5, 0.0, 100.0),
        span("fwdbwd", "not an operator", 5, 0.0, 100.0),
        r#"{"ph": "M", "name": "thread_name", "tid": 5, "ts": 0, "args": {"name": "thread 5 (python)"}}"#
            .to_owned(),
        r#"{"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "tid": 5, "ts": 2.5,
               "args": {"Bytes": 512, "Device Id": 1, "Device Type": 1, "Addr": 4096}}"#
            .to_owned(),
        r#"{"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "tid": 5, "ts": 2.5,
               "args": {"Bytes": 8, "Device Id": -1, "Device Type": 0, "Addr": 1}}"#
            .to_owned(),
    ];
    let trace = read(&events.join(",")).unwrap();
    let lanes: Vec<_> = trace
        .lanes
        .iter()
        .map(|lane| {
            let names: Vec<_> = lane.spans.iter().map(|span| trace.names.get(span.name)).collect();
            (lane.kind, lane.of, lane.stream, lane.thread_name.as_str(), names)
        })
        .collect();
    let nccl = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclKernel_Broadcast"];
    assert_eq!(
        lanes,
        [
            (LaneKind::Annotations, 5, None, "thread 5 (python)", vec!["forward"]),
            (LaneKind::Python, 5, None, "thread 5 (python)", vec!["train.py(3): step"]),
            (
                LaneKind::Operators,
                5,
                None,
                "thread 5 (python)",
                vec!["aten::zeros", "aten::empty", "cudaMalloc"]
            ),
            (LaneKind::DeviceAnnotations, 1, Some(20), "", vec!["nccl:all_reduce"]),
            (LaneKind::Kernels, 1, Some(7), "", vec!["Memcpy HtoD", "gemm"]),
            (LaneKind::Nccl, 1, None, "", nccl.to_vec()),
        ]
    );
    const BASE: i64 = 1_700_000_000_000_000_000;
    let call = trace.lanes[2].spans[2];
    assert_eq!((call.start_ns, call.end_ns), (BASE + 2250, BASE + 2750));
    let change = MemoryChange { at_ns: BASE + 2500, thread: 5, device: 1, address: 4096, bytes: 512 };
    assert_eq!(trace.memory, [change]);
    assert_eq!(trace.range(), Some((BASE, BASE + 100_000)));
}

#[test]
fn a_cut_trace_is_refused_with_the_place() {
    let whole = format!(r#"{{"schemaVersion": 1, "traceEvents": [{}]}}"#, span("cpu_op", "a", 1, 0.0, 1.0));
    for length in 40..whole.len() {
        let error = Reader::new(&whole.as_bytes()[..length]).read_operators().unwrap_err();
        assert!(
            matches!(error, ReadError::DamagedOperators { offset, .. } if offset == length as u64),
            "{error}"
        );
    }
    assert!(Reader::new(whole.as_bytes()).read_operators().is_ok());
}

#[test]
fn other_files_are_no_torch_profiler_traces() {
    for other in [&br#"{"segments": [], "device_traces": []}"#[..], b"time,bytes\n1,2\n", b"", b"\x80\x04N."]
    {
        let error = Reader::new(other).read_operators().unwrap_err();
        assert!(error.to_string().starts_with("not a trace of `torch.profiler`"), "{error}");
    }
}

#[test]
fn invalid_spans_are_ignored() {
    let odd = [
        r#"{"ph": "X", "cat": "cpu_op"}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "far", "ts": 1e300}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "backwards", "tid": {"a": [1]}, "ts": 5, "dur": -3}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "endless", "tid": 2, "ts": 5, "dur": 1e300}"#,
        r#"{"name": "[memory]", "args": {"Bytes": "x", "Device Type": {"a": 1}, "name": [1]}}"#,
        r#"{"ph": "M", "name": "thread_name", "tid": 0, "args": {"name": 7}}"#,
    ];
    let trace = read(&odd.join(",")).unwrap();
    assert!(trace.lanes.iter().flat_map(|lane| &lane.spans).all(|span| span.start_ns <= span.end_ns));
    assert_eq!((trace.lanes.len(), trace.memory.len()), (2, 0));
}

#[test]
fn only_the_largest_of_very_many_lanes_remain() {
    let events: Vec<_> = (0..100).flat_map(|tid| (0..=tid).map(move |n| (tid, n))).collect();
    let events: Vec<_> =
        events.into_iter().map(|(tid, n)| span("cpu_op", "a", tid, f64::from(n), 1.0)).collect();
    let trace = read(&events.join(",")).unwrap();
    assert_eq!((trace.lanes.len(), trace.left_out, trace.lanes[0].of), (MOST_LANES, 36, 99));
}
