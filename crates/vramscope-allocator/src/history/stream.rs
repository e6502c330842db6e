//! The history on disk while the program runs.

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

/// How long events wait in memory. What a killed program loses is at most this and the time of one write.
const INTERVAL: Duration = Duration::from_millis(250);

/// Events that may wait. A thread that records faster than the disk takes writes them itself.
const MOST_WAITING: usize = 1 << 18;

/// Something for the file.
pub(crate) enum StreamItem {
    /// It happened on a device.
    Event(i32, ArenaKey, Entry),
    /// A region began or ended.
    Region(RegionEntry),
}

/// Bytes that may wait for a disk that takes nothing, before the recording is given up.
const MOST_UNWRITTEN: usize = 256 << 20;

/// A recording that is being written. Dropping the last handle writes what waits and closes the file.
pub(crate) struct Stream {
    path: PathBuf,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Whose threads those are. A forked process has none of them, and leaves the file alone.
    process: Process,
}

struct Shared {
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
    /// Begins a file with the settings and the state of `devices`, whose locks the caller holds: their numbers, and
    /// what each has now.
    ///
    /// # Errors
    /// Where the file cannot be written; [`io::ErrorKind::ResourceBusy`] where another recording is.
    pub(crate) fn create(
        path: &Path,
        recorder: Arc<Recorder>,
        settings: &AllocatorSettings,
        devices: &[(i32, Vec<SegmentLayout<StackKey>>)],
    ) -> io::Result<Arc<Self>> {
        let mut log = LogWriter::create(ExclusiveFile::create(path)?)?;
        log.settings(settings);
        let mut known = Known::default();
        for (device_id, segments) in devices {
            known.device(&mut log, &recorder, (*device_id).into(), segments);
        }
        log.flush()?;
        let file = Mutex::new(LogFile { log: Some(log), known, error: None });
        let shared = Arc::new(Shared { recorder, waiting: Mutex::default(), wake: Condvar::new(), file });
        let process = Process::this();
        let stream = Arc::new(Self { path: path.to_owned(), shared, threads: Mutex::default(), process });
        stream.spawn("vramscope-stream", Shared::write_on)?;
        stream.spawn("vramscope-symbols", Shared::look_up_on)?;
        Ok(stream)
    }

    fn spawn(&self, name: &str, run: fn(&Shared)) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The error that the file met last, if it has not been overcome.
    pub(crate) fn error(&self) -> Option<io::ErrorKind> {
        lock(&self.shared.file).error.as_ref().map(io::Error::kind)
    }

    /// Hands something over to be written.
    pub(crate) fn push(&self, item: StreamItem) {
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

    /// Writes what waits, closes the file, and returns the error that kept something from being written.
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
            // Not even to be let go: their numbers may be those of other threads here.
            let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(threads));
        }
    }
}

impl Shared {
    /// Waits for the next round; true once the file is to be closed.
    fn wait(&self) -> bool {
        let waiting = lock(&self.waiting);
        match self.wake.wait_timeout_while(waiting, INTERVAL, |waiting| !waiting.closing) {
            Ok((waiting, _)) => waiting.closing,
            Err(poisoned) => poisoned.into_inner().0.closing,
        }
    }

    /// One thread writes events, and never waits for symbols.
    fn write_on(&self) {
        while !self.wait() {
            self.write();
        }
    }

    /// Another looks up what addresses mean, and closes the file in the end.
    fn look_up_on(&self) {
        let mut meanings = Meanings::default();
        while !self.wait() {
            self.look_up(&mut meanings);
        }
        self.write();
        self.look_up(&mut meanings);
        lock(&self.file).finish();
    }

    /// Writes what waits, as the addresses they are.
    fn write(&self) {
        let mut file = lock(&self.file);
        let items = std::mem::take(&mut lock(&self.waiting).items);
        file.with(|log, known| {
            for item in &items {
                known.item(log, &self.recorder, item);
            }
        });
    }

    /// Adds what the addresses of new stacks mean. This may take long, as when debugging information is read
    /// for the first time.
    fn look_up(&self, meanings: &mut Meanings) {
        let stacks = std::mem::take(&mut lock(&self.file).known.new_stacks);
        let mut found = Vec::new();
        for stack in stacks {
            let mut inside = true;
            for (log_site, site) in stack {
                let frames = meanings.symbols.frames(&self.recorder.stacks, site);
                let frames = outside(&frames, &mut inside);
                // Told once, as the first stack has it.
                if meanings.written.insert(log_site) {
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

/// What addresses mean, and of which the file knows it.
#[derive(Default)]
struct Meanings {
    symbols: Symbols,
    written: HashSet<LogSite>,
}

/// The file and how it stands.
struct LogFile {
    /// `None` when it is closed or given up.
    log: Option<Log>,
    known: Known,
    error: Option<io::Error>,
}

impl LogFile {
    /// Adds something and hands it to the file. What a full disk does not take is tried again next time, from
    /// the byte where it stopped.
    fn with(&mut self, add: impl FnOnce(&mut Log, &mut Known)) {
        let Some(log) = &mut self.log else { return };
        add(log, &mut self.known);
        self.error = log.flush().err().or_else(|| lost(log.get_ref()));
        if log.pending() > MOST_UNWRITTEN {
            self.log = None;
        }
    }

    fn finish(&mut self) {
        match self.log.take().map(LogWriter::finish) {
            Some(Err(e)) => self.error = Some(e),
            Some(Ok(file)) => self.error = lost(&file),
            None => {}
        }
    }
}

/// What is written goes to a file that nobody finds.
fn lost(file: &ExclusiveFile) -> Option<io::Error> {
    let why = "it was removed or replaced while it was written; what was recorded is not under this name";
    (!file.has_its_name()).then(|| io::Error::new(io::ErrorKind::NotFound, why))
}

/// What the file already has.
#[derive(Default)]
struct Known {
    /// By the number of the stack.
    stacks: Vec<Option<LogStack>>,
    sites: HashMap<Site, LogSite>,
    /// Stacks that are written as addresses so far.
    new_stacks: Vec<Vec<(LogSite, Site)>>,
}

type Log = LogWriter<ExclusiveFile>;

impl Known {
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
                    address: entry.event.address,
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
        if let Some(&known) = self.sites.get(&site) {
            return known;
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
