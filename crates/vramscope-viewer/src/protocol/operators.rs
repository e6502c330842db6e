//! Operators and kernels of a trace of `torch.profiler` beside the recording.

use serde::{Deserialize, Serialize};
use vramscope_analysis::Axis;

use crate::columns::{F64s, U8s, U32s};
use crate::protocol::spent::Amount;

/// The lanes of a trace beside the recording.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorLanes {
    /// The name of the trace's file.
    pub(crate) name: String,
    /// How its clock and that of the recording were related, in a sentence.
    pub(crate) told: String,
    pub(crate) lanes: Vec<OperatorLane>,
    /// The number of lanes that are left out.
    pub(crate) left_out: usize,
}

/// The spans of a thread, or of a stream.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorLane {
    /// Its number in the trace, by which queries refer to it.
    pub(crate) number: u32,
    /// A short name, and the whole.
    pub(crate) label: String,
    pub(crate) title: String,
    /// The number of rows, and of spans.
    pub(crate) rows: u32,
    pub(crate) spans: u32,
}

/// The part of the axis to draw, its number of pixel columns, and the lanes.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct OperatorWindow {
    #[cfg_attr(test, ts(type = "Axis"))]
    pub(crate) axis: Axis,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) width: u16,
    /// The number of a lane, and the number of its rows to draw, outermost first.
    pub(crate) lanes: Vec<[u32; 2]>,
}

/// The spans in a window, those of a row in order. Of several spans in one pixel, only the first is here.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorPicture {
    /// Distinct names.
    pub(crate) names: Vec<String>,
    pub(crate) lane: U32s,
    pub(crate) row: U8s,
    /// The index of each span in its lane.
    pub(crate) span: U32s,
    /// A position in `names`.
    pub(crate) name: U32s,
    /// The ends on the axis.
    pub(crate) from: F64s,
    pub(crate) to: F64s,
    /// Its time in microseconds, by the profiler's clock.
    pub(crate) took_us: F64s,
}

/// Requests the operators and kernels in flight at an allocation, or between two moments: during the events `from..to`, or at the event
/// before `from` if there are none.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct InFlightQuery {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The index of an allocation, which replaces the moments.
    pub(crate) allocation: Option<usize>,
}

/// Operators and kernels in flight: first those that enclose the whole interval, the innermost first, those of the host before those of
/// the device; then the others by name, most time first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct InFlight {
    /// Whether the trace tells the thread: lanes of other threads are left out.
    pub(crate) of_thread: bool,
    /// The number of the lane, and the index of a span in it: the longest of those with this name.
    pub(crate) lane: U32s,
    pub(crate) span: U32s,
    pub(crate) name: Vec<String>,
    /// 1 if the span encloses the whole interval.
    pub(crate) encloses: U8s,
    /// The number of spans, and their time in microseconds.
    pub(crate) count: U32s,
    pub(crate) took_us: F64s,
    /// The number of rows that are left out.
    pub(crate) left_out: usize,
}

/// An operator, a kernel or an annotation, and the memory that it allocated.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct OperatorFacts {
    pub(crate) name: String,
    /// The whole name of its lane.
    pub(crate) lane: String,
    pub(crate) took_us: f64,
    /// The moments before its first event and after its last.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Its ends on the axis of events, and in microseconds after the first event; null without times.
    pub(crate) at: [f64; 2],
    pub(crate) at_us: Option<[f64; 2]>,
    pub(crate) allocated: Amount,
    /// The index of the largest allocation, and its bytes.
    pub(crate) largest: Option<usize>,
    pub(crate) largest_bytes: u64,
    /// Of these, still allocated at its end.
    pub(crate) kept: Amount,
    /// Whether only the allocations of its own thread count.
    pub(crate) of_thread: bool,
    /// The spans of its lane around it, innermost first: indices and names.
    pub(crate) around: Vec<(u32, String)>,
    /// What launched it, if it is a kernel, a copy or a fill, and the trace tells.
    pub(crate) launch: Option<LaunchFacts>,
    /// The kernels, copies and fills that it launched on this device; null for those of the device, and if the trace has no launches.
    pub(crate) kernels: Option<LaunchedKernels>,
}

/// The launch of a kernel.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LaunchFacts {
    /// The innermost operator: its lane, its index there, and its name.
    pub(crate) operator: Option<(u32, u32, String)>,
    /// The call of the GPU's runtime, and the microseconds from its beginning to that of the kernel.
    pub(crate) call: Option<(u32, u32, String)>,
    pub(crate) waited_us: Option<f64>,
}

/// The kernels that a span launched, by name, most time first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct LaunchedKernels {
    /// The number of all, and the sum of their times in microseconds.
    pub(crate) count: u64,
    pub(crate) took_us: f64,
    /// For each name, the lane and the index of its longest kernel, the number of its kernels, and their time in microseconds.
    pub(crate) lane: U32s,
    pub(crate) span: U32s,
    pub(crate) name: Vec<String>,
    pub(crate) number: U32s,
    pub(crate) number_us: F64s,
    /// The number of names that are left out.
    pub(crate) left_out: usize,
}
