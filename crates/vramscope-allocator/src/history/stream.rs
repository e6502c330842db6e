//! Writes the history to a file while the program runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use vramscope_trace::formats::log::{LogBlock, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter};

use super::exclusive_file::ExclusiveFile;
use super::recorder::RegionEntry;
use super::{Entry, Recorder};
use crate::device::Process;
use crate::stacks::{Site, SourceFrame, StackKey, Symbols, outside};
use vramscope_basics::lock;
use vramscope_engine::{ArenaKey, SegmentLayout};
use vramscope_trace::AllocatorSettings;

/// How long events wait in memory before they are written. A killed program loses at most the events of this interval and of the duration
/// of one write.
const INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of waiting events. Beyond it, the thread that records the next event writes them itself.
const MOST_WAITING: usize = 1 << 18;

/// An entry of the file.
pub(super) enum StreamItem {
    /// An event: the device id, the arena's key and the event.
    Event(i32, ArenaKey, Entry),
    /// The begin or the end of a region.
    Region(RegionEntry),
}

/// Maximum bytes that wait for a stalled disk. Beyond it, the recording to the file is abandoned.
const MOST_UNWRITTEN: usize = 256 << 20;

/// A recording that streams to a file. Dropping the last handle writes the waiting entries and closes the file.
pub(crate) struct Stream {
    path: PathBuf,
    shared: Arc<StreamWriter>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The process that runs the two threads. A forked process has no such threads, and never writes to the file.
    process: Process,
}

struct StreamWriter {
    recorder: Arc<Recorder>,
    waiting: Mutex<Waiting>,
    wake: Condvar,
    file: Mutex<LogFile>,
}

#[derive(Default)]
struct Waiting {
    items: Vec<StreamItem>,
    closing: bool,
}

impl Stream {
    /// Creates a file and writes the settings and the state of `devices`: pairs of device id and current segments. The caller holds the
    /// devices' locks.
    ///
    /// # Errors
    /// The file cannot be written; [`io::ErrorKind::ResourceBusy`] if another recording writes to it.
    pub(crate) fn create(
        path: &Path,
        recorder: Arc<Recorder>,
        settings: &AllocatorSettings,
        devices: &[(i32, Vec<SegmentLayout<StackKey>>)],
    ) -> io::Result<Arc<Self>> {
        let mut log = LogWriter::create(ExclusiveFile::create(path)?)?;
        log.settings(settings);
        let mut written_stacks = WrittenStacks::default();
        for (device_id, segments) in devices {
            written_stacks.device(&mut log, &recorder, (*device_id).into(), segments);
        }
        log.flush()?;
        let file = Mutex::new(LogFile { log: Some(log), written_stacks, error: None });
        let shared =
            Arc::new(StreamWriter { recorder, waiting: Mutex::default(), wake: Condvar::new(), file });
        let process = Process::this();
        let stream = Arc::new(Self { path: path.to_owned(), shared, threads: Mutex::default(), process });
        stream.spawn("vramscope-stream", StreamWriter::run_writer)?;
        stream.spawn("vramscope-symbols", StreamWriter::run_lookup)?;
        Ok(stream)
    }

    fn spawn(&self, name: &str, run: fn(&StreamWriter)) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Returns the path under which the file was created.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last write error, unless a later write succeeded.
    pub(crate) fn error(&self) -> Option<io::ErrorKind> {
        lock(&self.shared.file).error.as_ref().map(io::Error::kind)
    }

    /// Queues an entry for the file.
    pub(super) fn push(&self, item: StreamItem) {
        if !self.process.is_this() {
            return;
        }
        let mut waiting = lock(&self.shared.waiting);
        waiting.items.push(item);
        if waiting.items.len() >= MOST_WAITING {
            drop(waiting);
            self.shared.write();
        }
    }

    /// Writes the waiting entries, closes the file, and returns the error that prevented a write, if any.
    pub(crate) fn close(&self) -> io::Result<()> {
        lock(&self.shared.waiting).closing = true;
        self.shared.wake.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            thread.join().map_err(|_| io::Error::other("a thread that writes the recording panicked"))?;
        }
        lock(&self.shared.file).error.take().map_or(Ok(()), Err)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.process.is_this() {
            self.close().ok();
        } else {
            // The handles must not be dropped either: in this process, their system ids may refer to other threads.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(threads));
        }
    }
}

impl StreamWriter {
    /// Waits for the next interval or for the request to close. Returns whether to close the file.
    fn wait(&self) -> bool {
        let waiting = lock(&self.waiting);
        match self.wake.wait_timeout_while(waiting, INTERVAL, |waiting| !waiting.closing) {
            Ok((waiting, _)) => waiting.closing,
            Err(poisoned) => poisoned.into_inner().0.closing,
        }
    }

    /// Body of the first thread: writes events, and never waits for symbols.
    fn run_writer(&self) {
        while !self.wait() {
            self.write();
        }
    }

    /// Body of the second thread: resolves symbols, and closes the file at the end.
    fn run_lookup(&self) {
        let mut lookup = SymbolLookup::default();
        while !self.wait() {
            self.look_up(&mut lookup);
        }
        self.write();
        self.look_up(&mut lookup);
        lock(&self.file).finish();
    }

    /// Writes the waiting entries, with stacks as addresses.
    fn write(&self) {
        let mut file = lock(&self.file);
        let items = std::mem::take(&mut lock(&self.waiting).items);
        file.with(|log, written_stacks| {
            for item in &items {
                written_stacks.item(log, &self.recorder, item);
            }
        });
    }

    /// Writes the symbols of addresses in new stacks. The first call may take seconds, because it reads debugging information.
    fn look_up(&self, lookup: &mut SymbolLookup) {
        let stacks = std::mem::take(&mut lock(&self.file).written_stacks.new_stacks);
        let mut found = Vec::new();
        for stack in stacks {
            let mut inside = true;
            for (log_site, site) in stack {
                let frames = lookup.symbols.frames(&self.recorder.stacks, site);
                let frames = outside(&frames, &mut inside);
                // The symbols of a site are written once, as in the first stack that contains it.
                if lookup.written.insert(log_site) {
                    found.push((log_site, frames.to_vec()));
                }
            }
        }
        lock(&self.file).with(|log, _| {
            for (site, frames) in found {
                log.symbols(site, &frames.iter().map(log_frame).collect::<Vec<_>>());
            }
        });
    }
}

/// The symbols of addresses, and the sites whose symbols are already in the file.
#[derive(Default)]
struct SymbolLookup {
    symbols: Symbols,
    written: HashSet<LogSite>,
}

/// The log file, the stacks already in it, and the last error.
struct LogFile {
    /// `None` after the file was closed, or abandoned because too many bytes were waiting.
    log: Option<Log>,
    written_stacks: WrittenStacks,
    error: Option<io::Error>,
}

impl LogFile {
    /// Calls `add` with the log and writes the added entries. Bytes that a full disk does not accept are written first on the next call.
    fn with(&mut self, add: impl FnOnce(&mut Log, &mut WrittenStacks)) {
        let Some(log) = &mut self.log else { return };
        add(log, &mut self.written_stacks);
        self.error = log.flush().and_then(|()| log.get_ref().check_name()).err();
        if log.pending() > MOST_UNWRITTEN {
            self.log = None;
        }
    }

    fn finish(&mut self) {
        match self.log.take().map(LogWriter::finish) {
            Some(Err(e)) => self.error = Some(e),
            Some(Ok(file)) => self.error = file.check_name().err(),
            None => {}
        }
    }
}

/// The stacks and sites already in the file.
#[derive(Default)]
struct WrittenStacks {
    /// The file's stack id for each [`StackKey`].
    stacks: Vec<Option<LogStack>>,
    sites: HashMap<Site, LogSite>,
    /// Stacks whose addresses are in the file, but not their symbols yet.
    new_stacks: Vec<Vec<(LogSite, Site)>>,
}

type Log = LogWriter<ExclusiveFile>;

impl WrittenStacks {
    fn device(
        &mut self,
        log: &mut Log,
        recorder: &Recorder,
        device: i64,
        segments: &[SegmentLayout<StackKey>],
    ) {
        log.device(device);
        for held in segments {
            let stack = self.stack(log, recorder, held.stack);
            let start = LogSegment {
                address: held.address(),
                total_size: held.size(),
                stream: held.arena.stream,
                kind: held.class.into(),
                pool: Some(held.arena.pool),
                is_expandable: held.expandable,
                stack,
            };
            log.segment(device, &start);
            for b in &held.blocks {
                let stack = self.stack(log, recorder, b.stack);
                let (address, size, requested_size) = (b.address, b.size, b.requested);
                log.block(&LogBlock { address, size, requested_size, state: b.state, stack });
            }
        }
    }

    fn item(&mut self, log: &mut Log, recorder: &Recorder, item: &StreamItem) {
        match item {
            StreamItem::Event(device, arena, entry) => {
                let stack = self.stack(log, recorder, entry.event.stack);
                let text = entry.metadata.map(|text| recorder.texts.get(text));
                log.event(&LogEvent {
                    device: (*device).into(),
                    action: entry.event.action,
                    address_or_free: entry.event.address_or_free,
                    size: entry.event.size,
                    block_size: entry.event.block_size,
                    time_us: entry.time_us,
                    stack,
                    stream: arena.stream,
                    pool: Some(arena.pool),
                    user_metadata: text.as_deref(),
                    kind: entry.event.class.into(),
                    unknown_action: None,
                });
            }
            StreamItem::Region(r) => log.annotation(r.stage, &r.name, r.device_id.into(), r.time_us),
        }
    }

    fn stack(&mut self, log: &mut Log, recorder: &Recorder, stack: Option<StackKey>) -> Option<LogStack> {
        let key = stack?;
        if self.stacks.len() <= key.index() {
            self.stacks.resize(key.index() + 1, None);
        }
        if self.stacks[key.index()].is_none() {
            let sites = recorder.stacks.sites(key);
            let sites: Vec<_> =
                sites.into_iter().map(|site| (self.site(log, recorder, site), site)).collect();
            let numbers: Vec<LogSite> = sites.iter().map(|&(number, _)| number).collect();
            self.stacks[key.index()] = Some(log.stack(&numbers));
            self.new_stacks.push(sites);
        }
        self.stacks[key.index()]
    }

    fn site(&mut self, log: &mut Log, recorder: &Recorder, site: Site) -> LogSite {
        if let Some(&written_stacks) = self.sites.get(&site) {
            return written_stacks;
        }
        let number = match recorder.stacks.meaning(site) {
            Ok(frame) => log.site(log_frame(&frame)),
            Err(address) => {
                let name = format!("{address:#x}");
                log.site(LogFrame { name: &name, filename: "??", line: 0 })
            }
        };
        self.sites.insert(site, number);
        number
    }
}

fn log_frame(frame: &SourceFrame) -> LogFrame<'_> {
    LogFrame { name: &frame.name, filename: &frame.filename, line: frame.line }
}
