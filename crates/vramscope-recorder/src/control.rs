//! Requests of other processes to a running recorder, through a socket in its folder. Only its user may enter the folder.
//!
//! A request is one line: `processes`, or `copy PROCESS`. The answer is a line `ok SIZE` with that many bytes after it, or a line
//! `error REASON`.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use vramscope_basics::lock;

use crate::leftovers::linked;
use crate::log::LogCopy;
use crate::requests::{Asked, READER, RECORDER_FOLDER, RINGS, Requests};
use crate::running::{RunningProcess, is_running};

/// Name of the socket in the recorder's folder.
const SOCKET: &str = "control";
/// Maximum bytes of a request, and of a line of an answer.
const LONGEST_LINE: u64 = 4096;
/// Maximum bytes of a list of processes.
const LONGEST_LIST: u64 = 16 << 20;
/// How long the recorder waits for a client that does not read. It may wait for a slow disk.
const SLOW_DISK: Duration = Duration::from_secs(30);
/// How long the recorder waits for a request.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the thread that reads the rings may take. It may wait for a slow disk.
const WAIT: Duration = Duration::from_secs(30);
/// How long a client waits for an answer. Names of native frames may take long to find.
const CLIENT_PATIENCE: Duration = Duration::from_secs(600);

/// Why a running recorder cannot be reached, or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no process with this id, or it has ended.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process belongs to another user.
    #[error("the system does not let this user see process {0}: run vramscope as the user of the process")]
    NotPermitted(u32),
    /// The process is not recorded to a log.
    #[error(
        "process {0} is not recorded to a log, or has not used a GPU yet; `vramscope attach {0}` records it from now on"
    )]
    NotRecorded(u32),
    /// The recorder has ended, such as by SIGKILL.
    #[error("the recorder of process {0} has ended; its log is complete until then")]
    Ended(u32),
    /// The recorder refused the request.
    #[error("{0}")]
    Refused(String),
    /// The system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The path of a socket in a folder. The folder's own path may be too long for the address of a socket, so it is reached through an open
/// file.
fn address(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Starts the thread that answers, until the run is over.
pub(crate) fn start(folder: &Path, requests: Arc<Requests>) -> io::Result<()> {
    let listener = UnixListener::bind(address(&File::open(folder)?))?;
    let body = move || {
        for stream in listener.incoming() {
            if requests.is_over.load(Ordering::Acquire) {
                return;
            }
            if let Ok(stream) = stream {
                // The client has gone.
                answer(&requests, &stream).ok();
            }
        }
    };
    std::thread::Builder::new().name("vramscope-control".to_owned()).spawn(body)?;
    Ok(())
}

/// Wakes the thread of a run that is over.
pub(crate) fn wake(folder: &Path) {
    // Without the folder, the thread has ended or waits without cost.
    File::open(folder).and_then(|folder| UnixStream::connect(address(&folder))).ok();
}

/// Answers one request.
fn answer(requests: &Requests, mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(SLOW_DISK))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST_LINE).read_line(&mut line)?;
    let answered = match line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "")) {
        ("processes", _) => processes(requests),
        ("copy", process) => copy(requests, process),
        _ => Err("an unknown request: use the same release of vramscope as the recorder".to_owned()),
    };
    match answered {
        Ok(answer) => {
            writeln!(stream, "ok {}", answer.len())?;
            answer.write(&mut stream)
        }
        Err(why) => writeln!(stream, "error {}", why.replace('\n', " ")),
    }
}

/// What follows the first line of an answer.
enum Answer {
    Bytes(Vec<u8>),
    Log(crate::log::CopyContents),
}

impl Answer {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Log(contents) => contents.len(),
        }
    }

    fn write(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => out.write_all(&bytes),
            Self::Log(contents) => contents.write(out),
        }
    }
}

/// Lists the recorded processes: for each, its id, the end of its files' names, and the path of a copy, each followed by a zero.
fn processes(requests: &Requests) -> Result<Answer, String> {
    let (sender, receiver) = channel();
    lock(&requests.asked).push(Asked::Processes(sender));
    let processes = receiver.recv_timeout(WAIT).map_err(|_| "the recorder waits for its disk".to_owned())?;
    let mut bytes = Vec::new();
    for process in processes {
        for field in [
            process.process.to_string().as_bytes(),
            process.suffix.as_bytes(),
            process.copy.as_os_str().as_bytes(),
        ] {
            bytes.extend_from_slice(field);
            bytes.push(0);
        }
    }
    Ok(Answer::Bytes(bytes))
}

fn copy(requests: &Requests, process: &str) -> Result<Answer, String> {
    let process = process.parse().map_err(|_| format!("{process:?} is no process"))?;
    let (sender, receiver) = channel();
    lock(&requests.asked).push(Asked::Copy(process, sender));
    let copy = receiver.recv_timeout(WAIT).map_err(|_| "the recorder waits for its disk".to_owned())?;
    let copy = copy.ok_or_else(|| format!("the recording of process {process} has ended"))?;
    copy.and_then(LogCopy::contents).map(Answer::Log).map_err(|e| format!("the log cannot be copied: {e}"))
}

/// A recorder that runs in another process.
#[derive(Debug)]
pub struct RunningRecorder {
    folder: File,
    process: u32,
}

impl RunningRecorder {
    /// The recorder of a process, or the recorder that is this process.
    ///
    /// # Errors
    /// There is no such process, or nothing records it.
    pub fn of(process: u32) -> Result<Self, ControlError> {
        if !is_running(process) {
            return Err(ControlError::NoProcess(process));
        }
        let maps = fs::read(format!("/proc/{process}/maps")).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => ControlError::NotPermitted(process),
            _ => ControlError::NoProcess(process),
        })?;
        // A process keeps the libraries of earlier recordings.
        let folder = folders(&maps).into_iter().chain(locked_folders(process)).find_map(|folder| {
            let folder = File::open(folder).ok()?;
            fs::symlink_metadata(address(&folder)).is_ok().then_some(folder)
        });
        Ok(Self { folder: folder.ok_or(ControlError::NotRecorded(process))?, process })
    }

    /// The processes that are recorded now.
    ///
    /// # Errors
    /// The recorder does not answer.
    pub fn processes(&self) -> Result<Vec<RunningProcess>, ControlError> {
        let mut bytes = Vec::new();
        let (size, stream) = self.ask("processes")?;
        stream.take(size.min(LONGEST_LIST)).read_to_end(&mut bytes)?;
        let mut fields = bytes.split(|&byte| byte == 0);
        let mut processes = Vec::new();
        while let (Some(process), Some(suffix), Some(copy)) = (fields.next(), fields.next(), fields.next()) {
            let process = std::str::from_utf8(process).ok().and_then(|process| process.parse().ok());
            let suffix = String::from_utf8_lossy(suffix).into_owned();
            let copy = PathBuf::from(std::ffi::OsString::from_vec(copy.to_vec()));
            let (devices, host) = (Vec::new(), Vec::new());
            processes.extend(process.map(|process| RunningProcess { process, suffix, copy, devices, host }));
        }
        Ok(processes)
    }

    /// Writes a copy of the log of a process until now to `out`, with the names of native frames. The recording goes on.
    ///
    /// # Errors
    /// The process is not recorded any longer, the recorder ends meanwhile, or `out` cannot be written.
    pub fn copy(&self, process: u32, out: &mut impl Write) -> Result<(), ControlError> {
        let (size, stream) = self.ask(&format!("copy {process}"))?;
        let copied = io::copy(&mut stream.take(size), out)?;
        if copied == size { Ok(()) } else { Err(ControlError::Ended(process)) }
    }

    /// Sends a request. Returns the size of the answer, which follows.
    fn ask(&self, request: &str) -> Result<(u64, BufReader<UnixStream>), ControlError> {
        let ended = ControlError::Ended(self.process);
        let Ok(mut stream) = UnixStream::connect(address(&self.folder)) else { return Err(ended) };
        stream.set_read_timeout(Some(CLIENT_PATIENCE))?;
        writeln!(stream, "{request}")?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.by_ref().take(LONGEST_LINE).read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some(("ok", size)) => size.parse().map(|size| (size, stream)).map_err(|_| ended),
            Some(("error", why)) => Err(ControlError::Refused(why.to_owned())),
            _ => Err(ended),
        }
    }
}

/// The folders of the recorders that a process runs itself: it holds a locked file in each.
fn locked_folders(process: u32) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let paths = files.filter_map(|file| fs::read_link(file.path()).ok());
    paths.filter(|path| path.ends_with(READER)).filter_map(|path| path.parent().map(Path::to_owned))
}

/// The folders of recorders whose files a process has mapped: first those with a ring, then those with a library.
fn folders(maps: &[u8]) -> Vec<PathBuf> {
    let paths = maps.split(|&byte| byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|&byte| byte == b'/')?;
        Some(linked(Path::new(std::ffi::OsStr::from_bytes(&line[start..]))))
    });
    let (mut of_rings, mut of_libraries) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(parent) = path.parent() else { continue };
        let is_ring = parent.ends_with(RINGS);
        let folder = if is_ring { parent.parent() } else { Some(parent) };
        let is_recorders = |folder: &&Path| {
            folder.file_name().is_some_and(|name| name.as_bytes().starts_with(RECORDER_FOLDER.as_bytes()))
        };
        let folders = if is_ring { &mut of_rings } else { &mut of_libraries };
        if let Some(folder) = folder.filter(is_recorders)
            && !folders.iter().any(|known| known == folder)
        {
            folders.push(folder.to_owned());
        }
    }
    of_rings.append(&mut of_libraries);
    of_rings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorders_folder_is_found_among_the_mapped_files() {
        let maps = b"55d0-55d1 r-xp 00000000 08:01 7 /usr/bin/python3.12
7f00-7f01 r-xp 00000000 08:01 8 /tmp/vramscope-recorder-old/libvramscope_recorder.so (deleted)
7f01-7f02 r-xp 00000000 08:01 8 /tmp/vramscope-recorder-old/libvramscope_recorder.so (deleted)
7f10-7f11 rw-s 00000000 08:01 9 /tmp/a folder/vramscope-recorder-0123/rings/4711-0
7f10-7f11 rw-s 00000000 00:1a 9 /dev/shm/vramscope:var:tmp:vramscope-recorder-new:rings:4712-0 (deleted)
7f20-7f21 rw-p 00000000 00:00 0 [heap]
7f20-7f21 rw-s 00000000 00:00 0 /tmp/other/rings/4711-0
";
        let found: Vec<PathBuf> = [
            "/tmp/a folder/vramscope-recorder-0123",
            "/var/tmp/vramscope-recorder-new",
            "/tmp/vramscope-recorder-old",
        ]
        .map(PathBuf::from)
        .into();
        assert_eq!(folders(maps), found);
    }

    #[test]
    fn a_process_that_nothing_records_is_named() {
        let said = |process| RunningRecorder::of(process).unwrap_err().to_string();
        assert_eq!(said(u32::MAX), format!("there is no process {}", u32::MAX));
        let own = std::process::id();
        assert!(
            said(own).contains(&format!("`vramscope attach {own}` records it from now on")),
            "{}",
            said(own)
        );
    }
}
