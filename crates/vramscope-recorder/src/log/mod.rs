//! Turns the records of one process into its log. `driver` has what the process holds at the driver, `stacks` the stacks of events,
//! `files` the limit of the log, its copies and its end, `sync` its way to the disk.

mod driver;
mod files;
mod stacks;
mod sync;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hashbrown::{HashMap, HashSet};
use vramscope_allocator::ExclusiveFile;
use vramscope_trace::formats::log::{LogEvent, LogSite, LogStack, LogWriter};
use vramscope_trace::{Action, HostReading, LogFact, MemoryReading, SegmentKind, Stage};

use self::driver::{Driver, library_name};
pub use self::files::LogCopy;
pub(crate) use self::files::{Closing, CopyContents, LogPaths};
use self::files::{Facts, Keep, begin, limit, remove_log};
use self::stacks::{OwnedFrame, Stacks};
use self::sync::Sync;
use crate::accesses::Accesses;
use crate::notes::{Change, Notes};
use crate::options::RecorderOptions;
use crate::records::{Record, TorchEvent};

/// The function of the Python package that calls the program's modules, and the end of its file (`python/vramscope/torch/_hooks.py`).
const HOOK: (&str, &str) = ("watched_call", "vramscope/torch/_hooks.py");

/// The log of one process.
#[derive(Debug)]
pub(crate) struct ProcessLog {
    log: LogWriter<ExclusiveFile>,
    keep: Option<Keep>,
    /// Bytes of the log that were flushed.
    flushed: u64,
    /// Writes the log to the disk, if it is to survive a power cut.
    sync: Option<Sync>,
    /// Statements about the recording.
    facts: Facts,
    /// Calls of functions that the library does not follow, and whether the log has their number.
    not_followed: BTreeMap<String, (u64, bool)>,
    /// What the log has of the following.
    written: Written,
    /// The stacks of events.
    stacks: Stacks,
    /// What the process holds at the driver.
    driver: Driver,
    /// The live blocks of PyTorch's allocator, by device and address, if older logs are deleted.
    blocks: HashMap<(i64, u64), Taken>,
    /// What the Python package knows about live blocks.
    notes: Notes,
    /// Allocated bytes of PyTorch's allocator on each device, and the fewest so far. Frees of memory from before the recording make them
    /// negative.
    allocated: HashMap<i64, (i64, i64)>,
    /// Whether PyTorch has run out of memory.
    had_oom: bool,
    /// Why the log is to be copied now: `oom` or `mark`.
    due: Option<&'static str>,
    /// Accesses of live blocks, if they are recorded.
    accesses: Option<Accesses>,
    /// Number of launches that the log has.
    written_launches: u64,
    /// Number of events so far.
    pub(crate) events: u64,
    /// Number of records that could not be understood.
    pub(crate) invalid: u64,
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

/// The event by which memory was taken.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Number of events before it.
    order: u64,
    time_us: i64,
    size: u64,
    stack: u64,
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
        recording: Vec<(&'static str, String)>,
        options: RecorderOptions,
    ) -> io::Result<Self> {
        let RecorderOptions { keep, copy_at, replaces, .. } = options;
        let of_process = recording.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        let facts = Facts { facts, recording: of_process };
        let log = begin(&paths.log, &facts, replaces)?;
        // A pipe cannot be cut.
        let keep = keep.filter(|_| log.get_ref().is_regular()).map(|bytes| {
            Ok::<_, io::Error>(Keep { bytes, limit: limit(bytes, 0), paths: paths.real()?, closing: None })
        });
        let keep = keep.transpose()?;
        if let Some(Keep { paths, .. }) = keep.as_ref().filter(|_| replaces) {
            // Those of an earlier run do not continue this one.
            remove_log(&paths.before)?;
            remove_log(&paths.next)?;
        }
        Ok(Self {
            log,
            keep,
            flushed: 0,
            sync: options.sync.map(Sync::every),
            facts,
            not_followed: BTreeMap::new(),
            written: Written::default(),
            stacks: Stacks { program, ..Stacks::default() },
            driver: Driver { copy_at, ..Driver::default() },
            blocks: HashMap::new(),
            notes: Notes::default(),
            allocated: HashMap::new(),
            had_oom: false,
            due: None,
            accesses: options.with_accesses().then(Accesses::default),
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
        if let Some(sync) = &mut self.sync {
            sync.flushed(self.log.get_ref(), false)?;
        }
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

    /// Checks that the log's path still names its file.
    pub(crate) fn check_name(&self) -> io::Result<()> {
        self.log.get_ref().check_name()
    }

    /// Adds a reading of the host memory of the process.
    pub(crate) fn host(&mut self, reading: &HostReading) {
        self.log.host(reading);
    }

    /// Number of bytes that wait for a flush.
    pub(crate) fn pending(&self) -> usize {
        self.log.pending()
    }

    /// Adds a record, by its kind and body.
    pub(crate) fn add(&mut self, kind: u8, body: &[u64]) {
        match Record::of(kind, body) {
            Some(Record::Site { site, line, name, path }) => {
                if name == HOOK.0 && path.ends_with(HOOK.1) {
                    self.stacks.hooks.insert(site);
                }
                let frame = OwnedFrame { name: name.into(), path: path.into(), line };
                self.stacks.frames.entry(site).or_insert(frame);
            }
            Some(Record::Stack(id, sites)) => self.stack(id, sites),
            Some(Record::Object { caller, path }) => {
                let path = if path.contains('/') { Path::new(&path) } else { &self.stacks.program };
                self.driver.libraries.insert(caller, library_name(path));
            }
            Some(Record::Module { start, end, base, path }) => {
                let path = if path.contains('/') { PathBuf::from(path) } else { self.stacks.program.clone() };
                self.stacks.modules.add(start, end, base, &path);
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
                self.driver.totals.insert(device, total);
                self.compare(device);
                // While a segment grows or shrinks, some of its bytes belong to no segment. The report would count them as unexplained.
                if self.driver.unmapped_segments == 0 {
                    let used = total.saturating_sub(free);
                    let reading = MemoryReading { device, time_us, used, total, ..MemoryReading::default() };
                    self.log.reading(&reading);
                    let held = self.driver.device_bytes.get(&device).copied().unwrap_or(0);
                    self.driver.readings.insert(device, (reading, self.driver.calls, held));
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
            // The library has fewer.
            Some(Record::Fact(..)) if self.facts.recording.len() >= 128 => self.invalid += 1,
            Some(Record::Fact(name, text)) => {
                self.facts.recording.push((name, text));
                self.facts.write_last(&mut self.log);
            }
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

    fn torch(&mut self, event: TorchEvent) {
        let TorchEvent { time_us, device, address, stack, thread, .. } = event;
        let size = event.size.unsigned_abs();
        let is_free = event.size < 0;
        let (now, fewest) = self.allocated.entry(device).or_default();
        *now = now.saturating_add(event.size);
        *fewest = (*fewest).min(*now);
        let taken = Taken { order: self.events, time_us, size, stack };
        if self.keep.is_some() {
            if is_free {
                self.blocks.remove(&(device, address));
            } else {
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
}
