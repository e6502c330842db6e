//! Temporary folders that only one user can access.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Dir;
use crate::dir::denied;

/// A temporary folder with an unpredictable name and mode 700, independent of the umask. Dropping this value removes the folder with
/// its contents. A file in it is locked until then, so that the folder of a killed process is recognized: the next folder of this
/// prefix and user removes it.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    dir: Dir,
    /// Locked. The system unlocks it if the process is killed.
    _lock: File,
}

impl PrivateFolder {
    /// Name of the locked file.
    pub const LOCK: &str = "lock";

    /// Creates a folder in the system's folder for temporary files (`TMPDIR`).
    ///
    /// # Errors
    /// As for [`new_in`](Self::new_in).
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix)
    }

    /// Creates a folder in `parent` with a name that begins with `prefix`.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if other users could replace the folder, because they can write to `parent` and `parent` is
    /// not sticky as `/tmp` is; otherwise errors of the operating system. The message does not include the path.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        let parent = std::path::absolute(parent)?;
        let outer = Dir::open(&parent)?;
        if outer.access()?.others_can_replace() {
            return Err(denied("other users can replace files in it"));
        }
        remove_abandoned(&outer, prefix);
        let (name, dir) = outer.new_unpredictable_subdir(prefix)?;
        let path = parent.join(name);
        let lock = locked(&dir).inspect_err(|_| {
            fs::remove_dir_all(&path).ok();
        })?;
        let this = Self { dir, path, _lock: lock };
        if !this.dir.access()?.is_private() {
            return Err(denied("the new folder is open to other users"));
        }
        Ok(this)
    }

    /// Whether a process uses the private folder that was opened as `dir`, as far as locks tell. A folder without the locked file counts
    /// as used.
    pub fn is_used(dir: &Dir) -> bool {
        dir.open_file(Self::LOCK.as_ref()).map_or(true, |lock| lock.try_lock().is_err())
    }

    /// Returns the folder's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }
}

/// Creates the locked file. It is locked before it has its name.
fn locked(dir: &Dir) -> io::Result<File> {
    let new: &OsStr = "lock-new".as_ref();
    let file = dir.create_new(new, 0o600)?;
    // Some file systems have no locks. Folders on them stay.
    let is_locked = file.try_lock().is_ok();
    if is_locked {
        dir.rename(new, PrivateFolder::LOCK.as_ref())?;
    }
    Ok(file)
}

/// Removes folders of this user that killed processes left.
fn remove_abandoned(outer: &Dir, prefix: &str) {
    let names = outer.names().unwrap_or_default();
    for name in names.iter().filter(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
        let Ok(dir) = outer.subdir(name) else { continue };
        if !dir.access().is_ok_and(|access| access.is_private()) {
            continue;
        }
        // The lock is held until the folder is gone, so that no one else removes it too.
        let Ok(lock) = dir.open_file(PrivateFolder::LOCK.as_ref()) else { continue };
        if lock.try_lock().is_ok() && remove_contents(&dir).is_ok() {
            outer.remove_subdir(name).ok();
        }
    }
}

/// Removes the contents of a private folder, the locked file last: a process that is killed meanwhile leaves a folder that is recognized.
fn remove_contents(dir: &Dir) -> io::Result<()> {
    for name in dir.names()?.iter().filter(|name| *name != PrivateFolder::LOCK) {
        match dir.subdir(name) {
            Ok(subdir) => {
                subdir.remove_contents()?;
                dir.remove_subdir(name)?;
            }
            Err(_) => dir.remove_file(name)?,
        }
    }
    dir.remove_file(PrivateFolder::LOCK.as_ref())
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove_contents(&self.dir).ok();
        fs::remove_dir_all(&self.path).ok();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::fs::Mode;

    use super::*;

    #[test]
    fn a_private_folder_is_private_under_every_umask() {
        let outer = tempfile::tempdir().unwrap();
        for mask in [0, 0o002, 0o022] {
            let before = rustix::process::umask(Mode::from_raw_mode(mask));
            let folder = PrivateFolder::new_in(outer.path(), "test-");
            let written = folder.as_ref().map(|folder| folder.dir().write_new("file".as_ref(), b"text"));
            rustix::process::umask(before);
            written.unwrap().unwrap();
            let folder = folder.unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(folder.path()), 0o700);
            assert_eq!(mode(&folder.path().join("file")), 0o600);
        }
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_no_others() {
        let outer = tempfile::tempdir().unwrap();
        let used = PrivateFolder::new_in(outer.path(), "test-").unwrap();
        let at = |name: &str| outer.path().join(name);
        // A killed process leaves a file that is not locked. A folder without it is older than the file, or being made.
        for (name, mode, has_lock) in [
            ("test-0", 0o700, true),
            ("test-1", 0o700, false),
            ("test-2", 0o755, true),
            ("other-3", 0o700, true),
        ] {
            fs::create_dir_all(at(name).join("rings")).unwrap();
            fs::write(at(name).join("rings/file"), "x").unwrap();
            if has_lock {
                fs::write(at(name).join(PrivateFolder::LOCK), "").unwrap();
            }
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(at("other-3"), at("test-4")).unwrap();
        // A folder that a killed process had begun to remove.
        fs::create_dir(at("test-5")).unwrap();
        fs::set_permissions(at("test-5"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(at("test-5").join(PrivateFolder::LOCK), "").unwrap();
        let next = PrivateFolder::new_in(outer.path(), "test-").unwrap();
        assert!(!at("test-5").exists());
        let exists = |name: &str| at(name).join("rings/file").exists();
        let exist = ["test-0", "test-1", "test-2", "other-3", "test-4"].map(exists);
        assert_eq!(exist, [false, true, true, true, true]);
        assert!(!at("test-0").exists() && used.path().exists() && next.path().exists());
        assert!(PrivateFolder::is_used(used.dir()));
    }

    #[test]
    fn a_folder_in_which_others_can_rename_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let said = PrivateFolder::new_in(outer.path(), "test-").unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let folder = PrivateFolder::new_in(outer.path(), "test-").unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
