//! A file that one recording at a time is written to.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::device::Process;

/// How often a file is opened again because another took its name meanwhile.
const TRIES: usize = 10;

/// A file under a lock that the system takes back when it is closed, however the program ends. The lock is of the
/// file, not of its name: links to it are the same file.
#[derive(Debug)]
pub(super) struct ExclusiveFile {
    file: File,
    path: PathBuf,
    /// No pipe, terminal or other device: those are nobody's own.
    is_regular: bool,
    process: Process,
}

impl ExclusiveFile {
    /// Opens `path`, or makes it, and empties it.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] where somebody else writes to it; nothing is changed then. Else what the
    /// system says.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            // Not emptied yet: it may be another's.
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            let is_regular = file.metadata()?.is_file();
            let this = Self { file, path: path.to_owned(), is_regular, process: Process::this() };
            if !is_regular {
                return Ok(this);
            }
            match this.file.try_lock() {
                Err(TryLockError::WouldBlock) => break,
                // Some file systems have no locks. What two runs mix up is noticed by the reader all the same.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // Another may have been put in its place before it was locked.
            if this.has_its_name() {
                this.file.set_len(0)?;
                return Ok(this);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Its name still is that of this file: what is written is found there.
    pub(super) fn has_its_name(&self) -> bool {
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
            return Err(io::Error::other("the recording is of the process that this one was forked from"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ExclusiveFile {
    fn drop(&mut self) {
        // A forked process has the same lock: closing the file does not give it back as long as that lives. And the
        // lock is not that process' to give back.
        if self.process.is_this() {
            self.file.unlock().ok();
        }
    }
}
