//! Memory of a whole process, beside PyTorch's caching allocator. Only `vramscope-recorder` records it.

use crate::ids::{StackId, StringId};
use crate::named::named;

/// What the recorder saw of a process at the driver and the runtime.
///
/// Where a trace has it, the events of its devices come from the same recorder: allocations have the size of their block, because PyTorch
/// does not report the requested size, and all streams are 0, because it does not report those either.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProcessEvents {
    /// Memory that was allocated and freed, oldest first. Segments of PyTorch's caching allocator are not included: they are events of
    /// their device.
    pub events: Vec<DriverEvent>,
    /// The driver's counts of the memory of devices, oldest first.
    pub readings: Vec<MemoryReading>,
    /// The system's counts of the host memory of the process, oldest first.
    pub host: Vec<HostReading>,
    /// Where the log was cut; `None` if it begins with the process.
    pub cut: Option<LogCut>,
    /// When the recorder was attached to the process, in microseconds since the Unix epoch; `None` if it recorded the process from its
    /// start. What was allocated before is unknown.
    pub attached_us: Option<i64>,
    /// Only allocations of at least this many bytes have stacks; `None` for no such limit.
    pub stacks_from: Option<u64>,
    /// Functions of the driver that may allocate memory and that the recorder does not follow, with the number of calls.
    pub not_followed: Vec<(StringId, u64)>,
    /// How the process was recorded: names, such as `host` or `torch`, and texts. What is missing is unknown.
    pub recording: Vec<(StringId, StringId)>,
}

/// A statement about a recording of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFact<'a> {
    /// The recorder was attached to the process at this time; see [`ProcessEvents::attached_us`].
    AttachedAt(i64),
    /// See [`ProcessEvents::stacks_from`].
    StacksFrom(u64),
    /// A function that is not followed, and the number of its calls so far; see [`ProcessEvents::not_followed`].
    NotFollowed(&'a str, u64),
    /// How the process was recorded: a name and a text; see [`ProcessEvents::recording`].
    Recording(&'a str, &'a str),
}

/// The driver's count of the memory of a device, as `cuMemGetInfo` returned it.
///
/// The recorder counts an allocation after it has happened, and a free before it happens. So `used` includes all memory of this process
/// whose events come before the reading, and it may include memory of another thread whose event comes after it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReading {
    /// The device's number.
    pub device: i64,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Bytes in use, by all processes.
    pub used: u64,
    /// Bytes that the device has.
    pub total: u64,
    /// Number of [events](crate::DeviceTrace::events) of the device before the reading.
    pub device_events: usize,
    /// Number of [driver events](ProcessEvents::events) before the reading.
    pub driver_events: usize,
}

/// Host memory of the recorded process, as Linux counts it in `/proc/PID/status`, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct HostReading {
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Resident anonymous memory (`RssAnon`): heaps, stacks, private mappings.
    pub anonymous: u64,
    /// Resident pages of mapped files (`RssFile`): libraries, and weights that the program maps. They are also in the page cache.
    pub files: u64,
    /// Resident shared memory (`RssShmem`).
    pub shared: u64,
    /// The page cache of the cgroup of the process (`file` in `memory.stat`); `None` without cgroups of version 2.
    pub page_cache: Option<u64>,
}

impl HostReading {
    /// Returns all resident bytes (`VmRSS`).
    pub fn resident(&self) -> u64 {
        self.anonymous.saturating_add(self.files).saturating_add(self.shared)
    }
}

/// A cut in a long recording: the log continues an earlier one that is no longer there. Its first events are those of the memory that was
/// live at the cut, with their original times and stacks. All other earlier events are missing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LogCut {
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Number of events before the cut, for each device that has any.
    pub device_events: Vec<(i64, usize)>,
    /// Number of [driver events](ProcessEvents::events) before the cut.
    pub driver_events: usize,
}

/// Memory allocated from the driver, or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverEvent {
    /// The device's number; -1 for memory of the host, and where the call does not say it.
    pub device: i64,
    /// The kind of memory.
    pub memory: DriverMemory,
    /// Whether it was freed.
    pub is_free: bool,
    /// Its address, or a handle of memory without an address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// File name of the library or program that called, such as `libnccl.so.2`.
    pub library: StringId,
    /// Stack of the call.
    pub stack: Option<StackId>,
}

named! {
    /// A kind of memory that the driver provides.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum DriverMemory {
        /// Device memory, allocated at once: `cudaMalloc`, `cuMemAlloc`.
        Device = "device",
        /// Device memory in the order of a stream: `cudaMallocAsync`. The driver's pool may keep more.
        Async = "async",
        /// Physical device memory without an address: `cuMemCreate`.
        Physical = "physical",
        /// Managed memory, which the driver moves between host and device.
        Managed = "managed",
        /// Device memory that the driver keeps for CUDA graphs, as it counts it itself. It grows when a graph that allocates is launched, and
        /// belongs to the library that launched it.
        Graph = "graph",
        /// An allocation of a CUDA graph: an address, without device memory of its own. Allocations of several graphs share the memory of
        /// [`Graph`](Self::Graph). It ends with the graph and its executable.
        GraphNode = "graph_node",
        /// An array. Its size is that of its elements; the driver may pad it.
        Array = "array",
        /// Device memory of another process that this one uses: `cudaIpcOpenMemHandle`, `cuMemImportFromShareableHandle`. The other process
        /// allocated it.
        Imported = "imported",
        /// Pinned host memory: `cudaHostAlloc`.
        Pinned = "pinned",
        /// Host memory of the program that was pinned: `cudaHostRegister`.
        Registered = "registered",
    }
    /// All kinds.
    ALL
    /// The kind's name in a log and in JSON.
    name
}

impl DriverMemory {
    /// Whether the memory is the host's. Managed memory counts as the device's.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }

    /// Whether the memory is the device's, this process allocated it, and no other kind includes it.
    pub fn is_own(self) -> bool {
        !self.is_host() && !matches!(self, Self::Imported | Self::GraphNode)
    }
}
