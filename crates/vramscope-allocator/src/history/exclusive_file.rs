//! A file with one writer at a time.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::device::Process;

/// How often a file is opened again because another file took its name before the lock was taken.
const TRIES: usize = 10;

/// A file that one recording or log at a time is written to. It is locked as long as it is open, and the system unlocks it
/// however the program ends. The lock is that of the file and not of its name: a link to it is the same file. A process
/// forked from the writer's cannot write to it.
///
/// Pipes, terminals and other devices are not locked, and neither are files on a file system without locks.
#[derive(Debug)]
pub struct ExclusiveFile {
    file: File,
    path: PathBuf,
    /// Whether it is a file, and not a pipe, a terminal or another device.
    is_regular: bool,
    process: Process,
}

impl ExclusiveFile {
    /// Opens the file at `path` and empties it; makes it where there is none. A link of another user's, who is not root, is not
    /// followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] where another writer has it; the file is left as it is then. Otherwise the system's
    /// own error.
    pub fn create(path: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            // It is emptied only once it is locked, for it may be another writer's.
            let file = vramscope_files::open_log(path)?;
            let is_regular = file.metadata()?.is_file();
            let this = Self { file, path: path.to_owned(), is_regular, process: Process::this() };
            if !is_regular {
                return Ok(this);
            }
            match this.file.try_lock() {
                Err(TryLockError::WouldBlock) => break,
                // Some file systems have no locks. There, a reader of recordings still notices what two writers mixed up.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // Another file may have taken the name before this one was locked.
            if this.has_its_name() {
                this.file.set_len(0)?;
                return Ok(this);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Whether the file was opened by the calling process, and not by one that it was forked from.
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// Whether the file is still found under its name, so that what is written is not lost.
    pub fn has_its_name(&self) -> bool {
        !self.is_regular || is_at(&self.file, &self.path)
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let place = |m: std::fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(there)) => place(file) == place(there),
        (Ok(_), Err(e)) => e.kind() != io::ErrorKind::NotFound,
        (Err(_), _) => true,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

impl Write for ExclusiveFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.process.is_this() {
            return Err(io::Error::other("the file is written by the process that this one was forked from"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ExclusiveFile {
    fn drop(&mut self) {
        // A forked process shares the lock: closing the file alone would not give it back while that process lives. The
        // forked process itself must not give it back.
        if self.process.is_this() {
            self.file.unlock().ok();
        }
    }
}
