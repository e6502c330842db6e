//! Temporary folders for outputs, inside the folder of the final contents. They are removed if the command does not complete, like
//! [parts](crate::part).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_files::Dir;

/// Prefix of the names of temporary folders.
const BEGINS: &str = ".vramscope-part-";

/// Folders to remove when a signal arrives. Creating one takes this lock, and so does removing all of them.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders to remove when a signal arrives; none is created while the lock is held.
pub(crate) fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a folder with its contents.
pub(crate) fn remove(folder: &Path) {
    // Another thread may create a folder in it meanwhile.
    if fs::remove_dir_all(folder).is_err() {
        fs::remove_dir_all(folder).ok();
    }
}

/// A temporary folder; dropping it removes it with its contents.
pub(crate) struct PartFolder {
    around: Dir,
    dir: Dir,
    path: PathBuf,
}

impl PartFolder {
    /// Creates an empty folder in `inside` that only its owner can access.
    pub(crate) fn create(inside: &Path) -> io::Result<Self> {
        let around = Dir::open(inside)?;
        let mut unfinished = unfinished();
        let name = around.new_unpredictable_subdir(BEGINS)?;
        let path = inside.join(&name);
        unfinished.push(path.clone());
        let dir = around.subdir(&name)?;
        Ok(Self { around, dir, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder `name` from the temporary folder into its parent.
    pub(crate) fn finish(&self, name: &str) -> io::Result<()> {
        self.dir.rename_into(OsStr::new(name), &self.around)
    }

    /// Temporary folders in `inside` of commands that are running or were killed.
    pub(crate) fn others(inside: &Path) -> Vec<PathBuf> {
        let names = Dir::open(inside).and_then(|dir| dir.names()).unwrap_or_default();
        let parts = names.into_iter().filter(|name| name.to_string_lossy().starts_with(BEGINS));
        parts.map(|name| inside.join(name)).collect()
    }
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        remove(&self.path);
        unfinished().retain(|path| *path != self.path);
    }
}
