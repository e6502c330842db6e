//! A run whose processes are recorded.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use vramscope_basics::lock;
use vramscope_files::{PrivateFolder, with_first, with_suffix};
use vramscope_trace::LogFact;

#[cfg(target_os = "linux")]
use crate::control;
use crate::host::HostMemory;
#[cfg(target_os = "linux")]
use crate::leftovers;
use crate::log::{Closing, CopyAt, LogCopy, LogPaths, ProcessLog};
use crate::mapped::MappedRing;
use crate::requests::{Asked, READER, RECORDER_FOLDER, RINGS, Requests};
use crate::ring::{AT_ATTACHED, AT_DROPPED, AT_ENDED, AT_LOOKS, AT_PROCESS, AT_REFUSES, AT_TAIL};
use crate::running::{RunningProcess, is_running};
use crate::symbols::LIBRARY_NAME;

/// The library of recorded processes; empty on systems without one.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libvramscope_recorder.so"));

/// How often the rings are read. A look costs the recorded process: its processor has to fetch what this one has read. A ring fills in 25 ms at
/// the fastest.
const LOOK: Duration = Duration::from_millis(20);
/// How often the log is written. A machine that fails loses as much; a killed process loses nothing.
const WRITE: Duration = Duration::from_millis(250);
/// How often the recorder looks whether processes have ended.
const LIVENESS: Duration = Duration::from_secs(1);
/// How long a caller waits for the events of a copy.
const COPY: Duration = Duration::from_secs(1);
/// Part of the name of a copy that another process asked for.
const DUMP: &str = "-at-dump";
/// Maximum bytes that wait for a slow disk. Beyond it, the rings fill, and their processes wait.
const MOST_UNWRITTEN: usize = 64 << 20;

/// Why a run cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The system is not supported: the library needs glibc's loader.
    #[error("the recorder needs Linux with glibc, on x86-64 or aarch64")]
    NoLibrary,
    /// The folder cannot be written.
    #[error("cannot create a folder in {}: {why}; set TMPDIR to a folder that only you can write to", folder.display())]
    Folder {
        /// The parent folder.
        folder: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The folder's path contains a space or a colon, which separate the entries of LD_PRELOAD.
    #[error("{}: LD_PRELOAD accepts no space or colon in a path; set TMPDIR to a folder without them", .0.display())]
    FolderName(PathBuf),
    /// The folder of the recording does not exist.
    #[error("{}: the folder for the recording does not exist", .0.display())]
    NoOutputFolder(PathBuf),
    /// The name of the recording is that of a folder.
    #[error("{}: is a directory; name a file in {}", name.display(), parent.display())]
    OutputIsFolder {
        /// The name, as it was given.
        name: PathBuf,
        /// The folder that contains it.
        parent: PathBuf,
    },
}

/// Hooks into the imports of a recorded Python program: the name and text of a module.
pub const IMPORTS: (&str, &str) = ("vramscope_imports.py", include_str!("imports.py"));

/// Whether the name of a recording is that of a log, which is written while the program runs.
pub fn names_log(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "vramscope")
}

/// The absolute path of a recording that can be written.
///
/// # Errors
/// Its folder does not exist, or it is a folder itself.
pub fn checked_output(record: &Path) -> Result<PathBuf, RecordError> {
    let out = std::path::absolute(record).unwrap_or_else(|_| record.to_owned());
    let Some(parent) = out.parent().filter(|folder| folder.is_dir()) else {
        return Err(RecordError::NoOutputFolder(record.to_owned()));
    };
    if out.is_dir() {
        return Err(RecordError::OutputIsFolder { name: record.to_owned(), parent: parent.to_owned() });
    }
    Ok(out)
}

/// Which frames the stacks of a log have.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum RecordedStacks {
    /// No stacks.
    None,
    /// Python frames, of CPython 3.11, 3.12 and 3.13.
    #[default]
    Python,
    /// Python frames, then native frames (on x86-64).
    All,
    /// Python frames, for allocations and frees of at least this many bytes. Calls of the driver that do not say their size have stacks too.
    Large(u64),
}

/// Options of a [`RecorderRun`].
#[derive(Debug, Default, Clone, Copy)]
#[non_exhaustive]
pub struct RecorderOptions {
    /// Which frames stacks have.
    pub stacks: RecordedStacks,
    /// Maximum bytes of the logs of one process; `None` for no limit. A process then has two logs, and the oldest events are deleted. A
    /// log that begins with much live memory may be larger: it has at least as many bytes of new events.
    pub keep: Option<u64>,
    /// Device memory at which the log of a process is copied, once; see [`RecorderRun::copies`].
    pub copy_at: Option<CopyAt>,
    /// Whether the accesses of allocations are recorded, on a phantom GPU. Logs with [`keep`](Self::keep) have none, because the numbers of
    /// their events would be those of an earlier log.
    pub accesses: bool,
}

impl RecorderOptions {
    /// Smallest value of [`keep`](Self::keep): 1 MiB.
    pub const LEAST_KEPT: u64 = 1 << 20;

    fn with_accesses(&self) -> bool {
        self.accesses && self.keep.is_none()
    }
}

/// Records all processes of a run while they run. Each process has a separate log.
#[derive(Debug)]
pub struct RecorderRun {
    /// A locked file. Processes that wait for this one see that it lives.
    _reader: fs::File,
    folder: PrivateFolder,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    options: RecorderOptions,
    out: PathBuf,
    rings: PathBuf,
    requests: Arc<Requests>,
    /// Receives the copies; `None` if logs are not copied.
    copies: Mutex<Option<Sender<io::Result<LogCopy>>>>,
    has_begun: AtomicBool,
    /// Processes with a log that has ended.
    ended: Mutex<Vec<u32>>,
    recorded: Mutex<Vec<RecordedProcess>>,
}

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
    /// Why the logs may be larger than [`RecorderOptions::keep`]: the next log could not begin.
    pub limit_error: Option<io::Error>,
}

impl RecordedProcess {
    /// Why the log is incomplete, in a sentence; `None` if it is whole.
    pub fn failure(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("{}: {error}; the recording is incomplete", self.path.display()))
    }
}

impl RecorderRun {
    /// Whether this system is supported: the library needs Linux with glibc, on x86-64 or aarch64.
    pub fn is_supported() -> bool {
        !LIBRARY.is_empty()
    }

    /// Begins to record. The first process that uses a GPU writes its log to `out`; the names of other logs end with the rank or the id
    /// of their process.
    ///
    /// # Errors
    /// The system is not supported, or the folder for temporary files cannot be used.
    pub fn start(out: &Path, options: RecorderOptions) -> Result<Self, RecordError> {
        if !Self::is_supported() {
            return Err(RecordError::NoLibrary);
        }
        #[cfg(target_os = "linux")]
        leftovers::remove_abandoned();
        let parent = std::env::temp_dir();
        let failed = |why| RecordError::Folder { folder: parent.clone(), why };
        let folder = PrivateFolder::new_in(&parent, RECORDER_FOLDER).map_err(failed)?;
        if folder.path().to_string_lossy().contains([' ', ':']) {
            return Err(RecordError::FolderName(folder.path().to_owned()));
        }
        folder.dir().write_new(LIBRARY_NAME.as_ref(), LIBRARY).map_err(failed)?;
        folder.dir().new_subdir(RINGS.as_ref(), 0o700).map_err(failed)?;
        folder.dir().write_new(READER.as_ref(), &[]).map_err(failed)?;
        let at = folder.path().join(READER);
        let reader = fs::OpenOptions::new().write(true).open(at).map_err(failed)?;
        // Where files cannot be locked, processes wait for a second only.
        reader.try_lock().ok();
        let rings = folder.path().join(RINGS);
        let shared = Arc::new(Shared {
            options,
            out: out.to_owned(),
            rings,
            requests: Arc::default(),
            copies: Mutex::default(),
            has_begun: AtomicBool::new(false),
            ended: Mutex::default(),
            recorded: Mutex::default(),
        });
        #[cfg(target_os = "linux")]
        control::start(folder.path(), Arc::clone(&shared.requests)).map_err(failed)?;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("vramscope-recorder".to_owned())
            .spawn(move || of_thread.run())
            .map_err(failed)?;
        Ok(Self { _reader: reader, folder, shared, thread })
    }

    /// Environment variables with which processes are recorded.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", with_first(&self.library(), "LD_PRELOAD")),
            ("VRAMSCOPE_RECORDER", self.shared.rings.clone().into()),
            ("VRAMSCOPE_RECORDER_STACKS", self.stacks().into()),
            (
                "VRAMSCOPE_RECORDER_ACCESSES",
                if self.shared.options.with_accesses() { "1" } else { "0" }.into(),
            ),
        ]
    }

    /// Path of the library. A process that loads it by `dlopen` calls `vramscope_recorder_attach(rings, stacks)` to be recorded, and
    /// `vramscope_recorder_detach()` to end its log.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(LIBRARY_NAME)
    }

    /// Writes a file beside the library, and returns its path.
    #[cfg(target_os = "linux")]
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        self.folder.dir().write_new(name.as_ref(), text.as_bytes())?;
        Ok(self.folder.path().join(name))
    }

    /// The folder of the rings.
    pub fn rings(&self) -> &Path {
        &self.shared.rings
    }

    /// Which frames stacks have, as the library takes it: `none`, `python`, `all`, or `large:` and a number of bytes.
    pub fn stacks(&self) -> String {
        match self.shared.options.stacks {
            RecordedStacks::None => "none".to_owned(),
            RecordedStacks::Python => "python".to_owned(),
            RecordedStacks::All => "all".to_owned(),
            RecordedStacks::Large(bytes) => format!("large:{bytes}"),
        }
    }

    /// Whether the log of a process has begun.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_begun(&self) -> bool {
        self.shared.has_begun.load(Ordering::Acquire)
    }

    /// Whether a log of a process has no further events, because the process has ended or was detached, or because the log cannot be
    /// written. [`finish`](Self::finish) completes it.
    pub fn has_ended(&self, process: u32) -> bool {
        lock(&self.shared.ended).contains(&process)
    }

    /// Copies logs from now on, without stopping their processes. The names of copies end with the reason, as `run-at-oom.vramscope`:
    /// - `oom`: PyTorch's allocator ran out of memory in a process for the first time.
    /// - `mark`: a process reached [`RecorderOptions::copy_at`].
    /// - the names that are given to [`copy_logs`](Self::copy_logs)
    ///
    /// Returns the copies, which the receiver writes. They end when this run is finished.
    pub fn copies(&self) -> Receiver<io::Result<LogCopy>> {
        let (sender, receiver) = channel();
        *lock(&self.shared.copies) = Some(sender);
        receiver
    }

    /// Copies the log of each process. Waits until the copies have all events of this moment, or for a second if the disk is slow.
    pub fn copy_logs(&self, name: &'static str) {
        let (sender, receiver) = channel();
        lock(&self.shared.requests.asked).push(Asked::Copies(name, sender));
        // The sender is dropped, which is an error of the receiver.
        receiver.recv_timeout(COPY).ok();
    }

    /// The memory that the processes hold, at any time.
    pub fn running(&self) -> RunningProcesses {
        RunningProcesses(Arc::clone(&self.shared))
    }

    /// Writes what the processes have recorded so far, and closes the logs. Processes that still run are not recorded any longer.
    pub fn finish(self) -> Vec<RecordedProcess> {
        self.shared.requests.is_over.store(true, Ordering::Release);
        #[cfg(target_os = "linux")]
        control::wake(self.folder.path());
        // The thread ends within one round, and an error of `join` has no information.
        self.thread.join().ok();
        #[cfg(target_os = "linux")]
        leftovers::remove_of(self.folder.path());
        std::mem::take(&mut *lock(&self.shared.recorded))
    }
}

/// The memory that the processes of a run hold.
#[derive(Debug, Clone)]
pub struct RunningProcesses(Arc<Shared>);

impl RunningProcesses {
    /// The processes that are recorded now, by number. `None` if the run is finished, or if its disk is slow.
    pub fn list(&self) -> Option<Vec<RunningProcess>> {
        if self.0.requests.is_over.load(Ordering::Acquire) {
            return None;
        }
        let (sender, receiver) = channel();
        lock(&self.0.requests.asked).push(Asked::Processes(sender));
        receiver.recv_timeout(COPY).ok()
    }
}

impl Shared {
    /// Answers requests of other threads.
    fn answer(
        processes: &mut HashMap<OsString, Option<Process>>,
        asked: Vec<Asked>,
        copies: Option<&Sender<io::Result<LogCopy>>>,
    ) {
        for asked in asked {
            // A thread that waits no longer needs no answer.
            match asked {
                Asked::Copies(reason, _) => {
                    for process in processes.values_mut().flatten() {
                        process.files.copy(&mut process.log, reason, copies);
                    }
                }
                #[cfg(target_os = "linux")]
                Asked::Copy(id, answer) => {
                    let process = processes.values_mut().flatten().find(|process| process.id == id);
                    answer.send(process.map(|p| p.log.copy(p.files.path(DUMP)))).ok();
                }
                Asked::Processes(answer) => {
                    let mut running: Vec<RunningProcess> =
                        processes.values().flatten().map(Process::running).collect();
                    running.sort_by_key(|process| process.process);
                    answer.send(running).ok();
                }
            }
        }
    }

    /// Body of the thread that reads the rings and writes the logs.
    fn run(&self) {
        let mut processes: HashMap<OsString, Option<Process>> = HashMap::new();
        let mut ended = Vec::new();
        let (mut written, mut checked) = (Instant::now(), Instant::now());
        loop {
            let is_over = self.requests.is_over.load(Ordering::Acquire);
            self.find(&mut processes);
            let mut is_busy = false;
            let asked = std::mem::take(&mut *lock(&self.requests.asked));
            let copies = lock(&self.copies).clone();
            for process in processes.values_mut().flatten() {
                is_busy |= process.read(false, copies.as_ref());
                if let Some(reading) = process.host.due() {
                    process.log.host(&reading);
                }
            }
            Self::answer(&mut processes, asked, copies.as_ref());
            let writes = is_over || written.elapsed() >= WRITE;
            let checks = is_over || checked.elapsed() >= LIVENESS;
            for (name, place) in &mut processes {
                let Some(process) = place else { continue };
                if writes || process.log.pending() > MOST_UNWRITTEN / 2 {
                    process.write();
                }
                if process.has_ended() || checks && (is_over || !is_running(process.id)) {
                    process.read(true, copies.as_ref());
                    if let Some(process) = place.take() {
                        lock(&self.ended).push(process.id);
                        ended.push(process.finish());
                        fs::remove_file(self.rings.join(name)).ok();
                    }
                }
            }
            if is_over {
                lock(&self.copies).take();
                lock(&self.recorded).extend(ended.into_iter().map(Ended::join));
                return;
            }
            if writes {
                written = Instant::now();
            }
            if checks {
                checked = Instant::now();
            }
            if !is_busy {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Opens the rings of new processes.
    fn find(&self, processes: &mut HashMap<OsString, Option<Process>>) {
        let Ok(entries) = fs::read_dir(&self.rings) else { return };
        let mut new: Vec<OsString> = entries
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| !processes.contains_key(name))
            .collect();
        // A process comes before those that it forked, even if all of them are new.
        new.sort_by_key(|name| parts_of(name));
        for name in new {
            let (_, id) = parts_of(&name);
            let former = processes.keys().filter(|former| parts_of(former).1 == id).count();
            match self.open(&name, processes.is_empty(), former) {
                Ok(Some(process)) => {
                    processes.insert(name, Some(process));
                    self.has_begun.store(true, Ordering::Release);
                }
                // Its writer has not finished its header.
                Ok(None) => {}
                Err((path, error)) => {
                    let (_, process) = parts_of(&name);
                    let (error, limit_error) = (Some(error), None);
                    let failed = RecordedProcess { path, process, events: 0, dropped: 0, error, limit_error };
                    lock(&self.recorded).push(failed);
                    lock(&self.ended).push(process);
                    processes.insert(name, None);
                }
            }
        }
    }

    fn open(
        &self,
        name: &OsStr,
        is_first: bool,
        former: usize,
    ) -> Result<Option<Process>, (PathBuf, io::Error)> {
        let at = self.rings.join(name);
        let ring = fs::OpenOptions::new().read(true).write(true).open(&at).and_then(|f| MappedRing::open(&f));
        let Some(ring) = ring.map_err(|e| (at.clone(), e))? else { return Ok(None) };
        // Both processes have mapped the ring, so its memory is freed when both have ended, even if they are killed.
        if let Ok(in_memory) = fs::read_link(&at) {
            fs::remove_file(in_memory).ok();
        }
        let header = |at| ring.ring().map(|ring| ring.header(at).load(Ordering::Relaxed));
        let (Some(id), Some(attached)) = (header(AT_PROCESS), header(AT_ATTACHED)) else { return Ok(None) };
        let id = id as u32;
        let files = Files::new(&self.out, id, is_first, former);
        let paths =
            LogPaths { log: files.path(""), before: files.path("-before"), next: files.path("-next") };
        let path = paths.log.clone();
        let program = fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        let from = match self.options.stacks {
            RecordedStacks::Large(bytes) => Some(LogFact::StacksFrom(bytes)),
            _ => None,
        };
        let attached = i64::try_from(attached).ok().filter(|&time_us| time_us > 0).map(LogFact::AttachedAt);
        let facts = from.into_iter().chain(attached).collect();
        let RecorderOptions { keep, copy_at, .. } = self.options;
        let log = ProcessLog::create(paths, program, facts, keep, copy_at, self.options.with_accesses())
            .map_err(|e| (path.clone(), e))?;
        let host = HostMemory::of(id);
        Ok(Some(Process {
            id,
            path,
            files,
            ring,
            log,
            host,
            body: Vec::new(),
            error: None,
            limit_error: None,
        }))
    }
}

/// The parts of a ring's name, `PROCESS-FORKS`: the number of forks before the process, and its id.
fn parts_of(name: &OsStr) -> (u32, u32) {
    let parts = name.to_str().and_then(|name| name.split_once('-'));
    let number = |text: &str| text.parse().unwrap_or(0);
    parts.map_or((0, 0), |(process, forks)| (number(forks), number(process)))
}

/// The rank of a process among several, as `torchrun` sets it.
fn rank(process: u32) -> Option<u64> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let number = |name: &[u8]| {
        let value =
            environment.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))?;
        std::str::from_utf8(value).ok()?.parse::<u64>().ok()
    };
    (number(b"WORLD_SIZE")? > 1).then(|| number(b"RANK")).flatten()
}

/// Names of the files of one process.
#[derive(Debug)]
struct Files {
    /// Path of the run's log.
    out: PathBuf,
    /// Last part of the names.
    suffix: String,
}

impl Files {
    /// `former` is the number of logs that the process had before.
    fn new(out: &Path, process: u32, is_first: bool, former: usize) -> Self {
        let mut suffix = match rank(process) {
            Some(rank) => format!("-rank{rank}"),
            None if is_first => String::new(),
            None => format!("-pid{process}"),
        };
        if former > 0 {
            suffix = format!("{suffix}-{}", former + 1);
        }
        Self { out: out.to_owned(), suffix }
    }

    /// Path of a file. The suffix comes last, so that `run-rank*` means one log of each rank.
    fn path(&self, what: &str) -> PathBuf {
        with_suffix(&self.out, &format!("{what}{}", self.suffix))
    }

    /// Sends a copy of the log so far.
    fn copy(&self, log: &mut ProcessLog, reason: &str, copies: Option<&Sender<io::Result<LogCopy>>>) {
        if let Some(copies) = copies {
            // Without a receiver, no copy is wanted.
            copies.send(log.copy(self.path(&format!("-at-{reason}")))).ok();
        }
    }
}

/// One recorded process.
#[derive(Debug)]
struct Process {
    id: u32,
    path: PathBuf,
    files: Files,
    ring: MappedRing,
    log: ProcessLog,
    host: HostMemory,
    /// Body of the record that is read.
    body: Vec<u64>,
    error: Option<io::Error>,
    limit_error: Option<io::Error>,
}

impl Process {
    fn running(&self) -> RunningProcess {
        let (devices, host) = self.log.running();
        RunningProcess {
            process: self.id,
            suffix: self.files.suffix.clone(),
            copy: self.files.path(DUMP),
            devices,
            host,
        }
    }

    /// Moves records from the ring to the log. Returns whether the ring fills fast, so that it should be read again at once.
    fn read(&mut self, is_over: bool, copies: Option<&Sender<io::Result<LogCopy>>>) -> bool {
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

    fn write(&mut self) {
        self.error = self.log.flush().err();
    }

    /// Whether the library was detached: all records are in the ring.
    fn has_ended(&self) -> bool {
        self.ring.ring().is_some_and(|ring| ring.header(AT_ENDED).load(Ordering::Acquire) != 0)
    }

    fn finish(self) -> Ended {
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
            recorded: RecordedProcess { path, process: id, events, dropped, error, limit_error },
        }
    }
}

/// A process that has ended, and the threads that close its logs.
struct Ended {
    recorded: RecordedProcess,
    closing: Vec<Closing>,
}

impl Ended {
    fn join(mut self) -> RecordedProcess {
        for closing in self.closing {
            if let Err(error) = closing.join() {
                self.recorded.error.get_or_insert(error);
            }
        }
        self.recorded
    }
}
