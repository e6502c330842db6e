//! Finds the operators that launched kernels.

use std::collections::HashMap;

use super::rows::Number;
use crate::error::TableFull;
use crate::ids::LaunchId;
use crate::operators::{LaneKind, Launch, OperatorLane, SpanAt};

/// The numbers by which the events of a trace refer to each other; 0 is none.
pub(super) enum Ids {
    /// Of an operator.
    Operator { external: u32 },
    /// Of a call of the GPU's runtime or driver.
    Call { correlation: u32 },
    /// Of a kernel, a copy or a fill: those of its call, and of its operator.
    Kernel { correlation: u32, external: u32 },
}

/// Approximate memory of the numbers of a span while the trace is read, in bytes. Vectors grow by doubling.
pub(super) const IDS: usize = 2 * size_of::<Ids>() + size_of::<(u32, SpanAt, Option<SpanAt>)>();

/// Returns a number of a trace; 0 if it has none.
pub(super) fn number(of: &Number) -> u32 {
    of.0.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// Replaces the positions in `ids`, which the spans have, by those of their launches, and returns these. The lanes have their final order.
pub(super) fn link(lanes: &mut [OperatorLane], ids: &[Ids]) -> Result<Vec<Launch>, TableFull> {
    let ids_of = |launch: Option<LaunchId>| launch.and_then(|id| ids.get(id.index()));
    let mut operators: Vec<(u32, SpanAt)> = Vec::new();
    // A call, and the innermost operator around it.
    let mut calls: Vec<(u32, SpanAt, Option<SpanAt>)> = Vec::new();
    for (at, lane) in (0..).zip(&*lanes).filter(|(_, lane)| lane.kind == LaneKind::Operators) {
        let mut open: Vec<SpanAt> = Vec::new();
        let end_of = |span: &SpanAt| lane.spans[span.span as usize].end_ns;
        for (span, here) in (0..).zip(&lane.spans).map(|(span, here)| (SpanAt { lane: at, span }, here)) {
            // A call may end after its operator: their times are of two clocks.
            while open.last().is_some_and(|last| end_of(last) <= here.start_ns) {
                open.pop();
            }
            match ids_of(here.launch) {
                Some(&Ids::Call { correlation }) if correlation > 0 => {
                    calls.push((correlation, span, open.last().copied()));
                }
                Some(&Ids::Operator { external }) if external > 0 => operators.push((external, span)),
                _ => {}
            }
            if !here.is_call {
                open.push(span);
            }
        }
    }
    // Of several with one number, the first counts.
    operators.sort_by_key(|&(external, _)| external);
    calls.sort_by_key(|&(correlation, ..)| correlation);
    let operator_of = |external: u32| {
        let at = operators.partition_point(|&(other, _)| other < external);
        operators.get(at).filter(|&&(other, _)| other == external && external > 0).map(|&(_, span)| span)
    };
    let call_of = |correlation: u32| {
        let at = calls.partition_point(|&(other, ..)| other < correlation);
        calls.get(at).filter(|&&(other, ..)| other == correlation && correlation > 0)
    };
    let mut launches = Vec::new();
    let mut known: HashMap<(Option<SpanAt>, Option<SpanAt>), LaunchId> = HashMap::new();
    for lane in &mut *lanes {
        for span in &mut lane.spans {
            span.launch = match ids_of(span.launch) {
                Some(&Ids::Kernel { correlation, external }) => {
                    let call = call_of(correlation);
                    let operator = operator_of(external).or(call.and_then(|&(.., operator)| operator));
                    let call = call.map(|&(_, call, _)| call);
                    match known.get(&(call, operator)) {
                        Some(&id) => Some(id),
                        None if call.is_none() && operator.is_none() => None,
                        None => {
                            let id = LaunchId::new(launches.len())?;
                            known.insert((call, operator), id);
                            launches.push(Launch { call, operator });
                            Some(id)
                        }
                    }
                }
                _ => None,
            };
        }
    }
    Ok(launches)
}

#[cfg(test)]
mod tests {
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
}
