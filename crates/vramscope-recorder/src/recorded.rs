//! One recorded process: its ring, its log, and the names of its files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use vramscope_files::with_suffix;
use vramscope_trace::LogFact;

use crate::facts;
use crate::host::HostMemory;
use crate::log::{Closing, LogCopy, LogPaths, ProcessLog};
use crate::mapped::MappedRing;
use crate::options::{RecordedStacks, RecorderOptions};
use crate::output::{free, has_contents};
use crate::ring::{
    AT_ATTACHED, AT_DROPPED, AT_ENDED, AT_LOOKS, AT_PROCESS, AT_RANK, AT_REFUSES, AT_STACK, AT_TAIL,
};
use crate::running::{RunningProcess, is_running, stack_start};

/// Part of the name of a copy that another process asked for.
pub(crate) const DUMP: &str = "-at-dump";
/// Maximum bytes that wait for a slow disk. Beyond it, the rings fill, and their processes wait.
pub(crate) const MOST_UNWRITTEN: usize = 64 << 20;
/// Maximum number of logs of one rank or process.
const MOST_LOGS: u32 = 10_000;

/// The log of one process.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordedProcess {
    /// Path of the log.
    pub path: PathBuf,
    /// Id of the process.
    pub process: u32,
    /// Number of events in the log.
    pub events: u64,
    /// Number of events that were dropped, because the recorder has ended or did not read them for a minute.
    pub dropped: u64,
    /// The error that ended the log early, or that made it incomplete.
    pub error: Option<io::Error>,
    /// Whether the process then ran another program in its place, by `exec`.
    pub ran_another: bool,
    /// Why the logs may be larger than [`RecorderOptions::keep`](crate::RecorderOptions::keep): the next log could not begin.
    pub limit_error: Option<io::Error>,
}

impl RecordedProcess {
    /// A process whose log could not begin.
    pub(crate) fn failed(path: PathBuf, process: u32, error: io::Error) -> Self {
        let (error, limit_error) = (Some(error), None);
        Self { path, process, events: 0, dropped: 0, error, ran_another: false, limit_error }
    }

    /// Why the log is incomplete, in a sentence; `None` if it is whole.
    pub fn failure(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("{}: {error}; the recording is incomplete", self.path.display()))
    }
}

/// The parts of a ring's name, `PROCESS-FORKS-TIME`: the number of forks before the process, its id, and the time of the ring. A process
/// has several rings if it runs one program after the other, or is attached several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RingName {
    forks: u32,
    pub(crate) process: u32,
    time: u64,
}

impl RingName {
    pub(crate) fn of(name: &OsStr) -> Self {
        let mut parts = name.to_str().unwrap_or_default().split('-').map(|part| part.parse().ok());
        let mut part = || parts.next().flatten().unwrap_or(0_u64);
        let (process, forks, time) = (part(), part(), part());
        Self { forks: forks as u32, process: process as u32, time }
    }

    /// Whether this ring is a later one of the same process.
    pub(crate) fn follows(self, other: Self) -> bool {
        self.process == other.process && self.time > other.time
    }
}

/// Names of the files of one process.
#[derive(Debug)]
pub(crate) struct Files {
    /// Path of the run's log.
    out: PathBuf,
    /// Last part of the names.
    suffix: String,
}

impl Files {
    /// Path of a file. The suffix comes last, so that `run-rank*` means one log of each rank.
    pub(crate) fn path(&self, what: &str) -> PathBuf {
        with_suffix(&self.out, &format!("{what}{}", self.suffix))
    }

    fn paths(&self) -> LogPaths {
        LogPaths { log: self.path(""), before: self.path("-before"), next: self.path("-next") }
    }

    /// The log so far, for a copy under a name that no file has.
    pub(crate) fn copy_of(&self, log: &mut ProcessLog, reason: &str) -> io::Result<LogCopy> {
        log.copy(free(&self.path(reason)))
    }

    /// Sends a copy of the log so far.
    pub(crate) fn copy(
        &self,
        log: &mut ProcessLog,
        reason: &str,
        copies: Option<&Sender<io::Result<LogCopy>>>,
    ) {
        if let Some(copies) = copies {
            // Without a receiver, no copy is wanted.
            copies.send(self.copy_of(log, &format!("-at-{reason}"))).ok();
        }
    }
}

/// The names that the logs of a run have so far.
#[derive(Debug, Default)]
pub(crate) struct UsedNames(Vec<PathBuf>);

impl UsedNames {
    /// The files of the next log of a process. Those of earlier runs are replaced if `replaces` is set; those of this run never are.
    fn next(&mut self, out: &Path, process: u32, rank: Option<u64>, replaces: bool) -> Files {
        let suffix = match rank {
            Some(rank) => format!("-rank{rank}"),
            None if self.0.is_empty() => String::new(),
            None => format!("-pid{process}"),
        };
        let numbered = (2..MOST_LOGS).map(|number| format!("{suffix}-{number}"));
        let is_new = |files: &Files| {
            let LogPaths { log, before, next } = files.paths();
            !self.0.contains(&log) && (replaces || [log, before, next].iter().all(|path| !has_contents(path)))
        };
        let all = std::iter::once(suffix.clone()).chain(numbered);
        let files = all.map(|suffix| Files { out: out.to_owned(), suffix }).find(is_new);
        let files = files.unwrap_or_else(|| Files { out: out.to_owned(), suffix });
        self.0.push(files.path(""));
        files
    }
}

/// One recorded process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u32,
    path: PathBuf,
    pub(crate) files: Files,
    ring: MappedRing,
    pub(crate) log: ProcessLog,
    pub(crate) host: HostMemory,
    /// Where the stack of its program begins, which changes with each program that it runs; 0 if this is unknown.
    stack_start: u64,
    /// Body of the record that is read.
    body: Vec<u64>,
    error: Option<io::Error>,
    limit_error: Option<io::Error>,
}

impl Process {
    /// Begins the log of the process with this ring. `None` if the ring has no header yet.
    ///
    /// # Errors
    /// The path of the file, and why it cannot be used.
    pub(crate) fn open(
        ring: &fs::File,
        out: &Path,
        options: RecorderOptions,
        used: &mut UsedNames,
    ) -> Result<Option<Self>, (PathBuf, io::Error)> {
        let Some(ring) = MappedRing::open(ring).map_err(|e| (out.to_owned(), e))? else { return Ok(None) };
        let header = |at| ring.ring().map(|ring| ring.header(at).load(Ordering::Relaxed));
        let id = header(AT_PROCESS).unwrap_or(0) as u32;
        let rank = header(AT_RANK).and_then(|number| number.checked_sub(1));
        let program = fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        let from = match options.stacks {
            RecordedStacks::Large(bytes) => Some(LogFact::StacksFrom(bytes)),
            _ => None,
        };
        let attached = header(AT_ATTACHED).and_then(|time_us| i64::try_from(time_us).ok());
        let attached = attached.filter(|&time_us| time_us > 0).map(LogFact::AttachedAt);
        let facts: Vec<_> = from.into_iter().chain(attached).collect();
        let (files, log) = loop {
            let files = used.next(out, id, rank, options.replaces);
            match ProcessLog::create(files.paths(), program.clone(), facts.clone(), facts::of(id), options) {
                Ok(log) => break (files, log),
                // Another recorder took the name meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && used.0.len() < 1000 => {}
                Err(error) => {
                    // The process would wait for a reader.
                    if let Some(ring) = ring.ring() {
                        ring.header(AT_REFUSES).store(1, Ordering::Relaxed);
                    }
                    return Err((files.path(""), error));
                }
            }
        };
        Ok(Some(Self {
            id,
            path: files.path(""),
            files,
            stack_start: header(AT_STACK).unwrap_or(0),
            ring,
            log,
            host: HostMemory::of(id),
            body: Vec::new(),
            error: None,
            limit_error: None,
        }))
    }

    pub(crate) fn running(&self) -> RunningProcess {
        let (devices, host) = self.log.running();
        RunningProcess { process: self.id, suffix: self.files.suffix.clone(), devices, host }
    }

    /// Moves records from the ring to the log. Returns whether the ring fills fast, so that it should be read again at once.
    pub(crate) fn read(&mut self, is_over: bool, copies: Option<&Sender<io::Result<LogCopy>>>) -> bool {
        let Some(ring) = self.ring.ring() else { return false };
        // A process would wait without end for a disk that is full.
        if self.error.is_some() && self.log.pending() >= MOST_UNWRITTEN && !is_over {
            ring.header(AT_REFUSES).store(1, Ordering::Relaxed);
            return false;
        }
        ring.header(AT_REFUSES).store(0, Ordering::Relaxed);
        ring.header(AT_LOOKS).fetch_add(1, Ordering::Relaxed);
        let tail = || ring.header(AT_TAIL).load(Ordering::Relaxed);
        let (start, head) = (tail(), ring.head());
        while self.log.pending() < MOST_UNWRITTEN
            && let Some(kind) = ring.read(head, &mut self.body, is_over)
        {
            self.log.add(kind, &self.body);
            if let Some(reason) = self.log.due() {
                self.files.copy(&mut self.log, reason, copies);
            }
            if self.log.is_large() {
                self.limit_error = self.log.rotate().err().or(self.limit_error.take());
            }
        }
        tail() - start > ring.capacity() / 8
    }

    pub(crate) fn write(&mut self) {
        self.error = self.log.flush().err();
    }

    /// Whether the process runs, and still runs the program that it ran at the beginning.
    pub(crate) fn goes_on(&self) -> bool {
        is_running(self.id) && !self.runs_another()
    }

    fn runs_another(&self) -> bool {
        let now = stack_start(self.id);
        self.stack_start != 0 && now != 0 && now != self.stack_start
    }

    /// Whether the library was detached: all records are in the ring.
    pub(crate) fn has_ended(&self) -> bool {
        self.ring.ring().is_some_and(|ring| ring.header(AT_ENDED).load(Ordering::Acquire) != 0)
    }

    pub(crate) fn finish(self) -> Ended {
        let ran_another = self.runs_another();
        let Self { id, path, ring, log, error, limit_error, .. } = self;
        let dropped = ring.ring().map_or(0, |ring| ring.header(AT_DROPPED).load(Ordering::Relaxed));
        let events = log.events;
        let error = error.or(log.check_name().err());
        let (closing, error) = match log.finish() {
            Ok(closing) => (closing, error),
            Err(why) => (Vec::new(), Some(why)),
        };
        Ended {
            closing,
            recorded: RecordedProcess { path, process: id, events, dropped, error, ran_another, limit_error },
        }
    }
}

/// A process that has ended, and the threads that close its logs.
pub(crate) struct Ended {
    recorded: RecordedProcess,
    closing: Vec<Closing>,
}

impl Ended {
    pub(crate) fn join(mut self) -> RecordedProcess {
        for closing in self.closing {
            if let Err(error) = closing.join() {
                self.recorded.error.get_or_insert(error);
            }
        }
        self.recorded
    }
}
