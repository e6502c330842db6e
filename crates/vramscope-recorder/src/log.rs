//! Turns the records of one process into its log.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use hashbrown::{HashMap, HashSet};
use vramscope_allocator::ExclusiveFile;
use vramscope_basics::lock;
use vramscope_trace::formats::log::{LogDriverEvent, LogEvent, LogFrame, LogSite, LogStack, LogWriter};
use vramscope_trace::{Action, DriverMemory, HostReading, LogFact, MemoryReading, SegmentKind, Stage};

use crate::accesses::Accesses;
use crate::notes::{Change, Notes};
use crate::record::{Kind, PYTHON};
use crate::records::{Call, Record, TorchEvent};
use crate::running::{RunningCount, RunningDevice, RunningLibrary};
use crate::symbols::{Modules, Names, NativeFrame};

/// The library with PyTorch's caching allocator. What it takes from the driver becomes a segment.
const CACHING_ALLOCATOR: &str = "libc10_cuda.so";

/// The function of the Python package that calls the program's modules, and the end of its file (`python/vramscope/torch/_hooks.py`).
const HOOK: (&str, &str) = ("watched_call", "vramscope/torch/_hooks.py");

/// Bytes of the name of a native frame in a log, about.
const BYTES_PER_NAME: usize = 150;

/// Device memory of a process at which its log is copied: that of PyTorch's segments and of other libraries together, on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyAt {
    /// Bytes.
    Bytes(u64),
    /// Percent of the device's total memory.
    Percent(u8),
}

/// The log of one process.
#[derive(Debug)]
pub(crate) struct ProcessLog {
    log: LogWriter<ExclusiveFile>,
    keep: Option<Keep>,
    /// Bytes of the log that were flushed.
    flushed: u64,
    /// Statements about the recording.
    facts: Vec<LogFact<'static>>,
    /// Calls of functions that the library does not follow, and whether the log has their number.
    not_followed: BTreeMap<String, (u64, bool)>,
    /// What the log has of the following.
    written: Written,
    /// Positions in Python code.
    frames: HashMap<u64, OwnedFrame>,
    /// Positions in the Python package's own code, which stacks leave out.
    hooks: HashSet<u64>,
    /// The sites of stacks.
    stacks: HashMap<u64, Box<[u64]>>,
    /// The program's file, whose name in memory may be relative.
    program: PathBuf,
    modules: Modules,
    names: Arc<Mutex<Names>>,
    /// The file name of the library at each call site.
    libraries: HashMap<u64, String>,
    /// What the process holds, by address or handle.
    held: HashMap<(Place, u64), Held>,
    /// The physical memory at each mapped address.
    mapped: HashMap<u64, Mapped>,
    /// Number of handles of PyTorch's physical memory that are not mapped: an expandable segment is about to grow, or it has shrunk.
    unmapped_segments: u32,
    /// Graphs with allocations, by handle.
    graphs: HashMap<u64, Graph>,
    /// The graph of each executable one.
    executables: HashMap<u64, u64>,
    /// The memory that the driver keeps for graphs on each device: the numbers of its parts, oldest first.
    graph_memory: HashMap<i64, Vec<u64>>,
    /// Number of parts so far.
    graph_parts: u64,
    /// The live blocks of PyTorch's allocator, by device and address, if older logs are deleted.
    blocks: HashMap<(i64, u64), Taken>,
    /// What the Python package knows about live blocks.
    notes: Notes,
    /// Allocated bytes of PyTorch's allocator on each device, and the fewest so far. Frees of memory from before the recording make them
    /// negative.
    allocated: HashMap<i64, (i64, i64)>,
    /// The last reading of each device, the number of calls before it, and the memory that the process held then.
    readings: BTreeMap<i64, (MemoryReading, u64, u64)>,
    /// Memory of each device that the process holds.
    device_bytes: HashMap<i64, u64>,
    /// When the log becomes due for a copy, until it does.
    copy_at: Option<CopyAt>,
    /// Total memory of each device that was read.
    totals: HashMap<i64, u64>,
    /// Whether PyTorch has run out of memory.
    had_oom: bool,
    /// Why the log is to be copied now: `oom` or `mark`.
    due: Option<&'static str>,
    /// Number of calls of the runtime and the driver.
    calls: u64,
    /// Accesses of live blocks, if they are recorded.
    accesses: Option<Accesses>,
    /// Number of launches that the log has.
    written_launches: u64,
    /// Number of events so far.
    pub(crate) events: u64,
    /// Number of records that could not be understood.
    pub(crate) invalid: u64,
}

/// The limit on a log's size.
#[derive(Debug)]
struct Keep {
    bytes: u64,
    /// Size at which the next log begins.
    limit: u64,
    paths: LogPaths,
    /// Closes the log before this one.
    closing: Option<Closing>,
}

/// The names of a process's logs, in one folder.
#[derive(Debug, Clone)]
pub(crate) struct LogPaths {
    pub(crate) log: PathBuf,
    /// The log before it.
    pub(crate) before: PathBuf,
    /// A log of which only the beginning is written yet.
    pub(crate) next: PathBuf,
}

/// A thread that adds the names of native frames to a log, and closes it.
#[derive(Debug)]
pub(crate) struct Closing {
    thread: JoinHandle<io::Result<()>>,
    /// Whether the log is no longer wanted.
    is_cancelled: Arc<AtomicBool>,
}

/// The numbers in a log of what it has.
#[derive(Debug, Default)]
struct Written {
    sites: HashMap<u64, LogSite>,
    stacks: HashMap<u64, LogStack>,
    /// Return addresses whose names are not in the log yet.
    unnamed: Vec<(LogSite, u64)>,
    /// Devices with memory beside PyTorch's allocator.
    devices: HashSet<i64>,
    /// Number of events of each device.
    events: HashMap<i64, u64>,
}

/// A position in Python code.
#[derive(Debug)]
struct OwnedFrame {
    name: Box<str>,
    path: Box<str>,
    line: u32,
}

/// The event by which memory was taken.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Number of events before it.
    order: u64,
    time_us: i64,
    size: u64,
    stack: u64,
}

/// A mapping of physical memory.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    handle: u64,
    taken: Taken,
}

/// Live memory, which a new log begins with.
enum Live<'a> {
    Block(i64, u64, Taken),
    Mapped(i64, u64, Taken),
    Held(Place, u64, &'a Held),
}

/// The kinds of addresses and handles, which are different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
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
struct Graph {
    /// Addresses of its allocations.
    allocations: Vec<u64>,
    is_destroyed: bool,
    /// Number of its executables.
    executables: u32,
}

/// Memory that the process holds.
#[derive(Debug, Clone)]
struct Held {
    device: i64,
    size: u64,
    taken: Taken,
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

    /// Whether the memory counts for [`CopyAt`] from its allocation. An expandable segment counts where its memory is mapped.
    fn is_counted(&self, place: Place) -> bool {
        self.memory.is_own() && !(self.is_segment && place == Place::Handle)
    }
}

impl ProcessLog {
    /// Begins the log of a process.
    ///
    /// # Errors
    /// The file cannot be written, or another recording writes to it.
    pub(crate) fn create(
        paths: LogPaths,
        program: PathBuf,
        facts: Vec<LogFact<'static>>,
        keep: Option<u64>,
        copy_at: Option<CopyAt>,
        with_accesses: bool,
    ) -> io::Result<Self> {
        let log = begin(&paths.log, &facts)?;
        // A pipe cannot be cut.
        let keep = keep.filter(|_| log.get_ref().is_regular()).map(|bytes| {
            Ok::<_, io::Error>(Keep { bytes, limit: limit(bytes, 0), paths: paths.real()?, closing: None })
        });
        let keep = keep.transpose()?;
        if let Some(Keep { paths, .. }) = &keep {
            // Those of an earlier run do not continue this one.
            remove_log(&paths.before)?;
            remove_log(&paths.next)?;
        }
        Ok(Self {
            log,
            keep,
            flushed: 0,
            facts,
            not_followed: BTreeMap::new(),
            written: Written::default(),
            frames: HashMap::new(),
            hooks: HashSet::new(),
            stacks: HashMap::new(),
            program,
            modules: Modules::default(),
            names: Arc::default(),
            libraries: HashMap::new(),
            held: HashMap::new(),
            mapped: HashMap::new(),
            unmapped_segments: 0,
            graphs: HashMap::new(),
            executables: HashMap::new(),
            graph_memory: HashMap::new(),
            graph_parts: 0,
            blocks: HashMap::new(),
            notes: Notes::default(),
            allocated: HashMap::new(),
            readings: BTreeMap::new(),
            device_bytes: HashMap::new(),
            copy_at,
            totals: HashMap::new(),
            had_oom: false,
            due: None,
            calls: 0,
            accesses: with_accesses.then(Accesses::default),
            written_launches: 0,
            events: 0,
            invalid: 0,
        })
    }

    /// Writes what was added.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.write_accesses();
        for (function, (calls, is_written)) in &mut self.not_followed {
            if !std::mem::replace(is_written, true) {
                self.log.fact(LogFact::NotFollowed(function, *calls));
            }
        }
        let pending = self.log.pending();
        let flushed = self.log.flush();
        self.flushed += (pending - self.log.pending()) as u64;
        flushed
    }

    /// Writes the accesses so far. A log whose last events have none is read without accesses.
    fn write_accesses(&mut self) {
        let Some(accesses) = &mut self.accesses else { return };
        let launches = accesses.launches;
        let is_new = self.log.pending() > 0 || launches != self.written_launches;
        if launches > 0 && is_new {
            self.written_launches = launches;
            accesses.changed().for_each(|accesses| self.log.accesses(&accesses));
            self.log.launches(launches, accesses.unknown_launches);
        }
    }

    /// Why the log is to be copied now; at most once for each reason.
    pub(crate) fn due(&mut self) -> Option<&'static str> {
        self.due.take()
    }

    /// Flushes the log, and returns it for a copy at `path`.
    ///
    /// # Errors
    /// The log cannot be written, or it is not a file that can be read again.
    pub(crate) fn copy(&mut self, path: PathBuf) -> io::Result<LogCopy> {
        self.flush()?;
        let file = self.log.get_ref();
        if !file.is_regular() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the log is not a regular file"));
        }
        file.check_name()?;
        let log = std::fs::File::open(file.path())?;
        Ok(LogCopy {
            path,
            bytes: log.metadata()?.len(),
            log,
            rest: Rest {
                log: self.log.continued_in(Vec::new()),
                unnamed: self.written.unnamed.clone(),
                modules: self.modules.clone(),
                names: Arc::clone(&self.names),
            },
        })
    }

    /// Checks that the log's path still names its file.
    pub(crate) fn check_name(&self) -> io::Result<()> {
        self.log.get_ref().check_name()
    }

    /// What the process holds on each device, and what its libraries hold on the host.
    pub(crate) fn running(&self) -> (Vec<RunningDevice>, Vec<RunningLibrary>) {
        let mut devices: BTreeMap<i64, RunningDevice> = BTreeMap::new();
        for (&device, &(now, fewest)) in self.allocated.iter().collect::<BTreeMap<_, _>>() {
            devices.entry(device).or_default().allocated = now.abs_diff(fewest);
        }
        for (&device, (reading, _, held)) in &self.readings {
            let rest = i128::from(reading.used) - i128::from(*held);
            let rest = rest.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            let count = RunningCount { used: reading.used, total: reading.total, rest };
            devices.entry(device).or_default().count = Some(count);
        }
        // The device is -1 for host memory.
        let mut libraries: BTreeMap<(i64, &str, &'static str), (u64, u64)> = BTreeMap::new();
        let mut reserved: Vec<(i64, u64)> = Vec::new();
        self.held.iter().for_each(|(&(place, _), held)| match (held.is_segment, place) {
            (true, Place::Handle) => {}
            (true, _) => reserved.push((held.device, held.size)),
            (false, _) => {
                let key = (held.device, held.library.as_str(), held.memory.name());
                let (bytes, count) = libraries.entry(key).or_default();
                *bytes = bytes.saturating_add(held.size);
                *count += 1;
            }
        });
        self.mapped.values().for_each(|mapped| {
            let held = self.held.get(&(Place::Handle, mapped.handle)).filter(|held| held.is_segment);
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
    fn count(&mut self, device: i64, size: u64, is_free: bool) {
        let bytes = self.device_bytes.entry(device).or_default();
        *bytes = if is_free { bytes.saturating_sub(size) } else { bytes.saturating_add(size) };
        self.compare(device);
    }

    /// Compares the memory of a device with the mark.
    fn compare(&mut self, device: i64) {
        let bytes = self.device_bytes.get(&device).copied().unwrap_or_default();
        let has_reached = match self.copy_at {
            None => false,
            Some(CopyAt::Bytes(mark)) => bytes >= mark,
            Some(CopyAt::Percent(percent)) => self
                .totals
                .get(&device)
                .is_some_and(|&total| u128::from(bytes) * 100 >= u128::from(total) * u128::from(percent)),
        };
        if has_reached {
            self.copy_at = None;
            self.due = Some("mark");
        }
    }

    /// Whether the log is so large that the next one begins.
    pub(crate) fn is_large(&self) -> bool {
        self.keep.as_ref().is_some_and(|keep| self.size() >= keep.limit)
    }

    /// Size of the log in bytes with the names of native frames, about.
    fn size(&self) -> u64 {
        self.flushed + (self.log.pending() + self.written.unnamed.len() * BYTES_PER_NAME) as u64
    }

    /// Begins the next log with the live memory, and keeps the present one as the log before it. The file of the present one has its name
    /// until the next one has all live memory.
    ///
    /// # Errors
    /// The system's error. The present log goes on then.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        let Some(mut keep) = self.keep.take() else { return Ok(()) };
        let began = self.begin_next(&mut keep);
        keep.limit = match &began {
            Ok(()) => limit(keep.bytes, self.size()),
            Err(_) => self.size() + keep.bytes / 8,
        };
        self.keep = Some(keep);
        began
    }

    fn begin_next(&mut self, keep: &mut Keep) -> io::Result<()> {
        if let Some(closing) = keep.closing.take() {
            closing.is_cancelled.store(true, Ordering::Relaxed);
        }
        // Not before it has its name: another file may have taken it.
        if self.log.get_ref().has_its_name() {
            match std::fs::remove_file(&keep.paths.before) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        self.flush()?;
        let mut former = std::mem::replace(&mut self.log, begin(&keep.paths.next, &self.facts)?);
        self.not_followed.values_mut().for_each(|(_, is_written)| *is_written = false);
        let (written, flushed) = (std::mem::take(&mut self.written), std::mem::take(&mut self.flushed));
        let notes = self.notes.clone();
        self.write_live();
        let named =
            self.flush().and_then(|()| self.log.get_mut().take_name(former.get_mut(), &keep.paths.before));
        if let Err(error) = named {
            (self.log, self.written, self.flushed) = (former, written, flushed);
            self.notes = notes;
            std::fs::remove_file(&keep.paths.next).ok();
            return Err(error);
        }
        let (modules, names) = (self.modules.clone(), Arc::clone(&self.names));
        let former = Rest { log: former, unnamed: written.unnamed, modules, names };
        keep.closing = Some(former.close()?);
        Ok(())
    }

    /// Writes the events of all live memory, in the order in which they happened.
    fn write_live(&mut self) {
        let (held, mapped, blocks) = (
            std::mem::take(&mut self.held),
            std::mem::take(&mut self.mapped),
            std::mem::take(&mut self.blocks),
        );
        let of_blocks =
            blocks.iter().map(|(&(device, at), &taken)| (taken.order, Live::Block(device, at, taken)));
        let of_mapped = mapped.iter().filter_map(|(&at, &Mapped { handle, taken })| {
            let held = held.get(&(Place::Handle, handle)).filter(|held| held.is_segment)?;
            Some((taken.order, Live::Mapped(held.device, at, taken)))
        });
        let of_held = held.iter().map(|(&(place, at), held)| (held.taken.order, Live::Held(place, at, held)));
        let mut live: Vec<(u64, Live<'_>)> = of_blocks.chain(of_mapped).chain(of_held).collect();
        live.sort_unstable_by_key(|&(order, _)| order);
        let events = self.events;
        for (_, live) in live {
            match live {
                Live::Block(device, at, taken) => {
                    let event = self.event_count(device);
                    let text = self.notes.moved(at, event).map(str::to_owned);
                    self.event_with(Action::Alloc, device, at, taken, text.as_deref());
                }
                Live::Mapped(device, at, taken) => self.event(Action::SegmentMap, device, at, taken),
                Live::Held(place, at, held) => self.taken(place, at, held),
            }
        }
        self.events = events;
        (self.held, self.mapped, self.blocks) = (held, mapped, blocks);
        // A reading from before the last call does not fit the present allocations.
        for (reading, calls, _) in self.readings.values() {
            if *calls == self.calls {
                self.log.reading(reading);
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.log.cut(i64::try_from(now.as_micros()).unwrap_or(i64::MAX));
    }

    /// Adds a reading of the host memory of the process.
    pub(crate) fn host(&mut self, reading: &HostReading) {
        self.log.host(reading);
    }

    /// Number of bytes that wait for a flush.
    pub(crate) fn pending(&self) -> usize {
        self.log.pending()
    }

    /// Adds the names of native frames, and closes the log, in threads: other processes are recorded meanwhile.
    pub(crate) fn finish(mut self) -> io::Result<Vec<Closing>> {
        self.flush()?;
        let before = self.keep.as_mut().and_then(|keep| keep.closing.take());
        let Self { log, written: Written { unnamed, .. }, modules, names, .. } = self;
        let last = Rest { log, unnamed, modules, names }.close()?;
        Ok(before.into_iter().chain([last]).collect())
    }

    /// Adds a record, by its kind and body.
    pub(crate) fn add(&mut self, kind: u8, body: &[u64]) {
        match Record::of(kind, body) {
            Some(Record::Site { site, line, name, path }) => {
                if name == HOOK.0 && path.ends_with(HOOK.1) {
                    self.hooks.insert(site);
                }
                let frame = OwnedFrame { name: name.into(), path: path.into(), line };
                self.frames.entry(site).or_insert(frame);
            }
            Some(Record::Stack(id, sites)) => self.stack(id, sites),
            Some(Record::Object { caller, path }) => {
                let path = if path.contains('/') { Path::new(&path) } else { &self.program };
                self.libraries.insert(caller, library_name(path));
            }
            Some(Record::Module { start, end, base, path }) => {
                let path = if path.contains('/') { PathBuf::from(path) } else { self.program.clone() };
                self.modules.add(start, end, base, &path);
            }
            Some(Record::Torch(event)) => self.torch(event),
            Some(Record::TorchOom { time_us, device, stack, size, free }) => {
                self.now(Action::Oom, device, free, size, time_us, stack);
                if !std::mem::replace(&mut self.had_oom, true) {
                    self.due = Some("oom");
                }
            }
            Some(Record::Call(call)) => self.call(call),
            Some(Record::Reading { time_us, device, free, total }) => {
                self.totals.insert(device, total);
                self.compare(device);
                // While a segment grows or shrinks, some of its bytes belong to no segment. The report would count them as unexplained.
                if self.unmapped_segments == 0 {
                    let used = total.saturating_sub(free);
                    let reading = MemoryReading { device, time_us, used, total, ..MemoryReading::default() };
                    self.log.reading(&reading);
                    let held = self.device_bytes.get(&device).copied().unwrap_or(0);
                    self.readings.insert(device, (reading, self.calls, held));
                }
            }
            Some(Record::ModulePath { module, path }) => self.notes.module(module, path),
            Some(Record::Place { thread, module, phase }) => self.notes.place(thread, module, phase),
            Some(Record::Role { address, role, module }) => {
                let change = self.notes.role(address, role, module);
                self.change(change);
            }
            Some(Record::Tensor { address, description }) => {
                let change = self.notes.tensor(address, description);
                self.change(change);
            }
            Some(Record::Region { time_us, device, is_end, name }) => {
                self.log.annotation(if is_end { Stage::End } else { Stage::Start }, &name, device, time_us);
            }
            Some(Record::Access(flags, addresses)) => {
                let events = &self.written.events;
                if let Some(of) = &mut self.accesses {
                    of.add(flags, addresses, |device| events.get(&device).map_or(0, |&n| n as usize));
                }
            }
            // The library counts fewer functions.
            Some(Record::NotFollowed(_)) if self.not_followed.len() >= 64 => self.invalid += 1,
            Some(Record::NotFollowed(function)) => {
                let (calls, is_written) = self.not_followed.entry(function).or_default();
                (*calls, *is_written) = (calls.saturating_add(1), false);
            }
            None => self.invalid += 1,
        }
    }

    /// Changes the text of an allocation in the log.
    fn change(&mut self, change: Option<Change>) {
        if let Some(Change { device, event, text }) = change {
            self.log.metadata(device, event, &text);
        }
    }

    /// Number of events of a device in the present log.
    fn event_count(&self, device: i64) -> u64 {
        self.written.events.get(&device).copied().unwrap_or(0)
    }

    fn stack(&mut self, id: u64, sites: &[u64]) {
        let (modules, hooks) = (&self.modules, &self.hooks);
        let is_shown = |&&site: &&u64| {
            if site & PYTHON != 0 { !hooks.contains(&site) } else { !modules.is_recorders(site) }
        };
        self.stacks.entry(id).or_insert_with(|| sites.iter().filter(is_shown).copied().collect());
    }

    /// The number of a stack in the log, which gets the stack if it is new.
    fn log_stack(&mut self, id: u64) -> Option<LogStack> {
        if let Some(&stack) = self.written.stacks.get(&id) {
            return Some(stack);
        }
        let sites = self.stacks.get(&id)?.iter().map(|&site| {
            *self.written.sites.entry(site).or_insert_with(|| {
                if site & PYTHON == 0 {
                    let number = self.log.site(log_frame(&self.modules.place(site)));
                    self.written.unnamed.push((number, site));
                    return number;
                }
                let frame = self.frames.get(&site);
                let frame = frame.map(|f| LogFrame { name: &f.name, filename: &f.path, line: f.line });
                self.log.site(frame.unwrap_or(LogFrame { name: "??", filename: "??", line: 0 }))
            })
        });
        let sites: Vec<LogSite> = sites.collect();
        let stack = self.log.stack(&sites);
        self.written.stacks.insert(id, stack);
        Some(stack)
    }

    fn torch(&mut self, event: TorchEvent) {
        let TorchEvent { time_us, device, address, stack, thread, .. } = event;
        let size = event.size.unsigned_abs();
        let is_free = event.size < 0;
        let (now, fewest) = self.allocated.entry(device).or_default();
        *now = now.saturating_add(event.size);
        *fewest = (*fewest).min(*now);
        if self.keep.is_some() {
            if is_free {
                self.blocks.remove(&(device, address));
            } else {
                let taken = Taken { order: self.events, time_us, size, stack };
                self.blocks.insert((device, address), taken);
            }
        }
        match &mut self.accesses {
            Some(of) if is_free => of.freed(address).iter().for_each(|accesses| self.log.accesses(accesses)),
            Some(of) => {
                let allocation = self.written.events.get(&device).map_or(0, |&n| n as usize);
                of.allocated(device, address, size.max(1), allocation);
            }
            None => {}
        }
        let taken = Taken { order: self.events, time_us, size, stack };
        if is_free {
            let change = self.notes.freed(address);
            self.change(change);
            self.event(Action::Free, device, address, taken);
        } else {
            let number = self.event_count(device);
            let text = self.notes.allocated(device, address, size, number, thread).map(str::to_owned);
            self.event_with(Action::Alloc, device, address, taken, text.as_deref());
        }
    }

    /// Adds an event that happens now.
    fn now(
        &mut self,
        action: Action,
        device: i64,
        address_or_free: u64,
        size: u64,
        time_us: i64,
        stack: u64,
    ) {
        let taken = Taken { order: self.events, time_us, size, stack };
        self.event(action, device, address_or_free, taken);
    }

    fn event(&mut self, action: Action, device: i64, address_or_free: u64, taken: Taken) {
        self.event_with(action, device, address_or_free, taken, None);
    }

    fn event_with(
        &mut self,
        action: Action,
        device: i64,
        address_or_free: u64,
        taken: Taken,
        user_metadata: Option<&str>,
    ) {
        let Taken { time_us, size, stack, .. } = taken;
        let stack = self.log_stack(stack);
        self.events += 1;
        *self.written.events.entry(device).or_default() += 1;
        self.log.event(&LogEvent {
            device,
            action,
            address_or_free,
            size,
            block_size: size.max(1),
            time_us,
            stack,
            stream: 0,
            pool: None,
            user_metadata,
            kind: SegmentKind::Unknown,
            unknown_action: None,
        });
    }

    fn call(&mut self, call: Call) {
        self.calls += 1;
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
                self.graphs.entry(call.handle).or_default().allocations.push(call.address);
                self.take(call, Place::GraphNode, DriverMemory::GraphNode);
            }
            Kind::GraphInstantiate => {
                if let Some(graph) = self.graphs.get_mut(&call.handle) {
                    graph.executables += 1;
                    self.executables.insert(call.address, call.handle);
                }
            }
            Kind::GraphDestroy => {
                if let Some(graph) = self.graphs.get_mut(&call.address) {
                    graph.is_destroyed = true;
                }
                self.drop_ended_graph(call, call.address);
            }
            Kind::GraphExecDestroy => {
                if let Some(handle) = self.executables.remove(&call.address) {
                    if let Some(graph) = self.graphs.get_mut(&handle) {
                        graph.executables -= 1;
                    }
                    self.drop_ended_graph(call, handle);
                }
            }
            Kind::GraphMemory => self.graph_memory(call),
        }
    }

    fn library(&self, caller: u64) -> String {
        self.libraries.get(&caller).cloned().unwrap_or_else(|| "?".to_owned())
    }

    fn take(&mut self, call: Call, place: Place, memory: DriverMemory) {
        self.take_by(self.library(call.caller), call, place, memory);
    }

    fn take_by(&mut self, library: String, call: Call, place: Place, memory: DriverMemory) {
        let is_segment =
            library.starts_with(CACHING_ALLOCATOR) && memory.is_own() && memory != DriverMemory::Graph;
        let device = if memory.is_host() { -1 } else { call.device.unwrap_or(0) };
        let size = call.size;
        let taken = self.taken_by(call);
        let held = Held { device, size, taken, is_segment, memory, library, mappings: 0, is_released: false };
        self.unmapped_segments += u32::from(held.is_unmapped_segment());
        self.taken(place, call.address, &held);
        let is_counted = held.is_counted(place);
        let before = self.held.insert((place, call.address), held);
        if let Some(before) = before {
            self.unmapped_segments -= u32::from(before.is_unmapped_segment());
            if before.is_counted(place) {
                self.count(before.device, before.size, true);
            }
        }
        if is_counted {
            self.count(device, size, false);
        }
    }

    fn taken_by(&self, call: Call) -> Taken {
        let Call { time_us, size, stack, .. } = call;
        Taken { order: self.events, time_us, size, stack }
    }

    /// Writes that memory was taken.
    fn taken(&mut self, place: Place, address: u64, held: &Held) {
        match (held.is_segment, place) {
            // An expandable segment grows when its memory is mapped.
            (true, Place::Handle) => {}
            // The size of a handle from another process is known when it is mapped.
            (false, Place::Handle) if held.memory == DriverMemory::Imported && held.size == 0 => {}
            (true, _) => self.event(Action::SegmentAlloc, held.device, address, held.taken),
            (false, _) => self.driver_event(held, address, held.taken, false),
        }
    }

    fn free(&mut self, call: Call, place: Place) {
        // Null is freed without effect, and memory from before the recording is unknown.
        let Some(held) = self.held.remove(&(place, call.address)) else { return };
        if held.is_counted(place) {
            self.count(held.device, held.size, true);
        }
        match held.is_segment {
            true => {
                let Held { device, size, .. } = held;
                self.now(Action::SegmentFree, device, call.address, size, call.time_us, call.stack);
            }
            false => self.driver_event(&held, call.address, self.taken_by(call), true),
        }
    }

    fn release(&mut self, call: Call) {
        if let Some(held) = self.held.get_mut(&(Place::Handle, call.address)) {
            held.is_released = true;
        }
        self.drop_unused(call, call.address);
    }

    fn map(&mut self, call: Call) {
        let taken = self.taken_by(call);
        let Some(held) = self.held.get_mut(&(Place::Handle, call.handle)) else { return };
        self.unmapped_segments -= u32::from(held.is_unmapped_segment());
        held.mappings += 1;
        let (device, is_segment) = (held.device, held.is_segment);
        let sized = (held.memory == DriverMemory::Imported && held.size == 0).then(|| {
            held.size = call.size;
            held.clone()
        });
        self.mapped.insert(call.address, Mapped { handle: call.handle, taken });
        if let Some(held) = sized {
            self.driver_event(&held, call.handle, taken, false);
        }
        if is_segment {
            self.event(Action::SegmentMap, device, call.address, taken);
            self.count(device, call.size, false);
        }
    }

    fn unmap(&mut self, call: Call) {
        let Some(Mapped { handle, taken }) = self.mapped.remove(&call.address) else { return };
        let Some(held) = self.held.get_mut(&(Place::Handle, handle)) else { return };
        held.mappings = held.mappings.saturating_sub(1);
        self.unmapped_segments += u32::from(held.is_unmapped_segment());
        let (device, is_segment) = (held.device, held.is_segment);
        if is_segment {
            self.count(device, taken.size, true);
            self.now(Action::SegmentUnmap, device, call.address, call.size, call.time_us, call.stack);
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
            if held.is_counted(Place::Handle) {
                self.count(held.device, held.size, true);
            }
            if !held.is_segment && held.size > 0 {
                self.driver_event(&held, handle, self.taken_by(call), true);
            }
        }
    }

    /// The allocations of a graph end with the graph and its executables.
    fn drop_ended_graph(&mut self, call: Call, handle: u64) {
        if self.graphs.get(&handle).is_some_and(|graph| graph.is_destroyed && graph.executables == 0) {
            for address in self.graphs.remove(&handle).unwrap_or_default().allocations {
                self.free(Call { address, ..call }, Place::GraphNode);
            }
        }
    }

    /// The driver keeps `call.size` bytes for graphs. What is new belongs to the library that called; the newest parts are freed first.
    fn graph_memory(&mut self, call: Call) {
        let device = call.device.unwrap_or(0);
        let mut parts = self.graph_memory.remove(&device).unwrap_or_default();
        let size = |this: &Self, part| this.held.get(&(Place::GraphPart, part)).map_or(0, |held| held.size);
        let mut bytes = parts.iter().fold(0_u64, |sum, &part| sum.saturating_add(size(self, part)));
        let mut library = None;
        while bytes > call.size
            && let Some(part) = parts.pop()
        {
            bytes -= size(self, part);
            library = self.held.get(&(Place::GraphPart, part)).map(|held| held.library.clone());
            self.free(Call { address: part, ..call }, Place::GraphPart);
        }
        if bytes < call.size {
            self.graph_parts += 1;
            parts.push(self.graph_parts);
            let library = library.unwrap_or_else(|| self.library(call.caller));
            let part = Call { address: self.graph_parts, size: call.size - bytes, ..call };
            self.take_by(library, part, Place::GraphPart, DriverMemory::Graph);
        }
        self.graph_memory.insert(device, parts);
    }

    fn driver_event(&mut self, held: &Held, address: u64, by: Taken, is_free: bool) {
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
fn library_name(path: &Path) -> String {
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

/// Begins a log at `path`.
fn begin(path: &Path, facts: &[LogFact<'_>]) -> io::Result<LogWriter<ExclusiveFile>> {
    let mut log = LogWriter::create(ExclusiveFile::create(path)?)?;
    log.process();
    facts.iter().for_each(|&fact| log.fact(fact));
    Ok(log)
}

/// Removes a log of an earlier run, unless it is still written to.
fn remove_log(path: &Path) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    drop(ExclusiveFile::create(path)?);
    std::fs::remove_file(path)
}

/// Size in bytes at which a log ends, without the names of native frames. `live` is the size of the events of live memory at its beginning.
/// Two logs together have at most `keep` bytes.
fn limit(keep: u64, live: u64) -> u64 {
    (keep / 2 - keep / 32).max(2 * live)
}

/// A log without the names of native frames.
#[derive(Debug)]
pub(crate) struct Rest<W> {
    log: LogWriter<W>,
    /// Return addresses whose names are not in the log yet.
    unnamed: Vec<(LogSite, u64)>,
    modules: Modules,
    names: Arc<Mutex<Names>>,
}

impl<W: io::Write> Rest<W> {
    /// Adds the names and closes the log; `None` if it is no longer wanted.
    fn write(mut self, is_cancelled: &AtomicBool) -> io::Result<Option<W>> {
        for (site, address) in self.unnamed {
            if is_cancelled.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let mut names = lock(&self.names);
            let frames = names.frames(&self.modules, address);
            if !frames.is_empty() {
                self.log.symbols(site, &frames.iter().map(log_frame).collect::<Vec<_>>());
            }
        }
        self.log.finish().map(Some)
    }
}

impl Rest<ExclusiveFile> {
    /// Adds the names and closes the log, in a thread.
    fn close(self) -> io::Result<Closing> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        let body = move || self.write(&cancelled).map(drop);
        let thread = std::thread::Builder::new().name("vramscope-names".to_owned()).spawn(body)?;
        Ok(Closing { thread, is_cancelled })
    }
}

/// A copy, not written yet, of a log that goes on.
#[derive(Debug)]
pub struct LogCopy {
    path: PathBuf,
    log: std::fs::File,
    /// Size in bytes of the part of the log that is copied.
    bytes: u64,
    rest: Rest<Vec<u8>>,
}

impl LogCopy {
    /// Path of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the copy, with the names of native frames. An older file of its name stays until the copy is complete.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn write(self) -> io::Result<()> {
        let target = vramscope_files::Target::open(&self.path)?;
        self.contents()?.write(&mut target.file())?;
        target.finish()
    }

    /// Finds the names of native frames.
    pub(crate) fn contents(self) -> io::Result<CopyContents> {
        let rest = self.rest.write(&AtomicBool::new(false))?.unwrap_or_default();
        Ok(CopyContents { log: self.log, bytes: self.bytes, rest })
    }
}

/// The bytes of a copy.
#[derive(Debug)]
pub(crate) struct CopyContents {
    log: std::fs::File,
    bytes: u64,
    rest: Vec<u8>,
}

impl CopyContents {
    /// Size in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn len(&self) -> u64 {
        self.bytes + self.rest.len() as u64
    }

    pub(crate) fn write(self, out: &mut impl io::Write) -> io::Result<()> {
        if io::copy(&mut io::Read::take(self.log, self.bytes), out)? < self.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&self.rest)
    }
}

impl Closing {
    /// Waits until the log is closed.
    pub(crate) fn join(self) -> io::Result<()> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the log's thread failed")))
    }
}

impl LogPaths {
    /// The paths in the folder of the log's file, where the log is a link to it.
    fn real(self) -> io::Result<Self> {
        let log = std::fs::canonicalize(&self.log)?;
        let beside = |path: &Path| log.with_file_name(path.file_name().unwrap_or_default());
        Ok(Self { before: beside(&self.before), next: beside(&self.next), log })
    }
}

fn log_frame(frame: &NativeFrame) -> LogFrame<'_> {
    LogFrame { name: &frame.name, filename: &frame.file, line: frame.line }
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
