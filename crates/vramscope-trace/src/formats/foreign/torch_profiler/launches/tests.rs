use crate::formats::Reader;
use crate::operators::{OperatorTrace, SpanAt};

fn row(cat: &str, name: &str, tid: i64, ts: f64, dur: f64, args: &str) -> String {
    format!(
        r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
    )
}

fn read(rows: &[String]) -> OperatorTrace {
    let text = format!(r#"{{"schemaVersion": 1, "traceEvents": [{}]}}"#, rows.join(","));
    Reader::new(text.as_bytes()).read_operators().unwrap()
}

/// For each kernel, its name, its call and its operator.
fn launched(trace: &OperatorTrace) -> Vec<[&str; 3]> {
    let name = |at: SpanAt| trace.names.get(trace.lanes[at.lane as usize].spans[at.span as usize].name);
    let kernels = trace.lanes.iter().filter(|lane| lane.stream.is_some()).flat_map(|lane| &lane.spans);
    kernels
        .map(|kernel| {
            let launch = kernel.launch.map(|id| trace.launches[id.index()]);
            let of = |at: Option<SpanAt>| at.map_or("none", name);
            [
                trace.names.get(kernel.name),
                of(launch.and_then(|launch| launch.call)),
                of(launch.and_then(|launch| launch.operator)),
            ]
        })
        .collect()
}

#[test]
fn the_operator_of_a_kernel_is_that_of_its_external_id_or_the_innermost_around_its_call() {
    let device = |ids: &str| format!(r#""device": 0, "stream": 7, {ids}"#);
    let trace = read(&[
        // Kernels may come before their calls.
        row("kernel", "gemm", 7, 20.0, 5.0, &device(r#""correlation": 11, "External id": 3"#)),
        row("kernel", "add", 7, 26.0, 1.0, &device(r#""correlation": 12"#)),
        row("gpu_memcpy", "copy", 7, 27.0, 1.0, &device(r#""correlation": 13, "External id": 99"#)),
        row("gpu_memset", "fill", 7, 28.0, 1.0, &device(r#""External id": 2"#)),
        row("kernel", "graph 1", 7, 29.0, 1.0, &device(r#""correlation": 14"#)),
        row("kernel", "graph 2", 7, 30.0, 1.0, &device(r#""correlation": 14"#)),
        row("kernel", "unknown", 7, 31.0, 1.0, &device(r#""correlation": 98, "External id": 98"#)),
        row("kernel", "without numbers", 7, 32.0, 1.0, &device(r#""queued": 0"#)),
        row("cpu_op", "aten::linear", 5, 0.0, 10.0, r#""External id": 2"#),
        row("cpu_op", "aten::addmm", 5, 1.0, 8.0, r#""External id": 3"#),
        row("cuda_runtime", "cudaLaunchKernel", 5, 2.0, 1.0, r#""correlation": 11, "External id": 3"#),
        row("cuda_driver", "cuLaunchKernel", 5, 4.0, 1.0, r#""correlation": 12"#),
        // After the inner operator, in the outer.
        row("cuda_runtime", "cudaMemcpyAsync", 5, 9.5, 1.0, r#""correlation": 13"#),
        // Outside of any operator.
        row("cuda_runtime", "cudaGraphLaunch", 5, 15.0, 2.0, r#""correlation": 14"#),
        row("cpu_op", "aten::other", 6, 0.0, 40.0, r#""External id": 4"#),
    ]);
    assert_eq!(
        launched(&trace),
        [
            ["gemm", "cudaLaunchKernel", "aten::addmm"],
            ["add", "cuLaunchKernel", "aten::addmm"],
            ["copy", "cudaMemcpyAsync", "aten::linear"],
            ["fill", "none", "aten::linear"],
            ["graph 1", "cudaGraphLaunch", "none"],
            ["graph 2", "cudaGraphLaunch", "none"],
            ["unknown", "none", "none"],
            ["without numbers", "none", "none"],
        ]
    );
    // One launch for both kernels of the graph.
    assert_eq!(trace.launches.len(), 5);
    let calls: Vec<_> = trace.lanes[0].spans.iter().filter(|span| span.is_call).collect();
    assert_eq!(calls.len(), 4);
}

#[test]
fn invalid_correlation_numbers_refer_to_nothing() {
    let odd = [r#""correlation": -1, "External id": 1e300"#, r#""correlation": 0, "External id": 0"#]
        .map(|ids| [row("kernel", "k", 7, 1.0, 1.0, ids), row("cpu_op", "op", 5, 0.0, 9.0, ids)]);
    let trace = read(&odd.concat());
    assert!(trace.launches.is_empty());
    assert!(trace.lanes.iter().flat_map(|lane| &lane.spans).all(|span| span.launch.is_none()));
}
