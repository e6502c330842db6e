//! The user's cache folder with the summaries of all recordings. Files and folders that another user owns or can write to are not used.

use std::env;
use std::fmt::Display;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vramscope_files::{Access, Dir, make_folder};

/// Subfolders of the user's cache folder.
const FOLDERS: [&str; 2] = ["vramscope", "summaries"];

/// Ending of the cache's file names; differs from the endings of recordings.
pub(super) const ENDING: &str = ".summaries";

/// Prefix and ending of temporary files.
const BEING_WRITTEN: (&str, &str) = ("summaries-", ".part");

/// Limit on the bytes read from a file. About 40,000 summaries fit.
const MOST_BYTES: u64 = 256 << 20;

/// Age at which a temporary file is assumed to be from a killed process.
const ABANDONED: Duration = Duration::from_hours(1);

/// Age at which a file is removed.
const OLD: Duration = Duration::from_hours(90 * 24);

const OF_ANOTHER: &str = "belongs to another user";

/// The open cache folder.
#[derive(Debug)]
pub(crate) struct Home {
    dir: Dir,
    path: PathBuf,
}

impl Home {
    /// Opens `vramscope/summaries` in `XDG_CACHE_HOME` or else `~/.cache`, on Windows in `LOCALAPPDATA`; creates it if needed.
    ///
    /// # Errors
    /// The reason why the folder is not used.
    pub(crate) fn open() -> Result<Self, String> {
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = folder("XDG_CACHE_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".cache")))
            .or_else(|| folder("LOCALAPPDATA"));
        Self::in_folder(&base.ok_or("neither XDG_CACHE_HOME nor HOME names a folder")?)
    }

    /// `vramscope/summaries` in the folder `base`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    fn in_folder(base: &Path) -> Result<Self, String> {
        let mut path = base.to_owned();
        let opened = make_folder(&path).and_then(|()| Dir::open(&path));
        let mut dir = opened.map_err(|e| of(&path, &e))?;
        // The owner of this folder could exchange the folders in it.
        if !dir.access().is_ok_and(|access| access.is_mine()) {
            return Err(of(&path, &OF_ANOTHER));
        }
        for name in FOLDERS {
            path.push(name);
            dir = dir.make_subdir(name.as_ref(), 0o700).map_err(|e| of(&path, &e))?;
            trusted(dir.access()).map_err(|why| of(&path, &why))?;
        }
        Ok(Self { dir, path })
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents of a file, up to [`MOST_BYTES`]; empty if there is no regular file with this name.
    ///
    /// # Errors
    /// The reason why the file is not used.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        if let Ok(file) = self.dir.open_file(name.as_ref()) {
            let path = self.path.join(name);
            trusted(Access::of(&file)).map_err(|why| of(&path, &why))?;
            file.take(MOST_BYTES).read_to_end(&mut text).map_err(|e| of(&path, &e))?;
        }
        Ok(text)
    }

    /// Atomically replaces a file by the bytes that `write` writes.
    ///
    /// # Errors
    /// An error of the system or of `write`; the old file is then unchanged.
    pub(super) fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let (begins, ends) = BEING_WRITTEN;
        let (part, file) = self.dir.create_unpredictable(begins, ends, 0o600)?;
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        let written = written.and_then(|()| self.dir.rename(&part, name.as_ref()));
        if written.is_err() {
            self.dir.remove_file(&part).ok();
        }
        written
    }

    /// Removes old files, and temporary files of killed processes.
    pub(crate) fn forget_old(&self) {
        let (begins, ends) = BEING_WRITTEN;
        for name in self.dir.names().unwrap_or_default() {
            let text = name.to_string_lossy();
            let longest = if text.starts_with(begins) && text.ends_with(ends) {
                ABANDONED
            } else if text.ends_with(ENDING) {
                OLD
            } else {
                continue;
            };
            let modified = self.dir.open_file(&name).and_then(|file| file.metadata()?.modified());
            let age = modified.ok().and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age > longest) {
                self.dir.remove_file(&name).ok();
            }
        }
    }
}

/// Puts a path in front of an error.
fn of(path: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", path.display())
}

/// Rejects a file or folder that another user can change.
fn trusted(access: io::Result<Access>) -> Result<(), String> {
    match access {
        Err(e) => Err(e.to_string()),
        Ok(access) if !access.is_mine() => Err(OF_ANOTHER.to_owned()),
        Ok(access) if access.others_can_write() => Err("other users can write to it".to_owned()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
