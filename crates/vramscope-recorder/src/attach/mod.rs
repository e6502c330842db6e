//! A process that already runs. `inject` lets it load the library: `thread` finds a thread that can be interrupted, `memory` its functions and
//! room for the code in `stub`. On other processors than x86-64, `gdb` does.

#[cfg(not(target_arch = "x86_64"))]
mod gdb;
#[cfg(target_arch = "x86_64")]
mod inject;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod stub;
#[cfg(target_arch = "x86_64")]
mod thread;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::geteuid;

#[cfg(not(target_arch = "x86_64"))]
use self::gdb::call;
#[cfg(target_arch = "x86_64")]
use self::inject::call;
use crate::options::RecorderOptions;
use crate::recorded::RecordedProcess;
use crate::run::{RecordError, RecorderRun, RunningProcesses};
use crate::running::is_running;
use crate::symbols::LIBRARY_NAME;

/// How long the reader waits for the library's ring.
const WAIT_FOR_RING: Duration = Duration::from_secs(15);
/// Results of the library's functions: done, and recorded already, by an attached recorder or from the start.
const DONE: u64 = 0;
const RECORDED: std::ops::RangeInclusive<u64> = 1..=2;

/// A call that another process made.
#[derive(Debug)]
struct Called {
    /// The function's result.
    result: u64,
    /// The longest time for which a thread of the process was stopped.
    stopped: Duration,
}

/// Why a process did not make a call. It goes on as before.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("the system does not allow to debug it")]
    NotPermitted,
    #[error("it is stopped: continue it first (`kill -CONT`)")]
    Stopped,
    #[error("it ended")]
    Ended,
    #[error(
        "for 60 s, each of its threads was in the loader, in an allocator, or in a call that must not be interrupted"
    )]
    NoPoint,
    #[error("it has no unused bytes behind its code")]
    NoRoom,
    #[error("its C library has no {0}")]
    NoFunction(&'static str),
    #[error("it cannot create a thread (error {0})")]
    NoThread(u64),
    #[error("it cannot load the library: its folder may not allow code to run, or memory is limited")]
    NotLoaded,
    #[error("another release of the recorder is loaded")]
    OtherRelease,
    #[error("a lock of the loader is held for 30 s")]
    Late,
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => Self::NotPermitted,
            Some(rustix::io::Errno::SRCH | rustix::io::Errno::CHILD) => Self::Ended,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// Why a process cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The recorder cannot start.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is no process with this id, or it has ended.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process belongs to another user.
    #[error("process {process} belongs to user {user}: run vramscope as this user")]
    OtherUser {
        /// The process.
        process: u32,
        /// Its user's number.
        user: u32,
    },
    /// The system does not let this user debug the process.
    #[error(
        "the system does not allow to debug process {0}: set kernel.yama.ptrace_scope to 0 (sysctl), or give a container the capability SYS_PTRACE"
    )]
    NotPermitted(u32),
    /// The program does not use glibc as a shared library.
    #[error("process {0} is a static program, or does not use glibc: it cannot load the recorder")]
    Static(u32),
    /// The process has other folders, as in a container.
    #[error("process {process} cannot see {}: run vramscope in the same container", folder.display())]
    OtherFolders {
        /// The process.
        process: u32,
        /// The recorder's folder.
        folder: PathBuf,
    },
    /// The process is recorded already.
    #[error("process {0} is recorded already")]
    Recorded(u32),
    /// The process did not load the library.
    #[error("cannot load the recorder into process {process}: {why}")]
    Failed {
        /// The process.
        process: u32,
        /// The reason.
        why: String,
    },
}

/// A process that is recorded although it was not started with the recorder.
#[derive(Debug)]
pub struct AttachedProcess {
    recorder: RecorderRun,
    process: u32,
    stopped: Duration,
}

impl AttachedProcess {
    /// Loads the library into a process, and begins to record it to `out`.
    ///
    /// # Errors
    /// There is no such process, the process is recorded already or cannot load the library, or the folder for temporary files cannot be
    /// used. The process goes on as before.
    pub fn attach(process: u32, out: &Path, options: RecorderOptions) -> Result<Self, AttachError> {
        check(process)?;
        let recorder = RecorderRun::start(out, options)?;
        let library = recorder.library();
        let seen = format!("/proc/{process}/root{}", library.display());
        let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        if place(seen.as_ref()).is_none_or(|seen| Some(seen) != place(&library)) {
            let folder = library.parent().unwrap_or(&library).to_owned();
            return Err(AttachError::OtherFolders { process, folder });
        }
        let arguments = [&*recorder.rings().to_string_lossy(), &recorder.stacks()];
        let Called { result, stopped } = call_library(process, &recorder, "attach", arguments)?;
        if RECORDED.contains(&result) {
            return Err(AttachError::Recorded(process));
        }
        if result != DONE {
            let why = "it cannot write to the recorder's folder".to_owned();
            return Err(AttachError::Failed { process, why });
        }
        let begin = Instant::now();
        // It has ended already if its log cannot be written.
        while !recorder.has_begun() && !recorder.has_ended(process) {
            if begin.elapsed() > WAIT_FOR_RING {
                let why = "the library did not begin to record".to_owned();
                return Err(AttachError::Failed { process, why });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { recorder, process, stopped })
    }

    /// The longest time for which a thread of the process was stopped. Its other threads went on.
    pub fn stopped(&self) -> Duration {
        self.stopped
    }

    /// The memory that the process holds, at any time.
    pub fn running(&self) -> RunningProcesses {
        self.recorder.running()
    }

    /// Whether the process still runs and is still recorded.
    pub fn is_recorded(&self) -> bool {
        !self.recorder.has_ended(self.process) && is_running(self.process)
    }

    /// Ends the recording, and closes the log. The library stays in the process and passes all calls on.
    ///
    /// The error says why the process was not detached. Its log is complete to this moment.
    pub fn finish(self) -> (Vec<RecordedProcess>, Option<AttachError>) {
        let Self { recorder, process, .. } = self;
        let error = if !recorder.has_ended(process) && is_running(process) {
            detach(process, &recorder).err().filter(|_| is_running(process))
        } else {
            None
        };
        (recorder.finish(), error)
    }
}

fn detach(process: u32, recorder: &RecorderRun) -> Result<(), AttachError> {
    check(process)?;
    call_library(process, recorder, "detach", ["", ""])?;
    let begin = Instant::now();
    while !recorder.has_ended(process) && begin.elapsed() < WAIT_FOR_RING && is_running(process) {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Calls a function of the library in a process, which loads the library first if it has to.
fn call_library(
    process: u32,
    recorder: &RecorderRun,
    function: &str,
    [first, second]: [&str; 2],
) -> Result<Called, AttachError> {
    let (library, function) = (recorder.library(), format!("vramscope_recorder_{function}"));
    let called = call(process, [LIBRARY_NAME, &library.to_string_lossy(), &function, first, second]);
    called.map_err(|error| match error {
        CallError::NotPermitted => AttachError::NotPermitted(process),
        CallError::Ended => AttachError::NoProcess(process),
        _ if !is_running(process) => AttachError::NoProcess(process),
        error => AttachError::Failed { process, why: error.to_string() },
    })
}

/// Checks whether a process can load the library.
fn check(process: u32) -> Result<(), AttachError> {
    if !is_running(process) {
        return Err(AttachError::NoProcess(process));
    }
    let folder = fs::metadata(format!("/proc/{process}")).map_err(|_| AttachError::NoProcess(process))?;
    let user = folder.uid();
    if user != geteuid().as_raw() {
        return Err(AttachError::OtherUser { process, user });
    }
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AttachError::NotPermitted(process),
        _ => AttachError::NoProcess(process),
    })?;
    let names = maps.lines().filter_map(|line| line.split_once('/')?.1.rsplit('/').next());
    let is_glibc = names.into_iter().any(|name| name.starts_with("libc.so.6") || name.starts_with("libc-2."));
    if is_glibc { Ok(()) } else { Err(AttachError::Static(process)) }
}
