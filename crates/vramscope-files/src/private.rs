//! Temporary folders of one user.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use crate::Dir;

/// A temporary folder under an unpredictable name, with mode 700 whatever the umask is. It is removed with all it holds when this
/// value is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: TempDir,
    dir: Dir,
}

impl PrivateFolder {
    /// A folder in the system's folder for temporary files, `TMPDIR`.
    ///
    /// # Errors
    /// As for [`new_in`](Self::new_in).
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix)
    }

    /// A folder in `parent`. Its name begins with `prefix`.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] where other users could put another folder in its place, because they may write to
    /// `parent` and it is not sticky, as `/tmp` is; else the system's own. The message names no path.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        let parent: PathBuf = std::path::absolute(parent)?;
        if Dir::open(&parent)?.access()?.others_can_replace() {
            let why = "other users can replace files in it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let mut builder = Builder::new();
        builder.prefix(prefix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir_in(&parent).map_err(without_path)?;
        let dir = Dir::open_no_follow(folder.path())?;
        if !dir.access()?.is_private() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the new folder is open to other users",
            ));
        }
        Ok(Self { folder, dir })
    }

    /// Its path, which is absolute.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The open folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }
}

/// The library names its own path in errors.
fn without_path(e: io::Error) -> io::Error {
    e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
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
