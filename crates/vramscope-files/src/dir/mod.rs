//! Open folders, and the files in them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path};

#[cfg(not(unix))]
mod plain;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use plain::{Access, Dir};
#[cfg(not(unix))]
pub(crate) use plain::{identity, locate};
#[cfg(unix)]
pub use unix::{Access, Dir};
#[cfg(unix)]
pub(crate) use unix::{identity, locate};

/// Attempts to find an unused name for a new file. A name has 64 random bits, so a second attempt is very rare.
const TRIES: usize = 16;

impl Dir {
    /// Reads the regular file `name`, opened by [`open_file`](Self::open_file).
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`] if the file has more than `max_bytes` bytes; otherwise errors of `open_file` and of reading.
    pub fn read_file(&self, name: &OsStr, max_bytes: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name)?;
        if file.metadata()?.len() > max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        // The file may have grown since the check.
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max_bytes { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }

    /// Creates a file with `bytes` that only this user can read and write.
    ///
    /// # Errors
    /// Errors of [`create_new`](Self::create_new) and of writing.
    pub fn write_new(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        self.create_new(name, 0o600)?.write_all(bytes)
    }

    /// Creates a file with an unpredictable name: `prefix`, 16 hexadecimal digits, `suffix`. Returns the name and the file, open for
    /// writing. `mode` is as in [`create_new`](Self::create_new).
    ///
    /// # Errors
    /// As for `create_new`.
    pub fn create_unpredictable(
        &self,
        prefix: &str,
        suffix: &str,
        mode: u32,
    ) -> io::Result<(OsString, File)> {
        for _ in 0..TRIES {
            let name: OsString = format!("{prefix}{:016x}{suffix}", random()).into();
            match self.create_new(&name, mode) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (name, file)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Creates a folder that only this user can access, with an unpredictable name: `prefix` and 16 hexadecimal digits. Returns the
    /// name and the folder.
    ///
    /// # Errors
    /// As for [`new_subdir`](Self::new_subdir).
    pub fn new_unpredictable_subdir(&self, prefix: &str) -> io::Result<(OsString, Self)> {
        let name: OsString = format!("{prefix}{:016x}", random()).into();
        let dir = self.new_subdir(&name, 0o700)?;
        Ok((name, dir))
    }

    /// Removes all files and subfolders of this folder. Does not follow links.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn remove_contents(&self) -> io::Result<()> {
        for name in self.names()? {
            if let Ok(subdir) = self.subdir(&name) {
                subdir.remove_contents()?;
                self.remove_subdir(&name)?;
            } else {
                self.remove_file(&name)?;
            }
        }
        Ok(())
    }
}

/// The end of a path whose links were resolved.
#[derive(Debug)]
pub(crate) enum Place {
    /// A name in a folder. A file with this name may not exist.
    Name(Dir, OsString),
    /// An open file of a process, such as standard output for `/dev/stdout`.
    #[cfg_attr(not(unix), expect(dead_code, reason = "paths of descriptors are those of Unix"))]
    Descriptor(File),
}

/// The kind of a name in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Absent,
    File,
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a device or a socket.
    Special,
}

/// 64 unpredictable bits: the standard library seeds each hasher with random numbers of the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Rejects a name that leads out of its folder.
fn one_name(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of one file")),
    }
}

/// Splits a path into its folder and its last name.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), name))
}

/// Opens the folder of a path. Returns it with the path's last name.
pub(crate) fn parent(path: &Path) -> io::Result<(Dir, OsString)> {
    let (folder, name) = split(path)?;
    Ok((Dir::open(folder)?, name.to_owned()))
}

/// Returns the error for files of other users.
pub(crate) fn denied(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

/// Returns the error for pipes, devices, folders and other special files.
pub(crate) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
