//! Folders that are being filled, in the folder that their contents will lie in. They are removed when the command does not come to
//! its end, as [parts](crate::part) are.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_files::Dir;

/// How the names of such folders begin.
const BEGINS: &str = ".vramscope-part-";

/// Folders to be removed when a signal comes. Creating one takes this lock, and so does removing them all.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders to be removed when a signal comes; none is created while they are held.
pub(crate) fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a folder with all that is in it.
pub(crate) fn remove(folder: &Path) {
    // Another thread may create a folder in it meanwhile.
    if fs::remove_dir_all(folder).is_err() {
        fs::remove_dir_all(folder).ok();
    }
}

/// A folder that is being filled. Dropped, it is removed with all that is in it.
pub(crate) struct PartFolder {
    around: Dir,
    dir: Dir,
    path: PathBuf,
}

impl PartFolder {
    /// An empty folder in `inside` that only its owner may enter.
    pub(crate) fn create(inside: &Path) -> io::Result<Self> {
        let around = Dir::open(inside)?;
        let mut unfinished = unfinished();
        let name = around.new_unpredictable_subdir(BEGINS)?;
        let path = inside.join(&name);
        unfinished.push(path.clone());
        let dir = around.subdir(&name)?;
        Ok(Self { around, dir, path })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder `name` out of it, into the folder around it.
    pub(crate) fn finish(&self, name: &str) -> io::Result<()> {
        self.dir.rename_into(OsStr::new(name), &self.around)
    }

    /// Unfinished folders in `inside`: of commands that still run, or that were killed.
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
