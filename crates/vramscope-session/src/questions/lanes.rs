//! The operators and kernels of a trace beside a recording: lanes with rows, so that no two drawn spans overlap.

use std::sync::Arc;

use vramscope_analysis::{Alignment, NotAligned};
use vramscope_trace::{LaneKind, OperatorLane, OperatorSpan, OperatorTrace, SpanAt};

use crate::questions::device::OpenDevice;
use crate::questions::rows::rows_of;

/// A trace of `torch.profiler`, aligned with an open recording.
#[derive(Debug)]
pub(crate) struct OpenOperators {
    /// The name of its file.
    pub(crate) name: String,
    pub(crate) trace: Arc<OperatorTrace>,
    /// Its clocks are in the order of the recording's devices.
    pub(crate) alignment: Alignment,
    /// The rows of each lane.
    pub(crate) lanes: Vec<LaneRows>,
    /// Kernels whose launch is known, by thread and time of their launches.
    launched: Vec<Launched>,
}

/// A kernel, with its launch.
#[derive(Debug, Clone, Copy)]
struct Launched {
    /// The thread that launched it.
    thread: i64,
    /// The beginning of the call, or else of the operator.
    at_ns: i64,
    /// The end of the operator without a call; otherwise the same time.
    until_ns: i64,
    kernel: SpanAt,
}

impl OpenOperators {
    pub(crate) fn of(
        name: String,
        trace: Arc<OperatorTrace>,
        devices: &[OpenDevice],
    ) -> Result<Self, NotAligned> {
        let histories: Vec<_> = devices.iter().map(OpenDevice::history).collect();
        let alignment = Alignment::of(&histories, &trace)?;
        let lanes = trace.lanes.iter().map(LaneRows::of).collect();
        let launched = launched_in(&trace);
        Ok(Self { name, trace, alignment, lanes, launched })
    }

    /// Whether the trace tells what launched its kernels.
    pub(crate) fn has_launches(&self) -> bool {
        !self.launched.is_empty()
    }

    /// The kernels that `thread` launched within a time.
    pub(crate) fn launched(
        &self,
        thread: i64,
        from_ns: i64,
        to_ns: i64,
    ) -> impl Iterator<Item = (SpanAt, &OperatorLane, OperatorSpan)> {
        let first = self.launched.partition_point(|one| (one.thread, one.at_ns) < (thread, from_ns));
        let of_thread = self.launched[first..].iter().take_while(move |one| one.thread == thread);
        // A call at the end is in the next operator.
        let begun = of_thread.take_while(move |one| one.at_ns < to_ns || one.at_ns == from_ns);
        let within = begun.filter(move |one| one.until_ns <= to_ns);
        within.filter_map(|one| {
            let (lane, span) = self.trace.span(one.kernel)?;
            Some((one.kernel, lane, span))
        })
    }
}

fn launched_in(trace: &OperatorTrace) -> Vec<Launched> {
    let mut all = Vec::new();
    for (lane, of) in (0..).zip(&trace.lanes).filter(|(_, lane)| !is_of_host(lane.kind)) {
        for (span, kernel) in (0..).zip(&of.spans) {
            let Some(launch) = kernel.launch.and_then(|id| trace.launches.get(id.index())) else { continue };
            let from = launch.call.or(launch.operator).and_then(|at| trace.span(at));
            let Some((host, by)) = from else { continue };
            let until_ns = if launch.call.is_some() { by.start_ns } else { by.end_ns };
            let kernel = SpanAt { lane, span };
            all.push(Launched { thread: host.of, at_ns: by.start_ns, until_ns, kernel });
        }
    }
    all.sort_by_key(|one| (one.thread, one.at_ns));
    all
}

/// The spans of a lane in rows: a span is below those that contain it.
#[derive(Debug)]
pub(crate) struct LaneRows {
    /// The row of each span.
    pub(crate) row: Vec<u8>,
    pub(crate) rows: Vec<LaneRow>,
}

/// The spans of one row.
#[derive(Debug, Default)]
pub(crate) struct LaneRow {
    /// Their indices in the lane, by their beginnings.
    spans: Vec<u32>,
    /// For each, the latest end among it and those before it.
    reach: Vec<i64>,
}

/// Maximum number of spans of one row that are looked through for those at one time. Only spans in the last row overlap.
const MOST_OVERLAPPING: usize = 256;

impl LaneRows {
    fn of(lane: &OperatorLane) -> Self {
        let row = rows_of(lane.spans.iter().map(|span| (span.start_ns, span.end_ns)));
        let mut rows: Vec<LaneRow> = Vec::new();
        for ((index, span), &row) in (0..).zip(&lane.spans).zip(&row) {
            let row = usize::from(row);
            if rows.len() <= row {
                rows.resize_with(row + 1, LaneRow::default);
            }
            let LaneRow { spans, reach } = &mut rows[row];
            spans.push(index);
            reach.push(reach.last().map_or(span.end_ns, |&last| span.end_ns.max(last)));
        }
        Self { row, rows }
    }

    /// The spans of the lane that overlap an interval of time, the innermost first.
    pub(crate) fn between<'l>(
        &'l self,
        lane: &'l OperatorLane,
        from_ns: i64,
        to_ns: i64,
    ) -> impl Iterator<Item = usize> + 'l {
        self.rows.iter().rev().flat_map(move |row| row.between(lane, from_ns, to_ns))
    }
}

impl LaneRow {
    /// The position of the first span that may reach `ns`.
    pub(crate) fn first_reaching(&self, ns: i64) -> usize {
        self.reach.partition_point(|&end| end < ns)
    }

    /// The index in the lane of the span at a position of the row.
    pub(crate) fn get(&self, position: usize) -> Option<usize> {
        self.spans.get(position).map(|&span| span as usize)
    }

    /// The spans that overlap an interval of time.
    fn between<'l>(
        &'l self,
        lane: &'l OperatorLane,
        from_ns: i64,
        to_ns: i64,
    ) -> impl Iterator<Item = usize> + 'l {
        let end = self.spans.partition_point(|&span| lane.spans[span as usize].start_ns <= to_ns);
        let first = self.first_reaching(from_ns).min(end);
        // Before those that begin within the interval, only spans that enclose its beginning matter.
        let begun = self.spans.partition_point(|&span| lane.spans[span as usize].start_ns < from_ns);
        let first = first.max(begun.min(end).saturating_sub(MOST_OVERLAPPING));
        let within = self.spans[first..end].iter().map(|&span| span as usize);
        within.filter(move |&span| lane.spans[span].end_ns >= from_ns)
    }
}

/// The short name of a lane, for the margin beside it, and its whole name.
pub(crate) fn lane_names(lane: &OperatorLane) -> (String, String) {
    let OperatorLane { kind, of, stream, thread_name, .. } = lane;
    let thread = if thread_name.is_empty() { format!("thread {of}") } else { thread_name.clone() };
    let own = thread_name.split_once('(').and_then(|(_, name)| name.strip_suffix(')'));
    let stream = stream.unwrap_or_default();
    match kind {
        LaneKind::Annotations => ("annotations".to_owned(), format!("annotations of {thread}")),
        LaneKind::Python => ("Python".to_owned(), format!("Python functions of {thread}")),
        LaneKind::Operators => {
            let own = own.filter(|&name| !name.is_empty() && name != "python").unwrap_or("operators");
            // PyTorch's prefix of all its threads would leave no room for their names.
            (own.strip_prefix("pt_").unwrap_or(own).to_owned(), format!("operators of {thread}"))
        }
        LaneKind::DeviceAnnotations => {
            (format!("on stream {stream}"), format!("annotations on device {of}, stream {stream}"))
        }
        LaneKind::Kernels => (format!("stream {stream}"), format!("kernels of device {of}, stream {stream}")),
        LaneKind::Nccl => ("NCCL".to_owned(), format!("kernels of NCCL on device {of}")),
    }
}

/// Whether a lane is that of a thread.
pub(crate) fn is_of_host(kind: LaneKind) -> bool {
    matches!(kind, LaneKind::Annotations | LaneKind::Python | LaneKind::Operators)
}

/// Whether the page of a device shows a lane: threads, and its own streams. The host has the streams of all devices.
pub(crate) fn is_of_device(lane: &OperatorLane, device: i64) -> bool {
    is_of_host(lane.kind) || lane.of == device || device < 0
}
