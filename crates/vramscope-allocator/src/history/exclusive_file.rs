//! A file with one writer at a time.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::device::Process;

/// Number of attempts to open and lock the file. Another file may take its name in between.
const TRIES: usize = 10;

/// A file for one recording or log at a time. The file is locked while it is open, and the system unlocks it even if the program is killed.
/// The lock belongs to the file, not to its name, so a link refers to the same lock. A process forked from the writer cannot write to it.
///
/// Pipes, terminals and other devices are not locked, and neither are files on a file system without locks.
#[derive(Debug)]
pub struct ExclusiveFile {
    file: File,
    path: PathBuf,
    /// Whether this is a regular file, not a pipe, a terminal or another device.
    is_regular: bool,
    process: Process,
}

impl ExclusiveFile {
    /// Opens the file at `path` and truncates it; creates it if it does not exist.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] if another writer has locked the file, which is then left unchanged.
    /// [`io::ErrorKind::PermissionDenied`] for a link, a file, a pipe or a device of another user who is not root. Otherwise the system's
    /// error.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, |file| file.set_len(0))
    }

    /// As [`create`](Self::create), but a file with contents is an error.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the file is not empty; otherwise as for `create`.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        Self::open(path, |file| match file.metadata()?.len() {
            0 => Ok(()),
            _ => {
                let why = "already exists; name another file, or remove it";
                Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
            }
        })
    }

    /// Opens and locks a file. `prepare` is called with a regular file that is locked and has the name.
    fn open(path: &Path, prepare: impl Fn(&File) -> io::Result<()>) -> io::Result<Self> {
        for _ in 0..TRIES {
            // Truncate only after locking: the file may belong to another writer.
            let file = vramscope_files::open_log(path)?;
            let is_regular = file.metadata()?.is_file();
            let this = Self { file, path: path.to_owned(), is_regular, process: Process::this() };
            if !is_regular {
                return Ok(this);
            }
            match this.file.try_lock() {
                Err(TryLockError::WouldBlock) => break,
                // Some file systems have no locks. There, readers of recordings still detect data from two writers.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // Another file may have taken the name before this one was locked.
            if this.has_its_name() {
                prepare(&this.file)?;
                return Ok(this);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Whether the calling process opened the file, rather than a process that it was forked from.
    pub fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    /// Whether the path still names this file, so that written data is not lost.
    pub fn has_its_name(&self) -> bool {
        !self.is_regular || is_at(&self.file, &self.path)
    }

    /// Checks that the path still names this file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it does not.
    pub fn check_name(&self) -> io::Result<()> {
        let why = "the file was removed or replaced while it was written";
        if self.has_its_name() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::NotFound, why)) }
    }

    /// A handle with which another thread can write the file's data to the disk.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn to_sync(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is a regular file, not a pipe, a terminal or another device.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Takes the name of `former`, which is then named `before`. Both names and that of this file are in one folder. The locks stay with
    /// their files. Where the file system has hard links, the name is that of a whole file at every moment.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the path no longer names `former`; otherwise the system's error. Nothing has changed then. Also
    /// [`io::ErrorKind::NotFound`] if another user replaced this file before it took the name.
    pub fn take_name(&mut self, former: &mut Self, before: &Path) -> io::Result<()> {
        former.check_name()?;
        let name = |path: &Path| path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        vramscope_files::rotate_log(&former.path, &name(&self.path), &name(before))?;
        self.path = std::mem::replace(&mut former.path, before.to_owned());
        self.check_name()
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
            return Err(io::Error::other(
                "the file belongs to the parent process; a forked process cannot write to it",
            ));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ExclusiveFile {
    fn drop(&mut self) {
        // A forked process shares the lock, so closing the file alone keeps the lock while that process lives. The forked process itself
        // must not release the lock.
        if self.process.is_this() {
            self.file.unlock().ok();
        }
    }
}
