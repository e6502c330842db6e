//! Folders as paths, on systems whose users do not share folders for temporary files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{not_regular, one_name, parent};

/// A folder.
#[derive(Debug)]
pub struct Dir {
    path: PathBuf,
}

/// Who may do what with a file or folder; not known on this system, and taken to be this user alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access;

impl Access {
    /// That of an open file.
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
    /// Opens a folder that the user named: links that lead to it are followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] for what is no folder; else the system's own.
    pub fn open(path: &Path) -> io::Result<Self> {
        let kind = fs::metadata(path)?;
        if kind.is_dir() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Opens a folder whose last name must not be a link.
    ///
    /// # Errors
    /// As for [`open`](Self::open); for a link, too.
    pub fn open_no_follow(path: &Path) -> io::Result<Self> {
        let kind = fs::symlink_metadata(path)?;
        if kind.is_dir() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Who may do what with the folder.
    ///
    /// # Errors
    /// None on this system.
    pub fn access(&self) -> io::Result<Access> {
        Ok(Access)
    }

    /// Opens a folder in this one. A link is not followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] for what is no folder, and for a link; else the system's own.
    pub fn subdir(&self, name: &OsStr) -> io::Result<Self> {
        Self::open_no_follow(&self.path.join(one_name(name)?))
    }

    /// Opens a folder in this one, and creates it where there is none.
    ///
    /// # Errors
    /// As for [`subdir`](Self::subdir).
    pub fn make_subdir(&self, name: &OsStr, _mode: u32) -> io::Result<Self> {
        match fs::create_dir(self.path.join(one_name(name)?)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => self.subdir(name),
        }
    }

    /// Creates a folder in this one, and opens it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where the name is taken; else the system's own.
    pub fn new_subdir(&self, name: &OsStr, _mode: u32) -> io::Result<Self> {
        fs::create_dir(self.path.join(one_name(name)?))?;
        self.subdir(name)
    }

    /// Opens the regular file `name` for reading. Links are not followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for what is no regular file; else the system's own.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.path.join(one_name(name)?);
        if fs::symlink_metadata(&path)?.is_file() { File::open(path) } else { Err(not_regular()) }
    }

    /// Opens the file `name` for writing, as it is, or creates it.
    pub(crate) fn open_or_create(&self, name: &OsStr) -> io::Result<File> {
        File::options().write(true).create(true).truncate(false).open(self.path.join(one_name(name)?))
    }

    /// Creates the file `name`, open for writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where the name is taken; else the system's own.
    pub fn create_new(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        File::create_new(self.path.join(one_name(name)?))
    }

    /// Renames a file in this folder. What has the name `to` is replaced.
    ///
    /// # Errors
    /// The system's own.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(one_name(from)?), self.path.join(one_name(to)?))
    }

    /// Moves a file or folder of this folder into another on the same disk, under its name.
    ///
    /// # Errors
    /// The system's own.
    pub fn rename_into(&self, name: &OsStr, to: &Self) -> io::Result<()> {
        let name = one_name(name)?;
        fs::rename(self.path.join(name), to.path.join(name))
    }

    /// Removes a file in this folder; of a link, the link.
    ///
    /// # Errors
    /// The system's own.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(one_name(name)?))
    }

    /// Names of all entries, in no order.
    ///
    /// # Errors
    /// The system's own.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn identity(&self, name: &OsStr) -> Option<PathBuf> {
        identity(&self.path.join(name)).filter(|path| path.is_file())
    }

    pub(crate) fn own_mode(&self, _name: &OsStr) -> Option<u32> {
        None
    }
}

/// The folder and the name that `path` leads to, through links; of the name there need be no file.
pub(crate) fn locate(path: &Path) -> io::Result<(Dir, OsString)> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    parent(&path)
}

/// The one path of what `path` leads to.
pub(crate) fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
