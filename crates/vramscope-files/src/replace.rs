//! Atomic replacement of a file: the old file stays until the new one is complete and on disk.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Dir;
use crate::dir::{Entry, Place, locate, parent};

/// Temporary name of an unfinished file: `PREFIX`, 16 hexadecimal digits, `SUFFIX`.
const PREFIX: &str = ".vramscope-";
const SUFFIX: &str = ".part";

/// The destination of output to a path, before a file is created.
#[derive(Debug)]
pub enum Destination {
    /// The name of a regular file, which may not exist yet.
    File(Dir, OsString),
    /// A pipe, a device or an open file of a process, such as `/dev/stdout`. It is written to in place.
    Special(File),
}

impl Destination {
    /// Finds the destination of output to `path`. Follows links to files; a dangling link is a destination itself. Waits for the reader of
    /// a pipe.
    ///
    /// # Errors
    /// - [`io::ErrorKind::IsADirectory`] for a folder
    /// - [`io::ErrorKind::NotFound`] if the parent folder does not exist
    /// - [`io::ErrorKind::PermissionDenied`] if `path` is a link, a pipe or a device of another user who is not root
    /// - otherwise errors of the operating system
    pub fn of(path: &Path) -> io::Result<Self> {
        let (dir, name) = match locate(path) {
            Ok(Place::Descriptor(open)) => return Ok(Self::Special(open)),
            Ok(Place::Name(dir, name)) => match dir.entry(&name)? {
                Entry::Folder => return Err(io::ErrorKind::IsADirectory.into()),
                Entry::Special => return dir.open_special(&name).map(Self::Special),
                Entry::File | Entry::Link => (dir, name),
                Entry::Absent => parent(path)?,
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => parent(path)?,
            Err(e) => return Err(e),
        };
        Ok(Self::File(dir, name))
    }
}

/// The destination of output to a path.
#[derive(Debug)]
pub enum Target {
    /// A regular file, which may not exist yet.
    Replacement(Replacement),
    /// A pipe, a device or an open file of a process, such as `/dev/stdout`. It is written to in place.
    Special(File),
}

impl Target {
    /// Opens `path` for writing. If `path` is a link to a file, that file is replaced. If it is a dangling link, the link is replaced.
    ///
    /// # Errors
    /// As for [`Destination::of`].
    pub fn open(path: &Path) -> io::Result<Self> {
        match Destination::of(path)? {
            Destination::File(dir, name) => Replacement::at(dir, name).map(Self::Replacement),
            Destination::Special(open) => Ok(Self::Special(open)),
        }
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        match self {
            Self::Replacement(new) => new.file(),
            Self::Special(out) => out,
        }
    }

    /// Syncs the new file to disk and replaces the old one.
    ///
    /// # Errors
    /// Errors of the operating system. The old file is then unchanged.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Replacement(new) => new.finish(),
            Self::Special(_) => Ok(()),
        }
    }
}

/// A new file next to the file that it will replace. If it is dropped before [`finish`](Self::finish), the new file is removed and the
/// old one is unchanged.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    is_finished: bool,
    part: Unfinished,
    becomes: OsString,
}

/// The temporary name of an unfinished file.
#[derive(Debug, Clone)]
pub struct Unfinished {
    dir: Arc<Dir>,
    name: OsString,
}

impl PartialEq for Unfinished {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dir, &other.dir) && self.name == other.name
    }
}

impl Unfinished {
    /// Removes the unfinished file, if it still exists.
    pub fn remove(&self) {
        self.dir.remove_file(&self.name).ok();
    }
}

impl Replacement {
    /// Creates a file that will be renamed to `becomes` in `dir`. It gets the mode of the old file if this user owns that file,
    /// otherwise mode 666 minus the umask.
    ///
    /// # Errors
    /// Errors of the operating system when the file cannot be created.
    pub fn at(dir: Dir, becomes: OsString) -> io::Result<Self> {
        let (name, file) = dir.create_unpredictable(PREFIX, SUFFIX, 0o666)?;
        #[cfg_attr(not(unix), expect(unused_variables, reason = "modes are those of Unix"))]
        let mode = dir.own_mode(&becomes);
        let part = Unfinished { dir: Arc::new(dir), name };
        let this = Self { file, is_finished: false, part, becomes };
        #[cfg(unix)]
        if let Some(mode) = mode {
            this.file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        }
        Ok(this)
    }

    /// Returns the new file, open for writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the temporary name, for signal handlers that remove the file.
    pub fn unfinished(&self) -> Unfinished {
        self.part.clone()
    }

    /// Syncs the new file to disk and replaces the old one.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if another user replaced the new file; otherwise errors of the operating system. The old file
    /// is then unchanged, unless that user replaced it, too.
    pub fn finish(mut self) -> io::Result<()> {
        // After a crash of the machine, either the old file or the complete new file exists.
        self.file.sync_all()?;
        self.part.dir.check_is(&self.part.name, &self.file)?;
        self.part.dir.rename(&self.part.name, &self.becomes)?;
        self.is_finished = true;
        // The file may have been replaced between the check and the rename.
        self.part.dir.check_is(&self.becomes, &self.file)?;
        // Sync the rename, too. Some file systems do not support this.
        self.part.dir.sync().ok();
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_finished {
            self.part.remove();
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
