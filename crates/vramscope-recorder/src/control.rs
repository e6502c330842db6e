//! Requests of other processes to a running recorder, through a socket in its folder. Only its user and root may enter the folder.
//!
//! A request is one line: `processes`, `copy PROCESS` for a copy of its log, or `dump PROCESS` for one that the recorder also writes to a
//! file, whose name and a zero come first. The answer is a line `ok SIZE` with that many bytes after it, or a line `error REASON`.
//!
//! A client finds the folder by a name in the list of mapped files of the recorded process, which that process may choose. So the folder
//! and the recorder must belong to the user of the process, and the recorder names no file that the client opens.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use vramscope_basics::lock;
use vramscope_files::{Dir, PrivateFolder};

use crate::leftovers::linked;
use crate::log::{CopyContents, LogCopy};
use crate::requests::{Asked, RECORDER_FOLDER, RINGS, Requests};
use crate::running::{RunningProcess, is_running, user_of};

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
fn address(folder: &Dir) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_fd().as_raw_fd()))
}

/// Starts the thread that answers, until the run is over.
pub(crate) fn start(folder: &Dir, requests: Arc<Requests>) -> io::Result<()> {
    let listener = UnixListener::bind(address(folder))?;
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
pub(crate) fn wake(folder: &Dir) {
    // Without the socket, the thread has ended or waits without cost.
    UnixStream::connect(address(folder)).ok();
}

/// Answers one request.
fn answer(requests: &Requests, mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(SLOW_DISK))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST_LINE).read_line(&mut line)?;
    let answered = match line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "")) {
        ("processes", _) => processes(requests),
        ("copy", process) => copy(requests, process, false),
        ("dump", process) => copy(requests, process, true),
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

/// What follows the first line of an answer: these bytes, then those of a log.
struct Answer(Vec<u8>, Option<CopyContents>);

impl Answer {
    fn len(&self) -> u64 {
        self.0.len() as u64 + self.1.as_ref().map_or(0, CopyContents::len)
    }

    fn write(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.0)?;
        self.1.map_or(Ok(()), |contents| contents.write(out))
    }
}

/// Lists the recorded processes: for each, its id and the end of its files' names, each followed by a zero.
fn processes(requests: &Requests) -> Result<Answer, String> {
    let (sender, receiver) = channel();
    lock(&requests.asked).push(Asked::Processes(sender));
    let processes = receiver.recv_timeout(WAIT).map_err(|_| "the recorder waits for its disk".to_owned())?;
    let text: String = processes.iter().map(|of| format!("{}\0{}\0", of.process, of.suffix)).collect();
    Ok(Answer(text.into_bytes(), None))
}

/// Copies the log of a process. If `writes` is set, also writes the copy to a file beside the log, with the rights of this process.
fn copy(requests: &Requests, process: &str, writes: bool) -> Result<Answer, String> {
    let process = process.parse().map_err(|_| format!("{process:?} is no process"))?;
    let (sender, receiver) = channel();
    lock(&requests.asked).push(Asked::Copy(process, sender));
    let copy = receiver.recv_timeout(WAIT).map_err(|_| "the recorder waits for its disk".to_owned())?;
    let copy = copy.ok_or_else(|| format!("the recording of process {process} has ended"))?;
    let copy = copy.map_err(|e| format!("the log cannot be copied: {e}"))?;
    let path = copy.path().to_owned();
    let failed = |e: io::Error| format!("{}: {e}", path.display());
    if !writes {
        return LogCopy::contents(copy).map(|contents| Answer(Vec::new(), Some(contents))).map_err(failed);
    }
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.push(0);
    copy.written().map(|contents| Answer(name, Some(contents))).map_err(failed)
}

/// A recorder that runs in another process.
#[derive(Debug)]
pub struct RunningRecorder {
    folder: Dir,
    process: u32,
    /// The user of the process.
    user: u32,
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
        let user = user_of(process).ok_or(ControlError::NoProcess(process))?;
        // A process keeps the libraries of earlier recordings, and another user may have made a folder of their names.
        let folder = folders(&maps).into_iter().chain(locked_folders(process)).find_map(|folder| {
            let folder = Dir::open_no_follow(&folder).ok()?;
            let is_its = folder.access().is_ok_and(|access| access.is_of(user));
            (is_its && fs::symlink_metadata(address(&folder)).is_ok()).then_some(folder)
        });
        Ok(Self { folder: folder.ok_or(ControlError::NotRecorded(process))?, process, user })
    }

    /// The processes that are recorded now: the process alone, or all if it is the recorder.
    ///
    /// # Errors
    /// The recorder does not answer, or the process is not recorded any longer.
    pub fn processes(&self) -> Result<Vec<RunningProcess>, ControlError> {
        let mut bytes = Vec::new();
        let (size, stream, recorder) = self.ask("processes")?;
        stream.take(size.min(LONGEST_LIST)).read_to_end(&mut bytes)?;
        let mut fields = bytes.split(|&byte| byte == 0);
        let mut processes = Vec::new();
        while let (Some(process), Some(suffix)) = (fields.next(), fields.next()) {
            let process = std::str::from_utf8(process).ok().and_then(|process| process.parse().ok());
            let suffix = String::from_utf8_lossy(suffix).into_owned();
            let (devices, host) = (Vec::new(), Vec::new());
            processes.extend(process.map(|process| RunningProcess { process, suffix, devices, host }));
        }
        if recorder != self.process {
            processes.retain(|process| process.process == self.process);
            if processes.is_empty() {
                return Err(ControlError::NotRecorded(self.process));
            }
        }
        Ok(processes)
    }

    /// Writes a copy of the log of a process until now to `out`, with the names of native frames. The recording goes on.
    ///
    /// # Errors
    /// The process is not recorded any longer, the recorder ends meanwhile, or `out` cannot be written.
    pub fn copy(&self, process: u32, out: &mut impl Write) -> Result<(), ControlError> {
        let (size, stream, _) = self.ask(&format!("copy {process}"))?;
        let copied = io::copy(&mut stream.take(size), out)?;
        if copied == size { Ok(()) } else { Err(ControlError::Ended(process)) }
    }

    /// As [`copy`](Self::copy), and the recorder writes the same copy to a new file beside the log, with its own rights. Returns the path
    /// of that file, as the recorder names it.
    ///
    /// # Errors
    /// As for `copy`. Also if the recorder cannot write the file.
    pub fn dump(&self, process: u32, out: &mut impl Write) -> Result<PathBuf, ControlError> {
        let (size, mut stream, _) = self.ask(&format!("dump {process}"))?;
        let mut path = Vec::new();
        stream.by_ref().take(LONGEST_LINE.min(size)).read_until(0, &mut path)?;
        let rest = size - path.len() as u64;
        let copied = io::copy(&mut stream.take(rest), out)?;
        if path.pop() != Some(0) || copied < rest {
            return Err(ControlError::Ended(process));
        }
        Ok(PathBuf::from(std::ffi::OsString::from_vec(path)))
    }

    /// Sends a request. Returns the size of the answer, which follows, and the process of the recorder.
    fn ask(&self, request: &str) -> Result<(u64, BufReader<UnixStream>, u32), ControlError> {
        let ended = ControlError::Ended(self.process);
        let Ok(mut stream) = UnixStream::connect(address(&self.folder)) else { return Err(ended) };
        // The socket may be a link to that of another program.
        let peer = socket_peercred(&stream).map_err(io::Error::from)?;
        if peer.uid.as_raw() != self.user {
            return Err(ControlError::NotRecorded(self.process));
        }
        stream.set_read_timeout(Some(CLIENT_PATIENCE))?;
        writeln!(stream, "{request}")?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.by_ref().take(LONGEST_LINE).read_line(&mut line)?;
        let recorder = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        match line.trim_end().split_once(' ') {
            Some(("ok", size)) => size.parse().map(|size| (size, stream, recorder)).map_err(|_| ended),
            Some(("error", why)) => Err(ControlError::Refused(why.to_owned())),
            _ => Err(ended),
        }
    }
}

/// The folders of the recorders that a process runs itself: it holds a locked file in each.
fn locked_folders(process: u32) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let paths = files.filter_map(|file| fs::read_link(file.path()).ok());
    let folders = paths.filter(|path| path.ends_with(PrivateFolder::LOCK));
    folders.filter_map(|path| path.parent().filter(|folder| is_recorders(folder)).map(Path::to_owned))
}

/// Whether the name of a folder is that of a recorder's.
fn is_recorders(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_bytes().starts_with(RECORDER_FOLDER.as_bytes()))
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
        let folders = if is_ring { &mut of_rings } else { &mut of_libraries };
        if let Some(folder) = folder.filter(|folder| is_recorders(folder))
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
