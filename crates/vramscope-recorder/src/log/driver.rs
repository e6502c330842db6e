//! What a process holds at the driver: memory by address or handle, mappings, graphs.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use hashbrown::HashMap;
use vramscope_trace::formats::log::LogDriverEvent;
use vramscope_trace::{Action, DriverMemory, MemoryReading};

use super::{ProcessLog, Taken};
use crate::options::CopyAt;
use crate::record::Kind;
use crate::records::Call;
use crate::running::{RunningCount, RunningDevice, RunningLibrary};

/// Number of frees of which each may turn out to have failed.
const MOST_RECENT: usize = 64;

/// The library with PyTorch's caching allocator. What it takes from the driver becomes a segment.
const CACHING_ALLOCATOR: &str = "libc10_cuda.so";

/// What a process holds at the driver.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// The file name of the library at each call site.
    pub(super) libraries: HashMap<u64, String>,
    /// What the process holds, by address or handle.
    pub(super) held: HashMap<(Place, u64), Held>,
    /// The last memory that was freed: a free may fail.
    pub(super) recent: VecDeque<((Place, u64), Held)>,
    /// The physical memory at each mapped address.
    pub(super) mapped: HashMap<u64, Mapped>,
    /// Number of handles of PyTorch's physical memory that are not mapped: an expandable segment is about to grow, or it has shrunk.
    pub(super) unmapped_segments: u32,
    /// Graphs with allocations, by handle.
    pub(super) graphs: HashMap<u64, Graph>,
    /// The graph of each executable one.
    pub(super) executables: HashMap<u64, u64>,
    /// The memory that the driver keeps for graphs on each device: the numbers of its parts, oldest first.
    pub(super) graph_memory: HashMap<i64, Vec<u64>>,
    /// Number of parts so far.
    pub(super) graph_parts: u64,
    /// The last reading of each device, the number of calls before it, and the memory that the process held then.
    pub(super) readings: BTreeMap<i64, (MemoryReading, u64, u64)>,
    /// Memory of each device that the process holds.
    pub(super) device_bytes: HashMap<i64, u64>,
    /// When the log becomes due for a copy, until it does.
    pub(super) copy_at: Option<CopyAt>,
    /// Total memory of each device that was read.
    pub(super) totals: HashMap<i64, u64>,
    /// Number of calls of the runtime and the driver.
    pub(super) calls: u64,
}

/// A mapping of physical memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapped {
    pub(super) handle: u64,
    pub(super) taken: Taken,
}

/// The kinds of addresses and handles, which are different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Device,
    Host,
    Handle,
    Array,
    /// An allocation of a graph.
    GraphNode,
    /// A part of the memory that the driver keeps for graphs.
    GraphPart,
}

/// A graph with allocations, while it or its executable exists.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Addresses of its allocations.
    pub(super) allocations: Vec<u64>,
    pub(super) is_destroyed: bool,
    /// Number of its executables.
    pub(super) executables: u32,
}

/// Memory that the process holds.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) device: i64,
    pub(super) size: u64,
    pub(super) taken: Taken,
    /// Part of PyTorch's caching allocator.
    pub(super) is_segment: bool,
    pub(super) memory: DriverMemory,
    pub(super) library: String,
    /// For physical memory: how often it is mapped, and whether its handle was released.
    pub(super) mappings: u32,
    pub(super) is_released: bool,
    /// Number of references to physical memory beside the first.
    pub(super) retained: u32,
}

impl Held {
    /// Whether this is physical memory of PyTorch's allocator that is not mapped.
    pub(super) fn is_unmapped_segment(&self) -> bool {
        self.is_segment && self.memory == DriverMemory::Physical && self.mappings == 0
    }

    /// Whether the memory counts for [`CopyAt`] from its allocation. An expandable segment counts where its memory is mapped.
    pub(super) fn is_counted(&self, place: Place) -> bool {
        self.memory.is_own() && !(self.is_segment && place == Place::Handle)
    }
}

impl ProcessLog {
    /// What the process holds on each device, and what its libraries hold on the host.
    pub(crate) fn running(&self) -> (Vec<RunningDevice>, Vec<RunningLibrary>) {
        let mut devices: BTreeMap<i64, RunningDevice> = BTreeMap::new();
        for (&device, &(now, fewest)) in self.allocated.iter().collect::<BTreeMap<_, _>>() {
            devices.entry(device).or_default().allocated = now.abs_diff(fewest);
        }
        for (&device, (reading, _, held)) in &self.driver.readings {
            let rest = i128::from(reading.used) - i128::from(*held);
            let rest = rest.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let count = RunningCount { used: reading.used, total: reading.total, rest };
            devices.entry(device).or_default().count = Some(count);
        }
        // The device is -1 for host memory.
        let mut libraries: BTreeMap<(i64, &str, &'static str), (u64, u64)> = BTreeMap::new();
        let mut reserved: Vec<(i64, u64)> = Vec::new();
        self.driver.held.iter().for_each(|(&(place, _), held)| match (held.is_segment, place) {
            (true, Place::Handle) => {}
            (true, _) => reserved.push((held.device, held.size)),
            (false, _) => {
                let key = (held.device, held.library.as_str(), held.memory.name());
                let (bytes, count) = libraries.entry(key).or_default();
                *bytes = bytes.saturating_add(held.size);
                *count += 1;
            }
        });
        self.driver.mapped.values().for_each(|mapped| {
            let held = self.driver.held.get(&(Place::Handle, mapped.handle)).filter(|held| held.is_segment);
            reserved.extend(held.map(|held| (held.device, mapped.taken.size)));
        });
        for (device, size) in reserved {
            let device = devices.entry(device).or_default();
            device.reserved = device.reserved.saturating_add(size);
        }
        let mut host = Vec::new();
        for ((device, library, memory), (bytes, count)) in libraries {
            let library = RunningLibrary { library: library.to_owned(), memory, bytes, count };
            if device < 0 {
                host.push(library);
            } else {
                devices.entry(device).or_default().libraries.push(library);
            }
        }
        let most_first = |libraries: &mut Vec<RunningLibrary>| {
            libraries.sort_by_key(|library| std::cmp::Reverse(library.bytes));
        };
        most_first(&mut host);
        let devices = devices.into_iter().map(|(number, mut device)| {
            most_first(&mut device.libraries);
            RunningDevice { device: number, ..device }
        });
        (devices.collect(), host)
    }

    /// Counts device memory that was taken or freed.
    pub(super) fn count(&mut self, device: i64, size: u64, is_free: bool) {
        let bytes = self.driver.device_bytes.entry(device).or_default();
        *bytes = if is_free { bytes.saturating_sub(size) } else { bytes.saturating_add(size) };
        self.compare(device);
    }

    /// Compares the memory of a device with the mark.
    pub(super) fn compare(&mut self, device: i64) {
        let bytes = self.driver.device_bytes.get(&device).copied().unwrap_or_default();
        let has_reached = match self.driver.copy_at {
            None => false,
            Some(CopyAt::Bytes(mark)) => bytes >= mark,
            Some(CopyAt::Percent(percent)) => self
                .driver
                .totals
                .get(&device)
                .is_some_and(|&total| u128::from(bytes) * 100 >= u128::from(total) * u128::from(percent)),
        };
        if has_reached {
            self.driver.copy_at = None;
            self.due = Some("mark");
        }
    }

    pub(super) fn call(&mut self, call: Call) {
        self.driver.calls += 1;
        match call.kind {
            Kind::Malloc => self.take(call, Place::Device, DriverMemory::Device),
            Kind::MallocAsync => self.take(call, Place::Device, DriverMemory::Async),
            Kind::Managed => self.take(call, Place::Device, DriverMemory::Managed),
            Kind::Free | Kind::FreeAsync => self.free(call, Place::Device),
            Kind::Host => self.take(call, Place::Host, DriverMemory::Pinned),
            Kind::Register => self.take(call, Place::Host, DriverMemory::Registered),
            Kind::HostFree | Kind::Unregister => self.free(call, Place::Host),
            Kind::Array => self.take(call, Place::Array, DriverMemory::Array),
            Kind::ArrayFree => self.free(call, Place::Array),
            Kind::Create => self.take(call, Place::Handle, DriverMemory::Physical),
            Kind::IpcOpen => self.take(call, Place::Device, DriverMemory::Imported),
            Kind::IpcClose => self.free(call, Place::Device),
            Kind::Import => self.take(call, Place::Handle, DriverMemory::Imported),
            Kind::Release => self.release(call),
            Kind::Map => self.map(call),
            Kind::Unmap => self.unmap(call),
            Kind::GraphNode => {
                self.driver.graphs.entry(call.handle).or_default().allocations.push(call.address);
                self.take(call, Place::GraphNode, DriverMemory::GraphNode);
            }
            Kind::GraphInstantiate => {
                if let Some(graph) = self.driver.graphs.get_mut(&call.handle) {
                    graph.executables += 1;
                    self.driver.executables.insert(call.address, call.handle);
                }
            }
            Kind::GraphDestroy => {
                if let Some(graph) = self.driver.graphs.get_mut(&call.address) {
                    graph.is_destroyed = true;
                }
                self.drop_ended_graph(call, call.address);
            }
            Kind::GraphExecDestroy => {
                if let Some(handle) = self.driver.executables.remove(&call.address) {
                    if let Some(graph) = self.driver.graphs.get_mut(&handle) {
                        graph.executables -= 1;
                    }
                    self.drop_ended_graph(call, handle);
                }
            }
            Kind::GraphMemory => self.graph_memory(call),
            Kind::Reset => self.reset(call),
            Kind::FreeFailed => self.restore(call),
            Kind::Retain => {
                if let Some(held) = self.driver.held.get_mut(&(Place::Handle, call.address)) {
                    held.retained += 1;
                }
            }
        }
    }

    pub(super) fn library(&self, caller: u64) -> String {
        self.driver.libraries.get(&caller).cloned().unwrap_or_else(|| "?".to_owned())
    }

    pub(super) fn take(&mut self, call: Call, place: Place, memory: DriverMemory) {
        self.take_by(self.library(call.caller), call, place, memory);
    }

    pub(super) fn take_by(&mut self, library: String, call: Call, place: Place, memory: DriverMemory) {
        let is_segment =
            library.starts_with(CACHING_ALLOCATOR) && memory.is_own() && memory != DriverMemory::Graph;
        let device = if memory.is_host() { -1 } else { call.device.unwrap_or(0) };
        let size = call.size;
        let taken = self.taken_by(call);
        let held = Held {
            device,
            size,
            taken,
            is_segment,
            memory,
            library,
            mappings: 0,
            is_released: false,
            retained: 0,
        };
        self.driver.unmapped_segments += u32::from(held.is_unmapped_segment());
        self.taken(place, call.address, &held);
        let is_counted = held.is_counted(place);
        let before = self.driver.held.insert((place, call.address), held);
        if let Some(before) = before {
            self.driver.unmapped_segments -= u32::from(before.is_unmapped_segment());
            if before.is_counted(place) {
                self.count(before.device, before.size, true);
            }
        }
        if is_counted {
            self.count(device, size, false);
        }
    }

    pub(super) fn taken_by(&self, call: Call) -> Taken {
        let Call { time_us, size, stack, .. } = call;
        Taken { order: self.events, time_us, size, stack }
    }

    /// Writes that memory was taken.
    pub(super) fn taken(&mut self, place: Place, address: u64, held: &Held) {
        match (held.is_segment, place) {
            // An expandable segment grows when its memory is mapped.
            (true, Place::Handle) => {}
            // The size of a handle from another process is known when it is mapped.
            (false, Place::Handle) if held.memory == DriverMemory::Imported && held.size == 0 => {}
            (true, _) => self.event(Action::SegmentAlloc, held.device, address, held.taken),
            (false, _) => self.driver_event(held, address, held.taken, false),
        }
    }

    pub(super) fn free(&mut self, call: Call, place: Place) {
        // Null is freed without effect, and memory from before the recording is unknown.
        let Some(held) = self.driver.held.remove(&(place, call.address)) else { return };
        if held.is_counted(place) {
            self.count(held.device, held.size, true);
        }
        if self.driver.recent.len() >= MOST_RECENT {
            self.driver.recent.pop_front();
        }
        self.driver.recent.push_back(((place, call.address), held.clone()));
        match held.is_segment {
            true => {
                let Held { device, size, .. } = held;
                self.now(Action::SegmentFree, device, call.address, size, call.time_us, call.stack);
            }
            false => self.driver_event(&held, call.address, self.taken_by(call), true),
        }
    }

    /// The last context of a device ended, and with it the memory of contexts: all but physical memory. Pinned memory of the host belongs to
    /// a context, too; which one is known if the process used one device.
    fn reset(&mut self, call: Call) {
        let Some(device) = call.device else { return };
        let is_only = self.driver.totals.keys().all(|&used| used == device);
        let ends = |&(&(place, _), held): &(&(Place, u64), &Held)| match place {
            Place::Handle => false,
            Place::Host => is_only,
            _ => held.device == device,
        };
        let ended = self.driver.held.iter().filter(ends).map(|(&key, held)| (held.taken.order, key));
        let mut ended: Vec<(u64, (Place, u64))> = ended.collect();
        ended.sort_unstable_by_key(|&(order, (_, address))| (order, address));
        for (_, (place, address)) in ended {
            self.free(Call { address, ..call }, place);
        }
        self.driver.graphs.clear();
        self.driver.graph_memory.remove(&device);
        self.driver.recent.clear();
    }

    /// A free failed after it was recorded: the memory is still there.
    fn restore(&mut self, call: Call) {
        let place = match Kind::of(call.handle) {
            Some(Kind::HostFree | Kind::Unregister) => Place::Host,
            Some(Kind::ArrayFree) => Place::Array,
            _ => Place::Device,
        };
        let key = (place, call.address);
        let Some(at) = self.driver.recent.iter().rposition(|&(freed, _)| freed == key) else { return };
        // Another thread may have the address by now; then the free did not fail for this memory.
        let Some((_, mut held)) =
            self.driver.recent.remove(at).filter(|_| !self.driver.held.contains_key(&key))
        else {
            return;
        };
        held.taken = Taken { order: self.events, time_us: call.time_us, ..held.taken };
        self.taken(place, call.address, &held);
        if held.is_counted(place) {
            self.count(held.device, held.size, false);
        }
        self.driver.held.insert(key, held);
    }

    pub(super) fn release(&mut self, call: Call) {
        if let Some(held) = self.driver.held.get_mut(&(Place::Handle, call.address)) {
            if held.retained > 0 {
                held.retained -= 1;
                return;
            }
            held.is_released = true;
        }
        self.drop_unused(call, call.address);
    }

    pub(super) fn map(&mut self, call: Call) {
        let taken = self.taken_by(call);
        let Some(held) = self.driver.held.get_mut(&(Place::Handle, call.handle)) else { return };
        self.driver.unmapped_segments -= u32::from(held.is_unmapped_segment());
        held.mappings += 1;
        let (device, is_segment) = (held.device, held.is_segment);
        let sized = (held.memory == DriverMemory::Imported && held.size == 0).then(|| {
            held.size = call.size;
            held.clone()
        });
        self.driver.mapped.insert(call.address, Mapped { handle: call.handle, taken });
        if let Some(held) = sized {
            self.driver_event(&held, call.handle, taken, false);
        }
        if is_segment {
            self.event(Action::SegmentMap, device, call.address, taken);
            self.count(device, call.size, false);
        }
    }

    pub(super) fn unmap(&mut self, call: Call) {
        let Some(Mapped { handle, taken }) = self.driver.mapped.remove(&call.address) else { return };
        let Some(held) = self.driver.held.get_mut(&(Place::Handle, handle)) else { return };
        held.mappings = held.mappings.saturating_sub(1);
        self.driver.unmapped_segments += u32::from(held.is_unmapped_segment());
        let (device, is_segment) = (held.device, held.is_segment);
        if is_segment {
            self.count(device, taken.size, true);
            self.now(Action::SegmentUnmap, device, call.address, call.size, call.time_us, call.stack);
        }
        self.drop_unused(call, handle);
    }

    /// Physical memory is freed once its handle is released and nothing maps it.
    pub(super) fn drop_unused(&mut self, call: Call, handle: u64) {
        let key = (Place::Handle, handle);
        if self.driver.held.get(&key).is_some_and(|held| held.is_released && held.mappings == 0)
            && let Some(held) = self.driver.held.remove(&key)
        {
            self.driver.unmapped_segments -= u32::from(held.is_unmapped_segment());
            if held.is_counted(Place::Handle) {
                self.count(held.device, held.size, true);
            }
            if !held.is_segment && held.size > 0 {
                self.driver_event(&held, handle, self.taken_by(call), true);
            }
        }
    }

    /// The allocations of a graph end with the graph and its executables.
    pub(super) fn drop_ended_graph(&mut self, call: Call, handle: u64) {
        if self.driver.graphs.get(&handle).is_some_and(|graph| graph.is_destroyed && graph.executables == 0) {
            for address in self.driver.graphs.remove(&handle).unwrap_or_default().allocations {
                self.free(Call { address, ..call }, Place::GraphNode);
            }
        }
    }

    /// The driver keeps `call.size` bytes for graphs. What is new belongs to the library that called; the newest parts are freed first.
    pub(super) fn graph_memory(&mut self, call: Call) {
        let device = call.device.unwrap_or(0);
        let mut parts = self.driver.graph_memory.remove(&device).unwrap_or_default();
        let size =
            |this: &Self, part| this.driver.held.get(&(Place::GraphPart, part)).map_or(0, |held| held.size);
        let mut bytes = parts.iter().fold(0_u64, |sum, &part| sum.saturating_add(size(self, part)));
        let mut library = None;
        while bytes > call.size
            && let Some(part) = parts.pop()
        {
            bytes -= size(self, part);
            library = self.driver.held.get(&(Place::GraphPart, part)).map(|held| held.library.clone());
            self.free(Call { address: part, ..call }, Place::GraphPart);
        }
        if bytes < call.size {
            self.driver.graph_parts += 1;
            parts.push(self.driver.graph_parts);
            let library = library.unwrap_or_else(|| self.library(call.caller));
            let part = Call { address: self.driver.graph_parts, size: call.size - bytes, ..call };
            self.take_by(library, part, Place::GraphPart, DriverMemory::Graph);
        }
        self.driver.graph_memory.insert(device, parts);
    }

    pub(super) fn driver_event(&mut self, held: &Held, address: u64, by: Taken, is_free: bool) {
        let stack = self.log_stack(by.stack);
        self.events += 1;
        if held.device >= 0 && self.written.devices.insert(held.device) {
            self.log.device(held.device);
        }
        self.log.driver_event(&LogDriverEvent {
            device: held.device,
            memory: held.memory,
            is_free,
            address,
            size: held.size,
            time_us: by.time_us,
            library: &held.library,
            stack,
        });
    }
}

/// The name of a library in a log: that of its file, or that of its Python package if it is an extension module of one.
pub(super) fn library_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_extension = [".cpython-", ".abi3."].iter().any(|mark| name.contains(mark));
    let mut folders = path.components().map(|part| part.as_os_str().to_string_lossy());
    let is_installed =
        |folder: std::borrow::Cow<'_, str>| ["site-packages", "dist-packages"].contains(&folder.as_ref());
    // A module without a package is a file in that folder.
    match folders.find(|folder| is_installed(folder.clone())).and_then(|_| folders.next()) {
        Some(package) if is_extension && package != name => package.into_owned(),
        _ if name.is_empty() => "?".to_owned(),
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_module_has_the_name_of_its_package() {
        let name = |path: &str| library_name(Path::new(path));
        let packages = "/usr/lib/python3.12/site-packages";
        let extension = "runtime.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(name(&format!("{packages}/cupy_backends/cuda/api/{extension}")), "cupy_backends");
        assert_eq!(name(&format!("{packages}/{extension}")), extension);
        assert_eq!(name(&format!("/home/me/cupy/{extension}")), extension);
        assert_eq!(name(&format!("{packages}/nvidia/nccl/lib/libnccl.so.2")), "libnccl.so.2");
        assert_eq!(name(""), "?");
    }
}
