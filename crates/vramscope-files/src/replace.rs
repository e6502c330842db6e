//! Replacing a file at once: it is as it was until the new one is whole and on the disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::Dir;
use crate::dir::{is_special, locate, parent};

/// The name of a file that is being written: `PREFIX`, 16 hexadecimal digits, `SUFFIX`.
const PREFIX: &str = ".vramscope-";
const SUFFIX: &str = ".part";

/// Where output goes that the user named by a path.
#[derive(Debug)]
pub enum Target {
    /// A regular file, or none yet.
    Replacement(Replacement),
    /// A pipe, a device or a file without a name, such as `/dev/stdout`: it is written to and stays.
    Special(File),
}

impl Target {
    /// Opens `path` for writing. Links to a file are followed, and the file that they lead to is replaced; a link that leads nowhere is
    /// replaced itself.
    ///
    /// # Errors
    /// [`io::ErrorKind::IsADirectory`] for a folder; [`io::ErrorKind::NotFound`] where there is no folder to write into;
    /// [`io::ErrorKind::PermissionDenied`] where `path` is a link of another user's, who is not root; else the system's own.
    pub fn open(path: &Path) -> io::Result<Self> {
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A link that leads nowhere is replaced itself.
        let (dir, name) = if before.is_some() { locate(path)? } else { parent(path)? };
        if is_special(path, &dir, &name) {
            return Ok(Self::Special(File::options().write(true).open(path)?));
        }
        Ok(Self::Replacement(Replacement::at(dir, name)?))
    }

    /// The file to write into.
    pub fn file(&self) -> &File {
        match self {
            Self::Replacement(new) => new.file(),
            Self::Special(out) => out,
        }
    }

    /// Puts a new file in its place, once it is on the disk.
    ///
    /// # Errors
    /// The system's own; the former file is then as it was.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Replacement(new) => new.finish(),
            Self::Special(_) => Ok(()),
        }
    }
}

/// A new file beside the one that it will replace. Dropped without [`finish`](Self::finish), it is removed, and the former file is
/// as it was.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    is_finished: bool,
    part: Unfinished,
    becomes: OsString,
}

/// The name that a file has while it is being written.
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
    /// Removes the file, where it still has that name.
    pub fn remove(&self) {
        self.dir.remove_file(&self.name).ok();
    }
}

impl Replacement {
    /// A file that will have the name `becomes` in `dir`. It gets the mode of the former one where that is this user's, else 666
    /// less the umask.
    ///
    /// # Errors
    /// Where no file can be created in the folder.
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

    /// The new file, open for writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The name that it has for now, for who removes it when a signal ends the process.
    pub fn unfinished(&self) -> Unfinished {
        self.part.clone()
    }

    /// Puts the file in its place, once it is on the disk.
    ///
    /// # Errors
    /// The system's own; the former file is then as it was.
    pub fn finish(mut self) -> io::Result<()> {
        // A crash of the machine leaves the former file or the whole new one.
        self.file.sync_all()?;
        self.part.dir.rename(&self.part.name, &self.becomes)?;
        self.is_finished = true;
        // The name, too. Not every file system can.
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
            Target::Special(_) => panic!("{} is no special file", path.display()),
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
    fn the_file_that_ones_own_link_leads_to_is_replaced() {
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
                Target::Replacement(_) => panic!("a pipe is no file"),
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
