//! The section about memory beside PyTorch's allocator, by the library that allocated it.

use serde::Serialize;
use vramscope_analysis::{DeviceUse, HolderKey, LibraryUse, MeasuredUse, Summary};
use vramscope_basics::units::{bytes, counted, duration};
use vramscope_trace::{DriverMemory, Trace};

use crate::json::stacks::{Builder, FrameJson};
use crate::shown::Shown;
use crate::text::lines::DIM;
use crate::text::page::Page;

/// What one library holds of one kind of memory, beside PyTorch's allocator.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Library"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportLibrary"))]
pub(crate) struct LibraryJson {
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
pub(crate) struct DeviceUseJson {
    /// The last count at or before the event of the holders; null if there is none.
    here: Option<MeasuredUseJson>,
    /// The first count of the recording.
    first: MeasuredUseJson,
    /// The count with the most bytes in use.
    highest: MeasuredUseJson,
}

impl DeviceUseJson {
    pub(crate) fn of(device_use: &DeviceUse) -> Self {
        let DeviceUse { here, first, highest, .. } = device_use;
        let [first, highest] = [first, highest].map(MeasuredUseJson::of);
        Self { here: here.as_ref().map(MeasuredUseJson::of), first, highest }
    }
}

/// A count of the driver, and the memory that the recording has at that time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MeasuredUse"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "ReportMeasuredUse"))]
pub(crate) struct MeasuredUseJson {
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
pub(crate) struct FunctionCallsJson {
    function: String,
    calls: u64,
}

impl FunctionCallsJson {
    /// The functions that the recorder did not follow; `None` if the recording does not have them.
    pub(crate) fn of(trace: &Trace) -> Option<Vec<Self>> {
        let functions = &trace.process.as_ref()?.not_followed;
        let function = |&(name, calls)| Self { function: trace.strings.get(name).to_owned(), calls };
        Some(functions.iter().map(function).collect())
    }
}

impl Builder<'_> {
    pub(crate) fn libraries(&self, uses: &[LibraryUse]) -> Vec<LibraryJson> {
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

/// What a kind of memory is called in a sentence.
fn kind(memory: DriverMemory) -> &'static str {
    match memory {
        DriverMemory::Device => "cudaMalloc",
        DriverMemory::Async => "cudaMallocAsync",
        DriverMemory::Physical => "cuMemCreate",
        DriverMemory::Managed => "managed",
        DriverMemory::Graph => "CUDA graphs",
        DriverMemory::GraphNode => "node",
        DriverMemory::Array => "array",
        DriverMemory::Imported => "imported",
        DriverMemory::Pinned => "pinned",
        DriverMemory::Registered => "registered",
    }
}

impl Page<'_> {
    /// Device memory of each library, beside PyTorch's reserved bytes, and host memory that the process pinned.
    pub(crate) fn libraries(&mut self, s: &Summary) {
        let Some(uses) = &s.libraries else { return };
        let (uses, others): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            uses.iter().partition(|u| u.memory.is_own());
        let (host, others_of_device): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            others.into_iter().partition(|u| u.memory.is_host());
        let (nodes, imported): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            others_of_device.into_iter().partition(|u| u.memory == DriverMemory::GraphNode);
        let others: u64 = uses.iter().map(|u| u.bytes).fold(0, u64::saturating_add);
        let reserved = s.counters.reserved;
        self.heading(&format!(
            "Device memory of the process at this moment: {}",
            bytes(reserved.saturating_add(others))
        ));
        self.line(format!("  {:>11}  PyTorch's allocator (reserved)", bytes(reserved)));
        self.library_rows(&uses);
        self.rest(s.device_use.as_ref());
        if !nodes.is_empty() {
            self.heading("Allocations of CUDA graphs at this moment");
            self.library_rows(&nodes);
            self.words(2, "They share the memory of CUDA graphs above, which the driver takes when a graph is launched.");
        }
        if !imported.is_empty() {
            self.heading("Memory of other processes that the process uses at this moment");
            self.library_rows(&imported);
        }
        if !host.is_empty() {
            self.heading("Pinned host memory of the process at this moment");
            self.library_rows(&host);
        }
    }

    /// The row of the memory that the driver counts, and that nothing above explains.
    fn rest(&mut self, device_use: Option<&DeviceUse>) {
        let Some((DeviceUse { age_us, first, .. }, here)) = device_use.and_then(|u| Some((u, u.here?)))
        else {
            self.words(2, "Contexts and kernels are not included: the driver's count was not recorded before this moment.");
            return;
        };
        let rest = here.rest();
        self.line(format!(
            "  {:>11}  contexts, kernels and other processes",
            bytes(rest.max(0).unsigned_abs())
        ));
        let (used, total) = (bytes(here.used), bytes(here.total));
        let mut text = match age_us {
            ..1_000_000 => format!("Measured: the driver says that {used} of {total} are in use."),
            age_us => format!(
                "Measured {} before: the driver said that {used} of {total} were in use.",
                duration(*age_us)
            ),
        };
        if rest < 0 {
            let less = bytes(rest.unsigned_abs());
            text += &format!(" That is {less} less than the sum: managed memory counts wherever it is.");
        } else if first.rest() != rest {
            text +=
                &format!(" At the first measurement, it was {}.", bytes(first.rest().max(0).unsigned_abs()));
        }
        self.words(15, &text);
    }

    /// Rows of libraries: bytes, library, and the stack of its largest allocation.
    fn library_rows(&mut self, uses: &[&LibraryUse]) {
        for u in uses {
            let library = Shown::of(self.names.trace.strings.get(u.library));
            let mut notes = vec![kind(u.memory).to_owned(), counted(u.count, "allocation")];
            if u.peak > u.bytes {
                notes.push(format!("at most {}", bytes(u.peak)));
            }
            let line = u
                .stack
                .map(|stack| format!(", {}", self.names.key(&HolderKey::Stack(stack))))
                .unwrap_or_default();
            self.line(format!("  {:>11}  {library}{line}  {DIM}{}{DIM:#}", bytes(u.bytes), notes.join(", ")));
        }
    }
}
