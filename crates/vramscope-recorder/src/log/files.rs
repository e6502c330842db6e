//! The files of a log: its limit and rotation, copies, and the names of native frames at its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use vramscope_allocator::ExclusiveFile;
use vramscope_basics::lock;
use vramscope_trace::formats::log::{LogSite, LogWriter};
use vramscope_trace::{Action, AllocatorSettings, LogFact};

use super::driver::{Held, Mapped, Place};
use super::stacks::{Stacks, log_frame};
use super::sync::Sync;
use super::{ProcessLog, Taken, Written};
use crate::symbols::{Modules, Names};

/// Bytes of the name of a native frame in a log, about.
const BYTES_PER_NAME: usize = 150;

/// The limit on a log's size.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) bytes: u64,
    /// Size at which the next log begins.
    pub(super) limit: u64,
    pub(super) paths: LogPaths,
    /// Closes the log before this one.
    pub(super) closing: Option<Closing>,
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

/// Live memory, which a new log begins with.
pub(super) enum Live<'a> {
    Block(i64, u64, Taken),
    Mapped(i64, u64, Taken),
    Held(Place, u64, &'a Held),
}

impl ProcessLog {
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
                modules: self.stacks.modules.clone(),
                names: Arc::clone(&self.stacks.names),
            },
        })
    }

    /// Whether the log is so large that the next one begins.
    pub(crate) fn is_large(&self) -> bool {
        self.keep.as_ref().is_some_and(|keep| self.size() >= keep.limit)
    }

    /// Size of the log in bytes with the names of native frames, about.
    pub(super) fn size(&self) -> u64 {
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

    pub(super) fn begin_next(&mut self, keep: &mut Keep) -> io::Result<()> {
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
        let mut former = std::mem::replace(&mut self.log, begin(&keep.paths.next, &self.facts, true)?);
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
        let (modules, names) = (self.stacks.modules.clone(), Arc::clone(&self.stacks.names));
        let former = Rest { log: former, unnamed: written.unnamed, modules, names };
        keep.closing = Some(former.close(None)?);
        Ok(())
    }

    /// Writes the events of all live memory, in the order in which they happened.
    pub(super) fn write_live(&mut self) {
        let (held, mapped, blocks) = (
            std::mem::take(&mut self.driver.held),
            std::mem::take(&mut self.driver.mapped),
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
        (self.driver.held, self.driver.mapped, self.blocks) = (held, mapped, blocks);
        // A reading from before the last call does not fit the present allocations.
        for (reading, calls, _) in self.driver.readings.values() {
            if *calls == self.driver.calls {
                self.log.reading(reading);
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.log.cut(i64::try_from(now.as_micros()).unwrap_or(i64::MAX));
    }

    /// Adds the names of native frames, and closes the log, in threads: other processes are recorded meanwhile.
    pub(crate) fn finish(mut self) -> io::Result<Vec<Closing>> {
        self.flush()?;
        let before = self.keep.as_mut().and_then(|keep| keep.closing.take());
        let Self {
            log, written: Written { unnamed, .. }, stacks: Stacks { modules, names, .. }, sync, ..
        } = self;
        let last = Rest { log, unnamed, modules, names }.close(sync)?;
        Ok(before.into_iter().chain([last]).collect())
    }
}

/// Begins a log at `path`, where a file with contents is an error unless it may be replaced.
pub(super) fn begin(path: &Path, facts: &Facts, replaces: bool) -> io::Result<LogWriter<ExclusiveFile>> {
    let create = if replaces { ExclusiveFile::create } else { ExclusiveFile::create_new };
    let mut log = LogWriter::create(create(path)?)?;
    log.process();
    facts.write(&mut log);
    Ok(log)
}

/// Statements with which each log of a process begins.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) facts: Vec<LogFact<'static>>,
    /// How the process is recorded: names and texts.
    pub(super) recording: Vec<(String, String)>,
}

impl Facts {
    fn write<W: io::Write>(&self, log: &mut LogWriter<W>) {
        self.facts.iter().for_each(|&fact| log.fact(fact));
        for (name, text) in &self.recording {
            self.write_statement(log, name, text);
        }
    }

    /// Writes the last statement.
    pub(super) fn write_last<W: io::Write>(&self, log: &mut LogWriter<W>) {
        if let Some((name, text)) = self.recording.last() {
            self.write_statement(log, name, text);
        }
    }

    fn write_statement<W: io::Write>(&self, log: &mut LogWriter<W>, name: &str, text: &str) {
        // Without a variable, PyTorch has its defaults.
        if name == "allocator_conf"
            && (!text.is_empty() || self.recording.iter().any(|(name, _)| name == "torch"))
        {
            let conf_text = Some(text.to_owned());
            log.settings(&AllocatorSettings { conf_text, ..AllocatorSettings::default() });
        }
        if !text.is_empty() {
            log.fact(LogFact::Recording(name, text));
        }
    }
}

/// Removes a log of an earlier run, unless it is still written to.
pub(super) fn remove_log(path: &Path) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    drop(ExclusiveFile::create(path)?);
    std::fs::remove_file(path)
}

/// Size in bytes at which a log ends, without the names of native frames. `live` is the size of the events of live memory at its beginning.
/// Two logs together have at most `keep` bytes.
pub(super) fn limit(keep: u64, live: u64) -> u64 {
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
    pub(super) fn write(mut self, is_cancelled: &AtomicBool) -> io::Result<Option<W>> {
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
    pub(super) fn close(self, sync: Option<Sync>) -> io::Result<Closing> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&is_cancelled);
        let body = move || match (self.write(&cancelled)?, sync) {
            (Some(log), Some(mut sync)) => sync.flushed(&log, true),
            _ => Ok(()),
        };
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
        self.written().map(drop)
    }

    /// Writes the copy, and returns its bytes.
    pub(crate) fn written(self) -> io::Result<CopyContents> {
        let target = vramscope_files::Target::open(&self.path)?;
        let contents = self.contents()?;
        contents.write(&mut target.file())?;
        target.finish()?;
        Ok(contents)
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

    pub(crate) fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut log = &self.log;
        io::Seek::rewind(&mut log)?;
        if io::copy(&mut io::Read::take(log, self.bytes), out)? < self.bytes {
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
    pub(super) fn real(self) -> io::Result<Self> {
        let log = std::fs::canonicalize(&self.log)?;
        let beside = |path: &Path| log.with_file_name(path.file_name().unwrap_or_default());
        Ok(Self { before: beside(&self.before), next: beside(&self.next), log })
    }
}
