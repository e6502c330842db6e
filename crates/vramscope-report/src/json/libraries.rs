//! JSON of memory beside PyTorch's allocator.

use serde::Serialize;
use vramscope_analysis::{DeviceUse, LibraryUse, MeasuredUse};
use vramscope_trace::Trace;

use super::stacks::{Builder, FrameJson};

/// What one library holds of one kind of memory, beside PyTorch's allocator.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Library"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportLibrary"))]
pub(super) struct LibraryJson {
    /// File name of the library or program that called.
    library: String,
    /// `device`, `async`, `physical`, `managed`, `graph` (kept by the driver for CUDA graphs), `graph_node` (an allocation of a graph, which
    /// shares that memory), `array`, `imported` (allocated by another process), `pinned` or `registered`.
    memory: &'static str,
    /// Bytes at the event of the holders.
    bytes: u64,
    count: u64,
    peak_bytes: u64,
    end_bytes: u64,
    /// The line of the user's code in `stack`; null without one.
    line: Option<FrameJson>,
    /// Stack of the largest allocation, innermost frame first.
    stack: Vec<FrameJson>,
}

/// The driver's counts of the device's memory.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DeviceUse"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportDeviceUse"))]
pub(super) struct DeviceUseJson {
    /// The last count at or before the event of the holders; null if there is none.
    here: Option<MeasuredUseJson>,
    /// The first count of the recording.
    first: MeasuredUseJson,
    /// The count with the most bytes in use.
    highest: MeasuredUseJson,
}

impl DeviceUseJson {
    pub(super) fn of(device_use: &DeviceUse) -> Self {
        let DeviceUse { here, first, highest, .. } = device_use;
        let [first, highest] = [first, highest].map(MeasuredUseJson::of);
        Self { here: here.as_ref().map(MeasuredUseJson::of), first, highest }
    }
}

/// A count of the driver, and the memory that the recording has at that time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MeasuredUse"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportMeasuredUse"))]
pub(super) struct MeasuredUseJson {
    /// Microseconds since the Unix epoch.
    time_us: i64,
    /// Bytes in use, by all processes.
    used_bytes: u64,
    total_bytes: u64,
    /// Bytes that PyTorch's allocator had reserved.
    reserved_bytes: u64,
    /// Bytes of all other libraries.
    libraries_bytes: u64,
    /// `used_bytes` without `reserved_bytes` and `libraries_bytes`: contexts, kernels and other processes. Negative if managed memory is
    /// not on the device.
    rest_bytes: i64,
}

impl MeasuredUseJson {
    fn of(measured: &MeasuredUse) -> Self {
        let &MeasuredUse { time_us, used, total, reserved, libraries } = measured;
        Self {
            time_us,
            used_bytes: used,
            total_bytes: total,
            reserved_bytes: reserved,
            libraries_bytes: libraries,
            rest_bytes: measured.rest(),
        }
    }
}

/// A function, and how often the program called it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "FunctionCalls"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportFunctionCalls"))]
pub(super) struct FunctionCallsJson {
    function: String,
    calls: u64,
}

impl FunctionCallsJson {
    /// The functions that the recorder did not follow; `None` if the recording does not have them.
    pub(super) fn of(trace: &Trace) -> Option<Vec<Self>> {
        let functions = &trace.process.as_ref()?.not_followed;
        let function = |&(name, calls)| Self { function: trace.strings.get(name).to_owned(), calls };
        Some(functions.iter().map(function).collect())
    }
}

impl Builder<'_> {
    pub(super) fn libraries(&self, uses: &[LibraryUse]) -> Vec<LibraryJson> {
        let library = |u: &LibraryUse| LibraryJson {
            library: self.names.trace.strings.get(u.library).to_owned(),
            memory: u.memory.name(),
            bytes: u.bytes,
            count: u.count,
            peak_bytes: u.peak,
            end_bytes: u.end,
            line: u
                .stack
                .and_then(|s| self.names.frames.own_frame(self.names.trace, s))
                .map(|id| self.frame(id)),
            stack: self.stack(u.stack).frames,
        };
        uses.iter().map(library).collect()
    }
}
