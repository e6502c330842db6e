//! A run whose processes are recorded.

use std::ffi::OsString;
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
use vramscope_files::{PrivateFolder, with_first};

#[cfg(target_os = "linux")]
use crate::control;
#[cfg(target_os = "linux")]
use crate::leftovers::{self, open_ring, remove_name};
use crate::log::LogCopy;
use crate::options::{RecordedStacks, RecorderOptions};
use crate::recorded::{DUMP, Ended, MOST_UNWRITTEN, Process, RecordedProcess, RingName, UsedNames};
use crate::requests::{Asked, RECORDER_FOLDER, RINGS, Requests};
use crate::running::RunningProcess;
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
}

/// Hooks into the imports of a recorded Python program: the name and text of a module.
pub const IMPORTS: (&str, &str) = ("vramscope_imports.py", include_str!("imports.py"));

/// Whether the name of a recording is that of a log, which is written while the program runs.
pub fn names_log(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "vramscope")
}

/// Records all processes of a run while they run. Each process has a separate log.
#[derive(Debug)]
pub struct RecorderRun {
    /// Processes that wait for this one see by its lock that it lives.
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
        control::start(folder.dir(), Arc::clone(&shared.requests)).map_err(failed)?;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("vramscope-recorder".to_owned())
            .spawn(move || of_thread.run())
            .map_err(failed)?;
        Ok(Self { folder, shared, thread })
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
    ///
    /// Returns the copies, which the receiver writes. They end when this run is finished.
    pub fn copies(&self) -> Receiver<io::Result<LogCopy>> {
        let (sender, receiver) = channel();
        *lock(&self.shared.copies) = Some(sender);
        receiver
    }

    /// The memory that the processes hold, at any time.
    pub fn running(&self) -> RunningProcesses {
        RunningProcesses(Arc::clone(&self.shared))
    }

    /// Writes what the processes have recorded so far, and closes the logs. Processes that still run are not recorded any longer.
    pub fn finish(self) -> Vec<RecordedProcess> {
        self.shared.requests.is_over.store(true, Ordering::Release);
        #[cfg(target_os = "linux")]
        control::wake(self.folder.dir());
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
    fn answer(processes: &mut HashMap<OsString, Option<Process>>, asked: Vec<Asked>) {
        for asked in asked {
            // A thread that waits no longer needs no answer.
            match asked {
                #[cfg(target_os = "linux")]
                Asked::Copy(id, answer) => {
                    let process = processes.values_mut().flatten().find(|process| process.id == id);
                    answer.send(process.map(|p| p.files.copy_of(&mut p.log, DUMP))).ok();
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
        let mut used = UsedNames::default();
        let mut ended = Vec::new();
        let (mut written, mut checked) = (Instant::now(), Instant::now());
        loop {
            let is_over = self.requests.is_over.load(Ordering::Acquire);
            let newest = self.find(&mut processes, &mut used);
            let mut is_busy = false;
            let asked = std::mem::take(&mut *lock(&self.requests.asked));
            let copies = lock(&self.copies).clone();
            for process in processes.values_mut().flatten() {
                is_busy |= process.read(false, copies.as_ref());
                if let Some(reading) = process.host.due() {
                    process.log.host(&reading);
                }
            }
            Self::answer(&mut processes, asked);
            let writes = is_over || written.elapsed() >= WRITE;
            let checks = is_over || checked.elapsed() >= LIVENESS;
            for (name, place) in &mut processes {
                let Some(process) = place else { continue };
                if writes || process.log.pending() > MOST_UNWRITTEN / 2 {
                    process.write();
                }
                // The program that wrote the ring is gone if its process has a later one.
                let has_later = newest.iter().any(|newest| newest.follows(RingName::of(name)));
                if process.has_ended() || has_later || checks && (is_over || !process.goes_on()) {
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

    /// Opens new rings, and returns their names.
    fn find(
        &self,
        processes: &mut HashMap<OsString, Option<Process>>,
        used: &mut UsedNames,
    ) -> Vec<RingName> {
        let Ok(entries) = fs::read_dir(&self.rings) else { return Vec::new() };
        let mut new: Vec<OsString> = entries
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| !processes.contains_key(name))
            .collect();
        // A process comes before those that it forked, even if all of them are new.
        new.sort_by_key(|name| RingName::of(name));
        let mut opened = Vec::new();
        for name in new {
            let ring = open_ring(&self.rings, &name).map_err(|e| (self.rings.join(&name), e));
            match ring.and_then(|ring| Process::open(&ring, &self.out, self.options, used)) {
                Ok(Some(process)) => {
                    remove_name(&self.rings, &name);
                    opened.push(RingName::of(&name));
                    processes.insert(name, Some(process));
                    self.has_begun.store(true, Ordering::Release);
                }
                // Its writer has not finished its header.
                Ok(None) => {}
                Err((path, error)) => {
                    let process = RingName::of(&name).process;
                    lock(&self.recorded).push(RecordedProcess::failed(path, process, error));
                    lock(&self.ended).push(process);
                    processes.insert(name, None);
                }
            }
        }
        opened
    }
}
