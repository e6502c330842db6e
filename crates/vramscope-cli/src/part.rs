//! Files that are being written, beside the ones they become. They go when the command does not come to its end: with an
//! error, a panic, or a signal that can be caught. After a signal the command dies of it, as without us.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{Builder, NamedTempFile};

/// Files to be removed when a signal comes. Whoever makes one holds this lock, and so does who removes them all and
/// dies.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a file that would be larger than it may be is an error of who writes it, and not the end of the command.
pub(crate) fn watch_signals() -> io::Result<()> {
    signals::watch()
}

/// A file that is not there yet.
pub(crate) struct Part {
    // Dropped first: gone before it is taken off the list.
    file: NamedTempFile,
    becomes: PathBuf,
    _listed: Listed,
}

/// Takes a file off the list.
struct Listed(PathBuf);

impl Part {
    /// A file in `folder` that will replace `becomes`.
    pub(crate) fn create(becomes: PathBuf, folder: &Path) -> io::Result<Self> {
        signals::watch()?;
        let mut builder = Builder::new();
        builder.prefix(".vramscope-").suffix(".part");
        // As any new file, where the default is readable by its owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut unfinished = unfinished();
        let file = builder.tempfile_in(folder).map_err(without_path)?;
        let path = file.path().to_owned();
        unfinished.push(path.clone());
        Ok(Self { file, becomes, _listed: Listed(path) })
    }

    /// The file. Its errors say what is wrong, and not the name that it has for now.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Puts it in its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        // On the disk before its name is: a crash of the machine leaves the former file or the whole new one.
        self.file().sync_all()?;
        let Self { file, becomes, _listed } = self;
        file.persist(&becomes).map_err(|e| e.error)?;
        // The name, too. Not every file system knows how.
        if let Some(folder) = becomes.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).ok();
        }
        Ok(())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

/// The library names its own file in errors; the user named another.
fn without_path(e: io::Error) -> io::Error {
    e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(unix)]
mod signals {
    use std::fs;
    use std::io;
    use std::sync::Once;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use super::unfinished;
    use crate::part_folder;

    /// From now on, signals that end the command remove what is unfinished first.
    pub(super) fn watch() -> io::Result<()> {
        static ONCE: Once = Once::new();
        let mut watched = Ok(());
        ONCE.call_once(|| watched = start());
        watched
    }

    fn start() -> io::Result<()> {
        let ignored = ignored();
        let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|s| !ignored.contains(s));
        let mut signals = Signals::new(wanted)?;
        // What would be larger than it may be is an error of the write then, and no end.
        signal_hook::flag::register(SIGXFSZ, Default::default())?;
        std::thread::Builder::new().spawn(move || {
            for signal in &mut signals {
                let unfinished = unfinished();
                for path in unfinished.iter() {
                    fs::remove_file(path).ok();
                }
                let folders = part_folder::unfinished();
                folders.iter().for_each(|folder| part_folder::remove(folder));
                // Holding the lock: no other begins.
                emulate_default_handler(signal).ok();
            }
        })?;
        Ok(())
    }

    /// What who started the command wants to be ignored, as `nohup` does; known where the system tells.
    fn ignored() -> Vec<i32> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
    }
}

#[cfg(not(unix))]
mod signals {
    /// Signals are those of Unix.
    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}
