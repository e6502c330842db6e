//! Folders as file descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use super::{Entry, Place, TRIES, denied, not_regular, one_name, parent, split};

/// Maximum number of links in the resolution of a path, as on Linux.
const MAX_LINKS: usize = 40;

/// Interval of checks whether a pipe has a reader.
const LOOK: Duration = Duration::from_millis(10);

/// Flags for opening a pipe, a device or a descriptor, without waiting for a reader.
const IN_PLACE: OFlags = OFlags::WRONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open folder. Operations keep using this folder even if its path now leads to another one.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
}

/// Owner and mode of an open file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    owner: u32,
    mode: u32,
}

impl Access {
    /// Returns the owner and mode of an open file.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&rustix::fs::fstat(file)?))
    }

    /// Whether the user with this number is the owner.
    pub fn is_of(&self, user: u32) -> bool {
        self.owner == user
    }

    /// Whether this process's effective user is the owner.
    pub fn is_mine(&self) -> bool {
        self.owner == user()
    }

    /// Whether this process's effective user or root is the owner.
    pub fn is_mine_or_roots(&self) -> bool {
        self.owner == 0 || self.is_mine()
    }

    /// Whether the mode lets the group or all users write.
    pub fn others_can_write(&self) -> bool {
        self.mode & 0o022 != 0
    }

    /// Whether this process's effective user is the owner and the mode gives no rights to other users.
    pub fn is_private(&self) -> bool {
        self.is_mine() && self.mode & 0o077 == 0
    }

    /// Whether other users can remove, rename or replace this user's files in this folder. In a sticky folder such as `/tmp` they
    /// cannot; the folder's owner is trusted.
    pub fn others_can_replace(&self) -> bool {
        let is_sticky = self.mode & 0o1000 != 0;
        !is_sticky && (self.others_can_write() || !self.is_mine_or_roots())
    }
}

impl From<&Stat> for Access {
    fn from(stat: &Stat) -> Self {
        #[allow(clippy::unnecessary_cast, reason = "16 bits on Apple's systems")]
        let mode = stat.st_mode as u32;
        Self { owner: stat.st_uid, mode }
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens a folder by its path. Follows links.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if `path` is not a folder; otherwise errors of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::at(rustix::fs::CWD, path, OFlags::empty())
    }

    /// Opens a folder by its path. The last name of the path must not be a link.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and an error if the last name is a link.
    pub fn open_no_follow(path: &Path) -> io::Result<Self> {
        Self::at(rustix::fs::CWD, path, OFlags::NOFOLLOW)
    }

    /// Returns a second handle of the same folder.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    fn at(at: impl AsFd, path: &Path, more: OFlags) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        let fd = match rustix::fs::openat(&at, path, flags, Mode::empty()) {
            // The user may have the right to write to a folder but not to list it.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Err(Errno::ACCESS) => rustix::fs::openat(&at, path, flags | OFlags::PATH, Mode::empty()),
            opened => opened,
        };
        Ok(Self { fd: fd? })
    }

    /// Returns the owner and mode of the folder.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn access(&self) -> io::Result<Access> {
        Ok(Access::from(&rustix::fs::fstat(&self.fd)?))
    }

    /// Opens a subfolder. Does not follow a link.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotADirectory`] if `name` is not a folder or is a link; otherwise errors of the operating system.
    pub fn subdir(&self, name: &OsStr) -> io::Result<Self> {
        Self::at(&self.fd, Path::new(one_name(name)?), OFlags::NOFOLLOW)
    }

    /// Opens a subfolder. If it does not exist, creates it with `mode` minus the umask. An existing subfolder keeps its mode and owner:
    /// check its [`access`](Self::access).
    ///
    /// # Errors
    /// As for [`subdir`](Self::subdir).
    pub fn make_subdir(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.fd, one_name(name)?, mode_of(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.subdir(name),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates a subfolder with `mode` minus the umask, and opens it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name exists, also as a link; [`io::ErrorKind::PermissionDenied`] if another user replaced
    /// the new folder; otherwise errors of the operating system.
    pub fn new_subdir(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, one_name(name)?, mode_of(mode))?;
        let dir = self.subdir(name)?;
        // Another folder of this user may have its name. Some file systems show all files as files of root.
        let is_new = dir.access()?.is_mine_or_roots() && dir.names()?.is_empty();
        if is_new { Ok(dir) } else { Err(replaced()) }
    }

    /// Opens the regular file `name` for reading. Does not follow links and does not wait for the writer of a pipe.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `name` is not a regular file; [`io::ErrorKind::FilesystemLoop`] if it is a link; otherwise
    /// errors of the operating system.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.open_regular(name, flags)
    }

    /// Opens the regular file `name` for writing and keeps its contents, or creates it with mode 666 minus the umask. Does not follow
    /// links.
    pub(crate) fn open_or_create(&self, name: &OsStr) -> io::Result<File> {
        for _ in 0..TRIES {
            match self.open_own(name, OFlags::WRONLY) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            match self.create_new(name, 0o666) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Opens the regular file `name` for reading and appending. Does not follow links.
    pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<File> {
        self.open_own(name, OFlags::RDWR | OFlags::APPEND)
    }

    /// Opens the regular file `name` to write in place. Refuses a file of another user who is not root: its owner could read and change
    /// what is written.
    fn open_own(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let more = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open_regular(name, flags | more)?;
        let access = Access::of(&file)?;
        if access.is_mine_or_roots() {
            return Ok(file);
        }
        Err(denied(format!("belongs to user {}; name another file, or remove it", access.owner)))
    }

    /// Opens the pipe or device `name` for writing. Waits for the reader of a pipe, as a shell does.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if it belongs to another user who is not root; otherwise errors of the operating system.
    pub(crate) fn open_special(&self, name: &OsStr) -> io::Result<File> {
        loop {
            let found =
                refuse_foreign(rustix::fs::statat(&self.fd, one_name(name)?, AtFlags::SYMLINK_NOFOLLOW)?)?;
            match rustix::fs::openat(&self.fd, name, IN_PLACE | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NXIO) if kind(&found).is_fifo() => std::thread::sleep(LOOK),
                opened => {
                    let fd = opened?;
                    // Another file may have taken the name.
                    let opened = refuse_foreign(rustix::fs::fstat(&fd)?)?;
                    return if entry(&opened) == Entry::Special { waiting(fd) } else { Err(replaced()) };
                }
            }
        }
    }

    fn open_regular(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let fd = rustix::fs::openat(&self.fd, one_name(name)?, flags, Mode::empty())?;
        if !is_regular(&rustix::fs::fstat(&fd)?) {
            return Err(not_regular());
        }
        Ok(File::from(fd))
    }

    /// Creates the file `name` with `mode` minus the umask, open for writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name exists, also as a link; otherwise errors of the operating system.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.fd, one_name(name)?, flags, mode_of(mode))?))
    }

    /// Renames a file in this folder. Replaces a file or a link with the name `to`; the link's target is unchanged.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, one_name(from)?, &self.fd, one_name(to)?)?)
    }

    /// Gives the file `from` a second name. A link gets a second name, not its target.
    pub(crate) fn add_name(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.fd, one_name(from)?, &self.fd, one_name(to)?, AtFlags::empty())?)
    }

    /// Moves a file or a subfolder to the folder `to` on the same disk. The name stays the same. Replaces an entry of that name, unless
    /// it is a folder that is not empty.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn rename_into(&self, name: &OsStr, to: &Self) -> io::Result<()> {
        let name = one_name(name)?;
        Ok(rustix::fs::renameat(&self.fd, name, &to.fd, name)?)
    }

    /// Checks that `name` is this open file or folder, if other users can replace files in this folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if it is another one; otherwise errors of the operating system.
    pub fn check_is(&self, name: &OsStr, open: impl AsFd) -> io::Result<()> {
        if !self.access()?.others_can_replace() {
            return Ok(());
        }
        let there = rustix::fs::statat(&self.fd, one_name(name)?, AtFlags::SYMLINK_NOFOLLOW);
        let is_same =
            there.is_ok_and(|there| rustix::fs::fstat(open).is_ok_and(|open| pair(&there) == pair(&open)));
        if is_same { Ok(()) } else { Err(replaced()) }
    }

    /// Removes the empty folder `name`.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn remove_subdir(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, one_name(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Removes a file or a link in this folder. The link's target is unchanged.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, one_name(name)?, AtFlags::empty())?)
    }

    /// Returns the names of all entries, in no particular order.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Syncs the folder's entries to disk. Some file systems do not support this.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Returns the kind of `name`; of a link itself, not of its target.
    pub(crate) fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        match rustix::fs::statat(&self.fd, one_name(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(Entry::Absent),
            stat => Ok(entry(&stat?)),
        }
    }

    /// Opens the descriptor with the number `name` for writing, if this is a process's folder of descriptors, such as the one of
    /// `/dev/stdout` and `/dev/fd/3`. Data is added at the end of a regular file.
    fn descriptor(&self, name: &OsStr) -> io::Result<Option<File>> {
        let is_number = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        if !is_number || !self.has_descriptors()? {
            return Ok(None);
        }
        if identity(Path::new("/dev/fd")) == Some(pair(&rustix::fs::fstat(&self.fd)?)) {
            // The same open file, with its position.
            let own = match name.as_encoded_bytes() {
                b"1" => Some(io::stdout().as_fd().try_clone_to_owned()?),
                b"2" => Some(io::stderr().as_fd().try_clone_to_owned()?),
                _ => None,
            };
            if let Some(own) = own {
                return Ok(Some(File::from(own)));
            }
        }
        waiting(rustix::fs::openat(&self.fd, name, IN_PLACE | OFlags::APPEND, Mode::empty())?).map(Some)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn has_descriptors(&self) -> io::Result<bool> {
        Ok(rustix::fs::fstatfs(&self.fd)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn has_descriptors(&self) -> io::Result<bool> {
        Ok(identity(Path::new("/dev/fd")) == Some(pair(&rustix::fs::fstat(&self.fd)?)))
    }

    /// Returns the mode of `name`, if it is a regular file that this user owns.
    pub(crate) fn own_mode(&self, name: &OsStr) -> Option<u32> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let access = Access::from(&stat);
        (is_regular(&stat) && access.is_mine()).then_some(access.mode & 0o777)
    }

    /// Returns the target of the link `name`, or `None` if `name` is not a link.
    fn link(&self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        let Some((stat, target)) = self.read_link(name)? else { return Ok(None) };
        let access = Access::from(&stat);
        if !access.is_mine_or_roots() {
            let owner = access.owner;
            return Err(denied(format!(
                "is a link owned by user {owner}; links of other users are not followed"
            )));
        }
        Ok(Some(target))
    }

    /// Returns the metadata and target of the link `name`. Both come from one open link, so another process cannot replace it in
    /// between.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_link(&self, name: &OsStr) -> io::Result<Option<(Stat, PathBuf)>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&link)?;
        if !is_link(&stat) {
            return Ok(None);
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
        Ok(Some((stat, OsString::from_vec(target.into_bytes()).into())))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn read_link(&self, name: &OsStr) -> io::Result<Option<(Stat, PathBuf)>> {
        let stat = match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        if !is_link(&stat) {
            return Ok(None);
        }
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(Some((stat, OsString::from_vec(target.into_bytes()).into())))
    }
}

/// Resolves the links in `path`.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if the last name is a link owned by another user who is not root.
pub(crate) fn locate(path: &Path) -> io::Result<Place> {
    let (mut dir, mut name) = parent(path)?;
    for _ in 0..=MAX_LINKS {
        let target = dir.link(&name)?;
        if let Some(open) = dir.descriptor(&name)? {
            return Ok(Place::Descriptor(open));
        }
        let Some(target) = target else { return Ok(Place::Name(dir, name)) };
        let (folder, next) = split(&target)?;
        dir = Dir::at(&dir.fd, folder, OFlags::empty())?;
        name = next.to_owned();
    }
    Err(Errno::LOOP.into())
}

/// Returns device and inode of the file at `path`.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    rustix::fs::stat(path).ok().as_ref().map(pair)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_regular(stat: &Stat) -> bool {
    kind(stat).is_file()
}

fn is_link(stat: &Stat) -> bool {
    kind(stat).is_symlink()
}

fn entry(stat: &Stat) -> Entry {
    match kind(stat) {
        FileType::RegularFile => Entry::File,
        FileType::Directory => Entry::Folder,
        FileType::Symlink => Entry::Link,
        _ => Entry::Special,
    }
}

/// Returns the error for special files of another user who is not root.
fn refuse_foreign(stat: Stat) -> io::Result<Stat> {
    let access = Access::from(&stat);
    if access.is_mine_or_roots() || entry(&stat) != Entry::Special {
        return Ok(stat);
    }
    let what = match kind(&stat) {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        _ => "device",
    };
    let owner = access.owner;
    Err(denied(format!(
        "is a {what} owned by user {owner}; pipes and devices of other users are not written to"
    )))
}

fn replaced() -> io::Error {
    denied(
        "another user replaced it in this folder; name a file in a folder that only you can write to"
            .to_owned(),
    )
}

/// A file that was opened without waiting; writing to it waits from now on.
fn waiting(fd: OwnedFd) -> io::Result<File> {
    rustix::fs::fcntl_setfl(&fd, rustix::fs::fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
    Ok(File::from(fd))
}

#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "their types differ between systems")]
fn pair(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "16 bits on Apple's systems")]
fn mode_of(mode: u32) -> Mode {
    Mode::from_raw_mode(mode as RawMode)
}
