//! The operators, kernels and annotations of a program over time, as a trace of `torch.profiler` has them.

use crate::ids::{LaunchId, StringId};
use crate::strings::StringTable;

/// The timed events of a trace of `torch.profiler`. Times are nanoseconds since the Unix epoch, of the profiler's clock.
#[derive(Debug, Default, Clone)]
pub struct OperatorTrace {
    /// The names of all spans.
    pub names: StringTable,
    /// The lanes, annotations first, then the host's threads, then the streams of the devices.
    pub lanes: Vec<OperatorLane>,
    /// Number of lanes that are left out, because there are too many.
    pub left_out: usize,
    /// The launches of kernels, copies and fills whose call or operator is in the trace.
    pub launches: Vec<Launch>,
    /// Allocations and frees on devices, in order of time. Only a trace with `profile_memory=True` has them.
    pub memory: Vec<MemoryChange>,
}

/// The spans of one thread, or of one stream of a device.
#[derive(Debug, Clone)]
pub struct OperatorLane {
    /// The kind of its spans.
    pub kind: LaneKind,
    /// The thread of the host; for a device, its number.
    pub of: i64,
    /// The stream; `None` for a thread, and for [`LaneKind::Nccl`], which has the kernels of all streams.
    pub stream: Option<i64>,
    /// The name of the thread; empty if it has none.
    pub thread_name: String,
    /// Its spans in order of their beginnings, the longest first.
    pub spans: Vec<OperatorSpan>,
}

/// What the spans of a lane are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaneKind {
    /// Regions that the program named.
    Annotations,
    /// Functions of Python.
    Python,
    /// Operators of PyTorch, and the calls of the GPU's runtime and driver within them.
    Operators,
    /// The same regions on the device: from the first of their kernels to the last.
    DeviceAnnotations,
    /// Kernels, copies and fills of a stream.
    Kernels,
    /// Kernels of NCCL.
    Nccl,
}

/// A run of an operator, a kernel or an annotated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorSpan {
    /// When it began.
    pub start_ns: i64,
    /// When it ended; never before its beginning.
    pub end_ns: i64,
    /// Its name.
    pub name: StringId,
    /// The launch of a kernel, a copy or a fill; `None` if it is unknown.
    pub launch: Option<LaunchId>,
    /// Whether it is a call of the GPU's runtime or driver.
    pub is_call: bool,
}

/// The launch of kernels, copies or fills: its call, or its operator, or both. A graph of CUDA launches several with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The call of the GPU's runtime or driver.
    pub call: Option<SpanAt>,
    /// The innermost operator that launched it.
    pub operator: Option<SpanAt>,
}

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanAt {
    /// The position of its lane.
    pub lane: u32,
    /// Its position in the lane.
    pub span: u32,
}

/// An allocation or a free that the profiler saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange {
    /// When it happened.
    pub at_ns: i64,
    /// The thread that did it.
    pub thread: i64,
    /// The device.
    pub device: i64,
    /// The address of the block.
    pub address: u64,
    /// Bytes of the block; negative for a free.
    pub bytes: i64,
}

impl OperatorTrace {
    /// The span at a position; `None` if there is none.
    pub fn span(&self, at: SpanAt) -> Option<(&OperatorLane, OperatorSpan)> {
        let lane = self.lanes.get(at.lane as usize)?;
        Some((lane, *lane.spans.get(at.span as usize)?))
    }

    /// The first beginning and the last end of all spans and memory events; `None` for an empty trace.
    pub fn range(&self) -> Option<(i64, i64)> {
        let spans = self.lanes.iter().flat_map(|lane| &lane.spans).map(|span| (span.start_ns, span.end_ns));
        let memory = self.memory.iter().map(|change| (change.at_ns, change.at_ns));
        spans.chain(memory).reduce(|(a, b), (from, to)| (a.min(from), b.max(to)))
    }
}
