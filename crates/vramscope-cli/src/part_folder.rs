//! Folders that are being filled, in the folder that their contents will lie in. They are removed when the command does not come to
//! its end, as [parts](crate::part) are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, TempDir};

/// How the names of such folders begin and end.
const BEGINS: &str = ".vramscope-";
const ENDS: &str = ".part";

/// Folders to be removed when a signal comes. Creating one takes this lock, and so does removing them all.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders to be removed when a signal comes; none is created while they are held.
pub(crate) fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a folder with all that is in it.
#[cfg(unix)]
pub(crate) fn remove(folder: &Path) {
    // Another thread may create a folder in it meanwhile.
    if fs::remove_dir_all(folder).is_err() {
        fs::remove_dir_all(folder).ok();
    }
}

/// A folder that is being filled. Dropped, it is removed with all that is in it.
pub(crate) struct PartFolder {
    // Dropped first: gone before it is taken off the list.
    folder: TempDir,
    _listed: Listed,
}

/// Takes a folder off the list.
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

impl PartFolder {
    /// An empty folder in `inside` that only its owner may enter.
    pub(crate) fn create(inside: &Path) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder.prefix(BEGINS).suffix(ENDS);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let mut unfinished = unfinished();
        // The library names the new folder in errors; the user named the one around it.
        let folder = builder
            .tempdir_in(inside)
            .map_err(|e| e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error))?;
        let path = folder.path().to_owned();
        unfinished.push(path.clone());
        Ok(Self { folder, _listed: Listed(path) })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Moves the folder `name` out of it, into the folder around it.
    pub(crate) fn finish(&self, name: &str) -> io::Result<()> {
        let path = self.path();
        fs::rename(path.join(name), path.with_file_name(name))
    }

    /// Unfinished folders in `inside`: of commands that still run, or that were killed.
    pub(crate) fn others(inside: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(inside).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let is_part = |name: &str| name.starts_with(BEGINS) && name.ends_with(ENDS);
        folders
            .map(|folder| folder.path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_part))
            .collect()
    }
}
