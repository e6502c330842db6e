//! The bundles in a folder: which are there, which are abandoned, which go first.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{MANIFEST, MANIFEST_ROOM, Manifest};

/// After this, what a writer left behind is taken for abandoned, whatever its process is said to do.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A folder that may be removed; those without a time, which are abandoned, are first, and go in any case.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Old {
    pub(super) time_us: Option<i64>,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Removes the oldest bundles until there are no more than so many, of so many bytes. One that cannot be removed is
/// named and counts no longer: nothing younger goes in its stead.
pub(super) fn remove_oldest(bundles: Vec<Old>, most: (usize, u64), left_behind: &mut Option<String>) {
    let mut left = bundles.iter().filter(|old| old.time_us.is_some()).count();
    let mut total: u64 = bundles.iter().map(|old| old.bytes).sum();
    for Old { time_us, path, bytes } in bundles {
        if time_us.is_some() {
            if left <= most.0 && total <= most.1 {
                break;
            }
            left -= 1;
            total -= bytes;
        }
        match remove(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                *left_behind = Some(format!("{}: {e}", path.display()));
            }
            // Also where another was faster.
            _ => {}
        }
    }
}

/// Removes a bundle, the manifest last: what is left when that ends early is a bundle still.
fn remove(bundle: &Path) -> io::Result<()> {
    for entry in fs::read_dir(bundle)? {
        let entry = entry?;
        if entry.file_name() != MANIFEST && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir_all(bundle)
}

/// What a folder says of itself, if it is a bundle.
pub(super) fn read_manifest(folder: &Path) -> Option<Manifest> {
    let path = folder.join(MANIFEST);
    // Not of what may wait for ever, as a pipe.
    if !fs::symlink_metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MANIFEST_ROOM).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The process that writes, or wrote, the folder of this name; `None` where it is no bundle that is not whole.
pub(super) fn writer_of(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix(".oom-")?.strip_suffix(".part")?.split('-');
    let (_time, pid, number) = (parts.next()?, parts.next()?, parts.next()?);
    number.parse::<u64>().ok()?;
    pid.parse().ok().filter(|_| parts.next().is_none())
}

/// Nobody writes this folder any more: no lock is on it, and its process is gone or must have been done long ago.
pub(super) fn is_abandoned(part: &Path, pid: u32) -> bool {
    let locked = File::open(part).is_ok_and(|part| matches!(part.try_lock(), Err(TryLockError::WouldBlock)));
    let is_gone = || Path::new("/proc/self").exists() && !Path::new("/proc").join(pid.to_string()).exists();
    let is_old = || {
        let modified = fs::metadata(part).and_then(|part| part.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    !locked && (is_gone() || is_old())
}

/// Bytes of a folder's files.
pub(super) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}
