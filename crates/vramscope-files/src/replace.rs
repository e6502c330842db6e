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
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, lchown, symlink};
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn replacement(path: &Path) -> Replacement {
        match Target::open(path).unwrap() {
            Target::Replacement(new) => new,
            Target::Special(_) => panic!("{} is not a special file", path.display()),
        }
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_former_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let new = replacement(&path);
        new.file().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(new);
        assert_eq!(names(folder.path()), ["out"]);
        let new = replacement(&path);
        new.file().write_all(b"new").unwrap();
        new.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_link_that_is_planted_while_a_file_is_written_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["out", "other"].map(|name| folder.path().join(name));
        fs::write(&other, "untouched").unwrap();
        let new = replacement(&path);
        new.file().write_all(b"new").unwrap();
        symlink(&other, &path).unwrap();
        new.finish().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"untouched");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_link_of_the_user_is_followed_and_its_target_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        let [link, file] = ["link", "deep/file"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        symlink("deep/file", &link).unwrap();
        replacement(&link).finish().unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(&folder.path().join("deep")), ["file"]);
    }

    #[test]
    fn pipes_and_devices_are_written_to_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let pipe: PathBuf = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                let mut text = String::new();
                File::open(&pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            });
            match Target::open(&pipe).unwrap() {
                Target::Special(mut out) => out.write_all(b"text").unwrap(),
                Target::Replacement(_) => panic!("a pipe is not a regular file"),
            }
            assert_eq!(reader.join().unwrap(), "text");
        });
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(matches!(Target::open(Path::new("/dev/null")).unwrap(), Target::Special(_)));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_pipe_is_opened_when_its_reader_comes() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let Target::Special(mut out) = Target::open(&pipe).unwrap() else { panic!("a pipe") };
                // More than a pipe holds: writes wait for the reader.
                out.write_all(&[b'x'; 1 << 20]).unwrap();
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!writer.is_finished());
            assert_eq!(fs::read(&pipe).unwrap().len(), 1 << 20);
            writer.join().unwrap();
        });
    }

    #[test]
    fn pipes_of_other_users_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        symlink("pipe", &link).unwrap();
        // Only root can change the owner of a file.
        if lchown(&pipe, Some(12345), None).is_err() {
            return;
        }
        for path in [&pipe, &link] {
            let target = Target::open(path).unwrap_err();
            assert_eq!(target.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(
                target.to_string(),
                "is a named pipe owned by user 12345; pipes and devices of other users are not written to"
            );
            assert_eq!(crate::open_log(path).unwrap_err().to_string(), target.to_string());
        }
    }

    /// In such a folder, all users can rename all files.
    #[test]
    fn a_file_that_is_replaced_before_its_end_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let [path, other, moved] = ["out", "other", "moved"].map(|name| folder.path().join(name));
        for is_link in [true, false] {
            fs::write(&path, "old").unwrap();
            fs::write(&other, "untouched").unwrap();
            let new = replacement(&path);
            new.file().write_all(b"new").unwrap();
            let part = folder.path().join(&new.part.name);
            fs::rename(&part, &moved).unwrap();
            if is_link {
                symlink(&other, &part).unwrap();
            } else {
                fs::write(&part, "wrong").unwrap();
            }
            assert_eq!(new.finish().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(fs::read(&path).unwrap(), b"old");
            assert_eq!(fs::read(&other).unwrap(), b"untouched");
            fs::remove_file(&moved).unwrap();
        }
        let new = replacement(&path);
        new.file().write_all(b"new").unwrap();
        new.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn one_file_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let [file, hard, soft, other] =
            ["file", "hard", "soft", "other"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&file, &hard).unwrap();
        symlink("file", &soft).unwrap();
        assert!(crate::is_same_file(&file, &hard) && crate::is_same_file(&soft, &file));
        assert!(!crate::is_same_file(&file, &other));
        assert!(!crate::is_same_file(&folder.path().join("none"), &folder.path().join("none")));
    }
}
