//! Writes the timed events of a trace, in the form that `export_chrome_trace` writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use crate::operators::{LaneKind, OperatorSpan, OperatorTrace, SpanAt};

/// Writes a trace of `torch.profiler` with the events of `trace` only. [`Reader::read_operators`](crate::formats::Reader::read_operators)
/// reads the same trace from it.
///
/// # Errors
/// If `out` fails.
pub fn write_operators(trace: &OperatorTrace, mut out: impl Write) -> io::Result<()> {
    let base = trace.range().map_or(0, |(first, _)| first);
    let out = &mut out;
    write!(out, "{{\"schemaVersion\": 1, \"baseTimeNanoseconds\": {base}")?;
    if trace.left_out > 0 {
        write!(out, ", \"{LANES_LEFT_OUT}\": {}", trace.left_out)?;
    }
    out.write_all(b", \"traceEvents\": [")?;
    let operators = trace.launches.iter().filter_map(|launch| launch.operator).collect::<BTreeSet<_>>();
    let operators = operators.into_iter().zip(1..).collect();
    let calls = (1..).zip(&trace.launches).filter_map(|(n, launch)| Some((launch.call?, n))).collect();
    let mut rows = Rows { out: &mut *out, base, operators, calls, is_first: true };
    let named = trace.lanes.iter().filter(|lane| !lane.thread_name.is_empty());
    for (of, name) in named.map(|lane| (lane.of, &lane.thread_name)).collect::<BTreeMap<_, _>>() {
        let name = serde_json::to_string(name)?;
        rows.row(format_args!(
            "\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":{of},\"args\":{{\"name\":{name}}}"
        ))?;
    }
    for lane in 0..trace.lanes.len() {
        rows.lane(trace, lane)?;
    }
    for change in &trace.memory {
        let (at, bytes) = (rows.since_base(change.at_ns), change.bytes);
        let (thread, device, address) = (change.thread, change.device, change.address);
        rows.row(format_args!(
            "\"ph\":\"i\",\"name\":\"[memory]\",\"tid\":{thread},\"ts\":{at},\"args\":{{\"Device Type\":1,\"Device Id\":{device},\
             \"Addr\":{address},\"Bytes\":{bytes}}}"
        ))?;
    }
    out.write_all(b"]}\n")
}

/// The key with the number of lanes that an earlier reader left out.
pub(super) const LANES_LEFT_OUT: &str = "vramscopeLanesLeftOut";

/// Writes rows of `traceEvents`.
struct Rows<'w, W> {
    out: &'w mut W,
    base: i64,
    /// The numbers of operators that launched kernels, and of calls.
    operators: HashMap<SpanAt, u32>,
    calls: HashMap<SpanAt, u32>,
    is_first: bool,
}

impl<W: Write> Rows<'_, W> {
    fn row(&mut self, members: std::fmt::Arguments<'_>) -> io::Result<()> {
        let before = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        write!(self.out, "{before}{{{members}}}")
    }

    /// A time in microseconds since the base time.
    fn since_base(&self, ns: i64) -> Microseconds {
        Microseconds(ns.abs_diff(self.base))
    }

    fn lane(&mut self, trace: &OperatorTrace, position: usize) -> io::Result<()> {
        let lane = &trace.lanes[position];
        let category = match lane.kind {
            LaneKind::Annotations => "user_annotation",
            LaneKind::Python => "python_function",
            LaneKind::Operators => "cpu_op",
            LaneKind::DeviceAnnotations => "gpu_user_annotation",
            LaneKind::Kernels | LaneKind::Nccl => "kernel",
        };
        let stream = lane.stream.unwrap_or_default();
        let (tid, device) = match lane.kind {
            LaneKind::Annotations | LaneKind::Python | LaneKind::Operators => (lane.of, None),
            LaneKind::DeviceAnnotations | LaneKind::Kernels | LaneKind::Nccl => (stream, Some(lane.of)),
        };
        for (index, span) in (0..).zip(&lane.spans) {
            let name = serde_json::to_string(trace.names.get(span.name))?;
            let (at, took) =
                (self.since_base(span.start_ns), Microseconds(span.end_ns.abs_diff(span.start_ns)));
            let category = if span.is_call { "cuda_runtime" } else { category };
            let mut args: Vec<String> = Vec::new();
            args.extend(device.map(|device| format!("\"device\":{device},\"stream\":{stream}")));
            args.extend(self.numbers(trace, SpanAt { lane: position as u32, span: index }, span));
            let args =
                if args.is_empty() { String::new() } else { format!(",\"args\":{{{}}}", args.join(",")) };
            self.row(format_args!(
                "\"ph\":\"X\",\"cat\":\"{category}\",\"name\":{name},\"tid\":{tid},\"ts\":{at},\"dur\":{took}{args}"
            ))?;
        }
        Ok(())
    }

    /// The numbers by which a kernel refers to its call and its operator.
    fn numbers(&self, trace: &OperatorTrace, at: SpanAt, span: &OperatorSpan) -> Option<String> {
        let launch = span.launch.and_then(|id| trace.launches.get(id.index()));
        let (call, operator) = launch.map_or((Some(at), Some(at)), |launch| (launch.call, launch.operator));
        let correlation = call.and_then(|at| self.calls.get(&at));
        let external = operator.and_then(|at| self.operators.get(&at));
        let written = [("correlation", correlation), ("External id", external)];
        let written: Vec<_> =
            written.iter().filter_map(|(name, n)| Some(format!("\"{name}\":{}", (*n)?))).collect();
        (!written.is_empty()).then(|| written.join(","))
    }
}

/// Nanoseconds, written as microseconds.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

#[cfg(test)]
mod tests {
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
}
