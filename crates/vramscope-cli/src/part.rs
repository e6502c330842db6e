//! Temporary files for outputs, next to the final files. They are removed if the command does not complete: after an error, a panic, or
//! a signal that can be caught. After a signal, the command ends with that signal.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_files::{Destination, Dir, Replacement, Target, Unfinished};

/// Files to remove when a signal arrives. Creating one takes this lock, and so does removing all of them before the command ends.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the signal handlers. A file above the size limit then fails with an error, instead of ending the command.
pub(crate) fn watch_signals() -> io::Result<()> {
    signals::watch()
}

/// An output file that is being written.
pub(crate) struct Part {
    // Dropped first: the file is removed before its entry in the list.
    target: Target,
    _listed: Option<Listed>,
}

/// Removes a file from the list when dropped.
struct Listed(Unfinished);

impl Part {
    /// Opens `path` for writing, as [`Target::open`] does.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        signals::watch()?;
        // This waits for the reader of a pipe; signals must not wait for that.
        match Destination::of(path)? {
            Destination::File(dir, name) => Self::at(dir, name),
            Destination::Special(open) => Ok(Self { target: Target::Special(open), _listed: None }),
        }
    }

    /// Opens the file `name` in a folder for writing.
    pub(crate) fn at(dir: Dir, name: OsString) -> io::Result<Self> {
        signals::watch()?;
        let mut unfinished = unfinished();
        let new = Replacement::at(dir, name)?;
        unfinished.push(new.unfinished());
        let listed = Listed(new.unfinished());
        Ok(Self { target: Target::Replacement(new), _listed: Some(listed) })
    }

    pub(crate) fn file(&self) -> &File {
        self.target.file()
    }

    /// Moves the file to its place.
    pub(crate) fn finish(self) -> io::Result<()> {
        let Self { target, _listed } = self;
        target.finish()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().retain(|other| *other != self.0);
    }
}

#[cfg(unix)]
mod signals {
    use std::fs;
    use std::io;
    use std::sync::Once;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    use vramscope_files::Unfinished;

    use super::unfinished;
    use crate::part_folder;

    /// Installs handlers: signals that end the command first remove unfinished files.
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
        // A write above the file size limit then fails with an error, instead of ending the command.
        signal_hook::flag::register(SIGXFSZ, Default::default())?;
        std::thread::Builder::new().spawn(move || {
            for signal in &mut signals {
                let unfinished = unfinished();
                unfinished.iter().for_each(Unfinished::remove);
                let folders = part_folder::unfinished();
                folders.iter().for_each(|folder| folder.remove());
                // The locks are still held, so no new file is created.
                emulate_default_handler(signal).ok();
            }
        })?;
        Ok(())
    }

    /// Signals that the parent process set to be ignored, as `nohup` does; empty if the system does not report them.
    fn ignored() -> Vec<i32> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        (1..=64).filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
    }
}

#[cfg(not(unix))]
mod signals {
    /// Signals exist only on Unix.
    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}
