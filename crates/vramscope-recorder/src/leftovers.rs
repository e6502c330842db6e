//! Rings in memory: how a reader opens them, and how those that no recorder reads any longer are removed. They would take memory until the
//! machine restarts. Every user can create files in their folder, so only regular files of this user are opened or removed.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat};
use rustix::process::geteuid;
use vramscope_files::{Dir, PrivateFolder};

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

/// Opens the ring `name` in a folder of rings.
///
/// # Errors
/// The file is not a regular one of this user; otherwise errors of the operating system.
pub(crate) fn open_ring(rings: &Path, name: &OsStr) -> io::Result<File> {
    let link = rings.join(name);
    match fs::read_link(&link) {
        Ok(in_memory) if linked(&in_memory) == link => open_own(&in_memory),
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the link of a ring leads elsewhere")),
        Err(_) => open_own(&link),
    }
}

/// Removes the name of a ring in memory. Both processes have mapped it, so its memory is freed when both have ended, even if they are
/// killed.
pub(crate) fn remove_name(rings: &Path, name: &OsStr) {
    if let Ok(in_memory) = fs::read_link(rings.join(name)) {
        fs::remove_file(in_memory).ok();
    }
}

/// Opens a regular file of this user to read and write. Follows no link, and waits for no pipe.
fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_own = file.metadata()?.is_file() && fstat(&file)?.st_uid == geteuid().as_raw();
    if is_own { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
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
        if let Some(folder) = folder
            && is_own(&entry)
            && is_of(folder)
        {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// Whether an entry is a regular file of this user.
fn is_own(entry: &fs::DirEntry) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    entry.metadata().is_ok_and(|entry| entry.is_file() && entry.uid() == geteuid().as_raw())
}

/// Whether a recorder of this user holds a run's folder, as far as this user can know.
fn is_used(folder: &Path) -> bool {
    match Dir::open_no_follow(folder) {
        Ok(dir) => dir.access().is_ok_and(|access| access.is_mine()) && PrivateFolder::is_used(&dir),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(memory: &Path, folder: &Path) -> PathBuf {
        memory.join(format!("vramscope{}", folder.join("rings/4711-0").to_str().unwrap().replace('/', ":")))
    }

    #[test]
    fn rings_of_recorders_that_were_killed_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let [memory, killed, running, gone] =
            ["memory", "killed", "running", "gone"].map(|name| temporary.path().join(name));
        for folder in [&memory, &killed, &running] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(killed.join(PrivateFolder::LOCK), "").unwrap();
        let reader = File::create(running.join(PrivateFolder::LOCK)).unwrap();
        reader.lock().unwrap();
        let [of_killed, of_running, of_gone] = [&killed, &running, &gone].map(|folder| ring(&memory, folder));
        let other = memory.join("another program's");
        for file in [&of_killed, &of_running, &of_gone, &other] {
            fs::write(file, "").unwrap();
        }
        let exist = || [&of_killed, &of_running, &of_gone, &other].map(|path| path.exists());

        remove_in(&memory, |folder| !is_used(folder));
        assert_eq!(exist(), [false, true, false, true]);
        remove_in(&memory, |folder| folder == running);
        assert_eq!(exist(), [false, false, false, true]);
    }

    /// A pipe in place of the locked file, to which the name of a ring leads, and a ring that is none.
    #[test]
    fn pipes_and_links_in_the_shared_folder_stop_no_one() {
        let temporary = tempfile::tempdir().unwrap();
        let [memory, hostile, rings] =
            ["memory", "hostile", "run/rings"].map(|name| temporary.path().join(name));
        for folder in [&memory, &hostile, &rings] {
            fs::create_dir_all(folder).unwrap();
        }
        let pipe = |path: &Path| {
            rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RWXU).unwrap();
        };
        pipe(&hostile.join(PrivateFolder::LOCK));
        fs::write(ring(&memory, &hostile), "").unwrap();
        pipe(&memory.join("vramscope:a:pipe:rings:4711-0"));
        remove_in(&memory, |folder| !is_used(folder));
        assert!(ring(&memory, &hostile).exists(), "a folder that cannot be examined counts as used");
        assert!(memory.join("vramscope:a:pipe:rings:4711-0").exists());

        for (name, to) in [("1-0", "/etc/passwd"), ("2-0", "/dev/shm/vramscope:elsewhere:rings:2-0")] {
            std::os::unix::fs::symlink(to, rings.join(name)).unwrap();
            assert_eq!(open_ring(&rings, name.as_ref()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        pipe(&rings.join("3-0"));
        open_ring(&rings, "3-0".as_ref()).unwrap_err();
    }
}
