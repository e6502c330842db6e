//! Turns the records of one process into its log.

use std::io;
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use vramscope_allocator::ExclusiveFile;
use vramscope_trace::formats::log::{LogDriverEvent, LogEvent, LogFrame, LogSite, LogStack, LogWriter};
use vramscope_trace::{Action, DriverMemory, MemoryReading, SegmentKind};

use crate::record::{Kind, PYTHON};
use crate::records::{Call, Record, TorchEvent};
use crate::symbols::{NativeFrame, Symbols};

/// The library with PyTorch's caching allocator. What it takes from the driver becomes a segment.
const CACHING_ALLOCATOR: &str = "libc10_cuda.so";

/// The log of one process.
#[derive(Debug)]
pub(crate) struct ProcessLog {
    log: LogWriter<ExclusiveFile>,
    sites: HashMap<u64, LogSite>,
    stacks: HashMap<u64, LogStack>,
    /// The program's file, whose name in memory may be relative.
    program: PathBuf,
    symbols: Symbols,
    /// Return addresses whose names are not in the log yet.
    unnamed: Vec<(LogSite, u64)>,
    /// The file name of the library at each call site.
    libraries: HashMap<u64, String>,
    /// What the process holds, by address or handle.
    held: HashMap<(Place, u64), Held>,
    /// The handle of the physical memory at each mapped address.
    mapped: HashMap<u64, u64>,
    /// Number of handles of PyTorch's physical memory that are not mapped: an expandable segment is about to grow, or it has shrunk.
    unmapped_segments: u32,
    /// Devices with memory beside PyTorch's allocator.
    devices: HashSet<i64>,
    /// Number of events so far.
    pub(crate) events: u64,
    /// Number of records that could not be understood.
    pub(crate) invalid: u64,
}

/// The kinds of addresses and handles, which are different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Device,
    Host,
    Handle,
    Array,
}

/// Memory that the process holds.
#[derive(Debug, Clone)]
struct Held {
    device: i64,
    size: u64,
    /// Part of PyTorch's caching allocator.
    is_segment: bool,
    memory: DriverMemory,
    library: String,
    /// For physical memory: how often it is mapped, and whether its handle was released.
    mappings: u32,
    is_released: bool,
}

impl Held {
    /// Whether this is physical memory of PyTorch's allocator that is not mapped.
    fn is_unmapped_segment(&self) -> bool {
        self.is_segment && self.memory == DriverMemory::Physical && self.mappings == 0
    }
}

impl ProcessLog {
    /// Begins the log of a process.
    ///
    /// # Errors
    /// The file cannot be written, or another recording writes to it.
    pub(crate) fn create(path: &Path, program: PathBuf) -> io::Result<Self> {
        let mut log = LogWriter::create(ExclusiveFile::create(path)?)?;
        log.process();
        Ok(Self {
            log,
            sites: HashMap::new(),
            stacks: HashMap::new(),
            program,
            symbols: Symbols::default(),
            unnamed: Vec::new(),
            libraries: HashMap::new(),
            held: HashMap::new(),
            mapped: HashMap::new(),
            unmapped_segments: 0,
            devices: HashSet::new(),
            events: 0,
            invalid: 0,
        })
    }

    /// Writes what was added.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.log.flush()
    }

    /// Number of bytes that wait for a flush.
    pub(crate) fn pending(&self) -> usize {
        self.log.pending()
    }

    /// Adds the names of native frames, and closes the log.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        for (site, address) in std::mem::take(&mut self.unnamed) {
            let frames = self.symbols.frames(address);
            if !frames.is_empty() {
                self.log.symbols(site, &frames.iter().map(log_frame).collect::<Vec<_>>());
            }
        }
        self.log.finish().map(drop)
    }

    /// Adds a record, by its kind and body.
    pub(crate) fn add(&mut self, kind: u8, body: &[u64]) {
        match Record::of(kind, body) {
            Some(Record::Site { site, line, name, path }) => {
                let frame = LogFrame { name: &name, filename: &path, line };
                self.sites.entry(site).or_insert_with(|| self.log.site(frame));
            }
            Some(Record::Stack(id, sites)) => self.stack(id, sites),
            Some(Record::Object { caller, path }) => {
                let path = if path.contains('/') { Path::new(&path) } else { &self.program };
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                self.libraries
                    .insert(caller, if name.is_empty() { "?".to_owned() } else { name.into_owned() });
            }
            Some(Record::Module { start, end, base, path }) => {
                let path = if path.contains('/') { PathBuf::from(path) } else { self.program.clone() };
                self.symbols.add(start, end, base, &path);
            }
            Some(Record::Torch(event)) => self.torch(event),
            Some(Record::TorchOom { time_us, device, stack, size, free }) => {
                self.event(Action::Oom, device, free, size, time_us, stack);
            }
            Some(Record::Call(call)) => self.call(call),
            Some(Record::Reading { time_us, device, free, total }) => {
                // Bytes that no segment has yet, or has no longer, would count as memory of nobody.
                if self.unmapped_segments == 0 {
                    let used = total.saturating_sub(free);
                    self.log.reading(&MemoryReading {
                        device,
                        time_us,
                        used,
                        total,
                        ..MemoryReading::default()
                    });
                }
            }
            None => self.invalid += 1,
        }
    }

    fn stack(&mut self, id: u64, sites: &[u64]) {
        if self.stacks.contains_key(&id) {
            return;
        }
        let sites: Vec<LogSite> = sites
            .iter()
            .filter(|&&site| site & PYTHON != 0 || !self.symbols.is_recorders(site))
            .map(|&site| {
                *self.sites.entry(site).or_insert_with(|| {
                    if site & PYTHON != 0 {
                        return self.log.site(LogFrame { name: "??", filename: "??", line: 0 });
                    }
                    let number = self.log.site(log_frame(&self.symbols.place(site)));
                    self.unnamed.push((number, site));
                    number
                })
            })
            .collect();
        self.stacks.insert(id, self.log.stack(&sites));
    }

    fn torch(&mut self, event: TorchEvent) {
        let action = if event.size < 0 { Action::Free } else { Action::Alloc };
        let size = event.size.unsigned_abs();
        self.event(action, event.device, event.address, size, event.time_us, event.stack);
    }

    fn event(
        &mut self,
        action: Action,
        device: i64,
        address_or_free: u64,
        size: u64,
        time_us: i64,
        stack: u64,
    ) {
        self.events += 1;
        self.log.event(&LogEvent {
            device,
            action,
            address_or_free,
            size,
            block_size: size.max(1),
            time_us,
            stack: self.stacks.get(&stack).copied(),
            stream: 0,
            pool: None,
            user_metadata: None,
            kind: SegmentKind::Unknown,
            unknown_action: None,
        });
    }

    fn call(&mut self, call: Call) {
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
        }
    }

    fn library(&self, caller: u64) -> String {
        self.libraries.get(&caller).cloned().unwrap_or_else(|| "?".to_owned())
    }

    fn take(&mut self, call: Call, place: Place, memory: DriverMemory) {
        let library = self.library(call.caller);
        let is_segment = library.starts_with(CACHING_ALLOCATOR) && memory.is_own();
        let device = if memory.is_host() { -1 } else { call.device.unwrap_or(0) };
        let size = call.size;
        let held = Held { device, size, is_segment, memory, library, mappings: 0, is_released: false };
        self.unmapped_segments += u32::from(held.is_unmapped_segment());
        self.taken(call, place, &held);
        let before = self.held.insert((place, call.address), held);
        self.unmapped_segments -= u32::from(before.is_some_and(|before| before.is_unmapped_segment()));
    }

    /// Writes that memory was taken.
    fn taken(&mut self, call: Call, place: Place, held: &Held) {
        match (held.is_segment, place) {
            // An expandable segment grows when its memory is mapped.
            (true, Place::Handle) => {}
            // The size of a handle from another process is known when it is mapped.
            (false, Place::Handle) if held.memory == DriverMemory::Imported && held.size == 0 => {}
            (true, _) => {
                let Held { device, size, .. } = *held;
                self.event(Action::SegmentAlloc, device, call.address, size, call.time_us, call.stack);
            }
            (false, _) => self.driver_event(call, held, false),
        }
    }

    fn free(&mut self, call: Call, place: Place) {
        // Null is freed without effect, and memory from before the recording is unknown.
        let Some(held) = self.held.remove(&(place, call.address)) else { return };
        match held.is_segment {
            true => {
                let Held { device, size, .. } = held;
                self.event(Action::SegmentFree, device, call.address, size, call.time_us, call.stack);
            }
            false => self.driver_event(call, &held, true),
        }
    }

    fn release(&mut self, call: Call) {
        if let Some(held) = self.held.get_mut(&(Place::Handle, call.address)) {
            held.is_released = true;
        }
        self.drop_unused(call, call.address);
    }

    fn map(&mut self, call: Call) {
        let Some(held) = self.held.get_mut(&(Place::Handle, call.handle)) else { return };
        self.unmapped_segments -= u32::from(held.is_unmapped_segment());
        held.mappings += 1;
        let (device, is_segment) = (held.device, held.is_segment);
        let sized = (held.memory == DriverMemory::Imported && held.size == 0).then(|| {
            held.size = call.size;
            held.clone()
        });
        self.mapped.insert(call.address, call.handle);
        if let Some(held) = sized {
            self.driver_event(Call { address: call.handle, ..call }, &held, false);
        }
        if is_segment {
            self.event(Action::SegmentMap, device, call.address, call.size, call.time_us, call.stack);
        }
    }

    fn unmap(&mut self, call: Call) {
        let Some(handle) = self.mapped.remove(&call.address) else { return };
        let Some(held) = self.held.get_mut(&(Place::Handle, handle)) else { return };
        held.mappings = held.mappings.saturating_sub(1);
        self.unmapped_segments += u32::from(held.is_unmapped_segment());
        let (device, is_segment) = (held.device, held.is_segment);
        if is_segment {
            self.event(Action::SegmentUnmap, device, call.address, call.size, call.time_us, call.stack);
        }
        self.drop_unused(call, handle);
    }

    /// Physical memory is freed once its handle is released and nothing maps it.
    fn drop_unused(&mut self, call: Call, handle: u64) {
        let key = (Place::Handle, handle);
        if self.held.get(&key).is_some_and(|held| held.is_released && held.mappings == 0)
            && let Some(held) = self.held.remove(&key)
        {
            self.unmapped_segments -= u32::from(held.is_unmapped_segment());
            if !held.is_segment && held.size > 0 {
                self.driver_event(Call { address: handle, ..call }, &held, true);
            }
        }
    }

    fn driver_event(&mut self, call: Call, held: &Held, is_free: bool) {
        self.events += 1;
        if held.device >= 0 && self.devices.insert(held.device) {
            self.log.device(held.device);
        }
        self.log.driver_event(&LogDriverEvent {
            device: held.device,
            memory: held.memory,
            is_free,
            address: call.address,
            size: held.size,
            time_us: call.time_us,
            library: &held.library,
            stack: self.stacks.get(&call.stack).copied(),
        });
    }
}

fn log_frame(frame: &NativeFrame) -> LogFrame<'_> {
    LogFrame { name: &frame.name, filename: &frame.file, line: frame.line }
}
