//! Temporary folders for outputs, inside the folder of the final contents. They are removed if the command does not complete, like
//! [parts](crate::part).

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vramscope_files::Dir;

/// Prefix of the names of temporary folders.
const BEGINS: &str = ".vramscope-part-";

/// Folders to remove when a signal arrives. Creating one takes this lock, and so does removing all of them.
static UNFINISHED: Mutex<Vec<Arc<UnfinishedFolder>>> = Mutex::new(Vec::new());

/// The folders to remove when a signal arrives; none is created while the lock is held.
pub(crate) fn unfinished() -> MutexGuard<'static, Vec<Arc<UnfinishedFolder>>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder and the folder around it.
pub(crate) struct UnfinishedFolder {
    around: Dir,
    dir: Dir,
    name: OsString,
}

impl UnfinishedFolder {
    /// Removes the folder with its contents.
    pub(crate) fn remove(&self) {
        // Another thread may create a file in it meanwhile.
        if self.dir.remove_contents().is_err() {
            self.dir.remove_contents().ok();
        }
        self.around.remove_subdir(&self.name).ok();
    }
}

/// A temporary folder; dropping it removes it with its contents.
pub(crate) struct PartFolder(Arc<UnfinishedFolder>);

impl PartFolder {
    /// Creates an empty folder in `inside` that only its owner can access.
    pub(crate) fn create(inside: &Path) -> io::Result<Self> {
        let around = Dir::open(inside)?;
        let mut unfinished = unfinished();
        let (name, dir) = around.new_unpredictable_subdir(BEGINS)?;
        let folder = Arc::new(UnfinishedFolder { around, dir, name });
        unfinished.push(Arc::clone(&folder));
        Ok(Self(folder))
    }

    /// The open folder.
    pub(crate) fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Moves the file or the folder `name` from the temporary folder into its parent.
    pub(crate) fn finish(&self, name: &str) -> io::Result<()> {
        self.0.dir.rename_into(OsStr::new(name), &self.0.around)
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
        self.0.remove();
        unfinished().retain(|folder| !Arc::ptr_eq(folder, &self.0));
    }
}
