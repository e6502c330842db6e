//! Removes rings in memory that no recorder reads any longer. They would take memory until the machine restarts.

use std::borrow::Cow;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::requests::READER;

/// The folder of files in memory.
const MEMORY: &str = "/dev/shm";
/// First part of the name of a ring in memory (`library/ring_file.rs`). The rest is the path of its link, with colons, which paths of
/// recorders do not have.
const RING: &str = "vramscope:";

/// The path of the link to a ring in memory; any other path as it is.
pub(crate) fn linked(path: &Path) -> Cow<'_, Path> {
    match path.strip_prefix(MEMORY).ok().and_then(link_of) {
        Some(link) => link.into(),
        None => path.into(),
    }
}

fn link_of(name: &Path) -> Option<PathBuf> {
    // The system adds `(deleted)` to the path.
    let link = name.to_str()?.strip_prefix(RING)?;
    Some(format!("/{}", link.replace(':', "/")).into())
}

/// Removes the rings of a run that has ended. The recorder removes each ring that it reads: these are of processes that were killed before.
pub(crate) fn remove_of(folder: &Path) {
    remove_in(MEMORY.as_ref(), |of| of == folder);
}

/// Removes the rings of recorders that were killed. Their processes no longer wait for them, and may keep a removed ring.
pub(crate) fn remove_abandoned() {
    remove_in(MEMORY.as_ref(), |of| !is_used(of));
}

fn remove_in(memory: &Path, is_of: impl Fn(&Path) -> bool) {
    for entry in fs::read_dir(memory).into_iter().flatten().flatten() {
        let link = link_of(entry.file_name().as_ref());
        // A link is in the folder `rings` of the run's folder.
        let folder = link.as_deref().and_then(|link| link.parent()?.parent());
        if folder.is_some_and(&is_of) {
            // Rings of other users stay.
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// Whether a recorder holds a run's folder, as far as this user can know.
fn is_used(folder: &Path) -> bool {
    match File::open(folder.join(READER)) {
        Ok(reader) => reader.try_lock().is_err(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_recorders_that_were_killed_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let [memory, killed, running, gone] =
            ["memory", "killed", "running", "gone"].map(|name| temporary.path().join(name));
        for folder in [&memory, &killed, &running] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(killed.join(READER), "").unwrap();
        let reader = File::create(running.join(READER)).unwrap();
        reader.lock().unwrap();
        let ring = |folder: &Path| {
            let name =
                format!("vramscope{}", folder.join("rings/4711-0").to_str().unwrap().replace('/', ":"));
            let path = memory.join(name);
            fs::write(&path, "").unwrap();
            path
        };
        let [of_killed, of_running, of_gone] = [&killed, &running, &gone].map(|folder| ring(folder));
        let other = memory.join("another program's");
        fs::write(&other, "").unwrap();
        let exist = || [&of_killed, &of_running, &of_gone, &other].map(|path| path.exists());

        remove_in(&memory, |folder| !is_used(folder));
        assert_eq!(exist(), [false, true, false, true]);
        remove_in(&memory, |folder| folder == running);
        assert_eq!(exist(), [false, false, false, true]);
    }
}
