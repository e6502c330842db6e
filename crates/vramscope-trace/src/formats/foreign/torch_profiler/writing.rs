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
mod tests;
