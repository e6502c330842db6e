//! Atomic replacement of a file: the old file stays until the new one is complete and on disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Dir;
use crate::dir::{is_special, locate, parent};

/// Temporary name of an unfinished file: `PREFIX`, 16 hexadecimal digits, `SUFFIX`.
const PREFIX: &str = ".vramscope-";
const SUFFIX: &str = ".part";

/// The destination of output to a path.
#[derive(Debug)]
pub enum Target {
    /// A regular file, which may not exist yet.
    Replacement(Replacement),
    /// A pipe, a device or a file without a name, such as `/dev/stdout`. It is written to in place.
    Special(File),
}

impl Target {
    /// Opens `path` for writing. If `path` is a link to a file, that file is replaced. If it is a dangling link, the link is replaced.
    ///
    /// # Errors
    /// - [`io::ErrorKind::IsADirectory`] for a folder
    /// - [`io::ErrorKind::NotFound`] if the parent folder does not exist
    /// - [`io::ErrorKind::PermissionDenied`] if `path` is a link owned by another user who is not root
    /// - otherwise errors of the operating system
    pub fn open(path: &Path) -> io::Result<Self> {
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A dangling link is replaced.
        let (dir, name) = if before.is_some() { locate(path)? } else { parent(path)? };
        if is_special(path, &dir, &name) {
            return Ok(Self::Special(File::options().write(true).open(path)?));
        }
        Ok(Self::Replacement(Replacement::at(dir, name)?))
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
    /// Errors of the operating system. The old file is then unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        // After a crash of the machine, either the old file or the complete new file exists.
        self.file.sync_all()?;
        self.part.dir.rename(&self.part.name, &self.becomes)?;
        self.is_finished = true;
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
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
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
