//! Temporary folders that only one user can access.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::Dir;
use crate::dir::denied;

/// A temporary folder with an unpredictable name and mode 700, independent of the umask. Dropping this value removes the folder with
/// its contents.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    dir: Dir,
}

impl PrivateFolder {
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
        let (name, dir) = outer.new_unpredictable_subdir(prefix)?;
        let this = Self { dir, path: parent.join(name) };
        if !this.dir.access()?.is_private() {
            return Err(denied("the new folder is open to other users"));
        }
        Ok(this)
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

impl Drop for PrivateFolder {
    fn drop(&mut self) {
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
