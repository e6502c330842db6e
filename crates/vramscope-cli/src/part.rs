//! Files that are being written, beside the ones they become. They go when the command does not come to its end: with an
//! error, a panic, or a signal that can be caught. After a signal the command dies of it, as without us.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vramscope_files::{Target, Unfinished};

/// Files to be removed when a signal comes. Whoever makes one holds this lock, and so does who removes them all and
/// dies.
static UNFINISHED: Mutex<Vec<Unfinished>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<Unfinished>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a file that would be larger than it may be is an error of who writes it, and not the end of the command.
pub(crate) fn watch_signals() -> io::Result<()> {
    signals::watch()
}

/// What the user named, being written.
pub(crate) struct Part {
    // Dropped first: gone before it is taken off the list.
    target: Target,
    _listed: Option<Listed>,
}

/// Takes a file off the list.
struct Listed(Unfinished);

impl Part {
    /// Opens `path` for writing, as [`Target::open`] does.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        signals::watch()?;
        // Opening a pipe waits for its reader, and signals must not.
        if fs::metadata(path).is_ok_and(|before| !before.is_file() && !before.is_dir()) {
            return Ok(Self { target: Target::open(path)?, _listed: None });
        }
        let mut unfinished = unfinished();
        let target = Target::open(path)?;
        let listed = match &target {
            Target::Replacement(new) => {
                unfinished.push(new.unfinished());
                Some(Listed(new.unfinished()))
            }
            Target::Special(_) => None,
        };
        Ok(Self { target, _listed: listed })
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        self.target.file()
    }

    /// Puts it in its place.
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
                unfinished.iter().for_each(Unfinished::remove);
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
