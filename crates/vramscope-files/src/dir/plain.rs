//! Folders as paths, for systems whose users do not share folders for temporary files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{Entry, Place, not_regular, one_name, parent};

/// A folder.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
}

/// Access rights of a file or folder. This system does not report them; the folder is assumed to be private to this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access;

impl Access {
    /// Returns the access rights of an open file.
    ///
    /// # Errors
    /// None on this system.
    pub fn of(_file: &File) -> io::Result<Self> {
        Ok(Self)
    }

    /// True on this system.
    pub fn is_mine(&self) -> bool {
        true
    }

    /// True on this system.
    pub fn is_mine_or_roots(&self) -> bool {
        true
    }

    /// False on this system.
    pub fn others_can_write(&self) -> bool {
        false
    }

    /// True on this system.
    pub fn is_private(&self) -> bool {
        true
    }

    /// False on this system.
    pub fn others_can_replace(&self) -> bool {
        false
    }
}

impl Dir {
    /// Opens a folder by its path. Follows links.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if `path` is not a folder; otherwise errors of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = fs::metadata(path)?;
        if kind.is_dir() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Opens a folder by its path. The last name of the path must not be a link.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and an error if the last name is a link.
    pub fn open_no_follow(path: &Path) -> io::Result<Self> {
        let kind = fs::symlink_metadata(path)?;
        if kind.is_dir() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Returns a second handle of the same folder.
    ///
    /// # Errors
    /// None on this system.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone() })
    }

    /// Returns the access rights of the folder.
    ///
    /// # Errors
    /// None on this system.
    pub fn access(&self) -> io::Result<Access> {
        Ok(Access)
    }

    /// Opens a subfolder. Does not follow a link.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if `name` is not a folder or is a link; otherwise errors of the operating system.
    pub fn subdir(&self, name: &OsStr) -> io::Result<Self> {
        Self::open_no_follow(&self.path.join(one_name(name)?))
    }

    /// Opens a subfolder, and creates it if it does not exist.
    ///
    /// # Errors
    /// As for [`subdir`](Self::subdir).
    pub fn make_subdir(&self, name: &OsStr, _mode: u32) -> io::Result<Self> {
        match fs::create_dir(self.path.join(one_name(name)?)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => self.subdir(name),
        }
    }

    /// Creates a subfolder and opens it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name exists; otherwise errors of the operating system.
    pub fn new_subdir(&self, name: &OsStr, _mode: u32) -> io::Result<Self> {
        fs::create_dir(self.path.join(one_name(name)?))?;
        self.subdir(name)
    }

    /// Opens the regular file `name` for reading. Does not follow links.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `name` is not a regular file; otherwise errors of the operating system.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.path.join(one_name(name)?);
        if fs::symlink_metadata(&path)?.is_file() { File::open(path) } else { Err(not_regular()) }
    }

    /// Opens the file `name` for writing and keeps its contents, or creates it.
    pub(crate) fn open_or_create(&self, name: &OsStr) -> io::Result<File> {
        File::options().write(true).create(true).truncate(false).open(self.path.join(one_name(name)?))
    }

    /// Opens the regular file `name` for reading and appending.
    pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<File> {
        File::options().read(true).append(true).open(self.path.join(one_name(name)?))
    }

    /// Opens the pipe or device `name` for writing.
    pub(crate) fn open_special(&self, name: &OsStr) -> io::Result<File> {
        File::options().write(true).open(self.path.join(one_name(name)?))
    }

    /// Creates the file `name`, open for writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name exists; otherwise errors of the operating system.
    pub fn create_new(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        File::create_new(self.path.join(one_name(name)?))
    }

    /// Renames a file in this folder. Replaces a file with the name `to`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(one_name(from)?), self.path.join(one_name(to)?))
    }

    /// Gives the file `from` a second name.
    pub(crate) fn add_name(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::hard_link(self.path.join(one_name(from)?), self.path.join(one_name(to)?))
    }

    /// Moves a file or a subfolder to the folder `to` on the same disk. The name stays the same.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn rename_into(&self, name: &OsStr, to: &Self) -> io::Result<()> {
        let name = one_name(name)?;
        fs::rename(self.path.join(name), to.path.join(name))
    }

    /// Does nothing on this system: other users cannot replace files.
    ///
    /// # Errors
    /// None on this system.
    pub fn check_is<T>(&self, _name: &OsStr, _open: T) -> io::Result<()> {
        Ok(())
    }

    /// Removes the empty folder `name`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn remove_subdir(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.path.join(one_name(name)?))
    }

    /// Removes a file or a link in this folder. The link's target is unchanged.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(one_name(name)?))
    }

    /// Returns the names of all entries, in no particular order.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the kind of `name`; of a link itself, not of its target.
    pub(crate) fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        match fs::symlink_metadata(self.path.join(one_name(name)?)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Entry::Absent),
            Err(e) => Err(e),
            Ok(found) if found.is_dir() => Ok(Entry::Folder),
            Ok(found) if found.is_file() => Ok(Entry::File),
            Ok(found) if found.is_symlink() => Ok(Entry::Link),
            Ok(_) => Ok(Entry::Special),
        }
    }

    pub(crate) fn own_mode(&self, _name: &OsStr) -> Option<u32> {
        None
    }
}

/// Resolves the links in `path`.
pub(crate) fn locate(path: &Path) -> io::Result<Place> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    parent(&path).map(|(dir, name)| Place::Name(dir, name))
}

/// Returns the canonical path of the file at `path`.
pub(crate) fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
