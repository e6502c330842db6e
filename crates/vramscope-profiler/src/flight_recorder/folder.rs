//! The bundles in a folder: existing bundles, abandoned bundles, and the order of their removal.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vramscope_files::Dir;

pub(super) const MANIFEST: &str = "manifest.json";

/// Maximum size of a manifest in bytes. A larger file is not read as a manifest.
pub(super) const MANIFEST_ROOM: u64 = 8 << 10;

/// How the names of bundles begin: now, and in earlier versions.
const PREFIXES: [&str; 2] = ["oom_dump_", "oom-"];

/// An unfinished bundle counts as abandoned after this time without a change, even if a process with its writer's id runs.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// `manifest.json` of a bundle.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the bundle's format.
    pub(super) version: u32,
    /// The time of the bundle, in microseconds since the Unix epoch.
    pub(super) time_us: i64,
    #[serde(default)]
    pub(super) reason: String,
    /// The error message; `None` for a bundle on demand.
    pub(super) error: Option<String>,
    /// Known only for errors of the pool, like the following fields up to `device_free_bytes`.
    pub(super) device: Option<i32>,
    pub(super) requested_bytes: Option<u64>,
    pub(super) rounded_bytes: Option<u64>,
    pub(super) reserved_bytes: Option<u64>,
    pub(super) limit_bytes: Option<u64>,
    pub(super) device_free_bytes: Option<u64>,
    /// Errors without a bundle since the previous bundle.
    pub(super) skipped_failures: u64,
    pub(super) files: Vec<String>,
    /// The files that were left out, each with its reason.
    pub(super) left_out: BTreeMap<String, String>,
}

impl Manifest {
    /// Sets the time, the reason and the error.
    pub(super) fn completed(self, time_us: i64, reason: &str, error: Option<&str>) -> Self {
        Self { version: 1, time_us, reason: shortened(reason), error: error.map(shortened), ..self }
    }

    /// Adds a file, or the reason why it was left out.
    pub(super) fn note_file(&mut self, name: &str, written: io::Result<()>) {
        match written {
            Ok(()) => self.files.push(name.to_owned()),
            Err(e) => {
                self.left_out.insert(name.to_owned(), e.to_string());
            }
        }
    }
}

/// Returns the first 500 bytes of a text, which fit into a manifest even if JSON escapes every byte.
fn shortened(text: &str) -> String {
    const MOST_BYTES: usize = 500;
    match text.char_indices().find(|(at, c)| at + c.len_utf8() > MOST_BYTES) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A bundle that may be removed. Bundles without a time sort first: they are unfinished and abandoned, and are always removed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RemovableBundle {
    pub(super) time_us: Option<i64>,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// Removes the oldest bundles until at most `most.0` bundles with at most `most.1` bytes in total are left. If a bundle cannot be removed,
/// `removal_error` names it, and it counts as removed, so that no younger bundle is removed instead.
pub(super) fn remove_oldest(
    bundles: Vec<RemovableBundle>,
    most: (usize, u64),
    removal_error: &mut Option<String>,
) {
    let mut left = bundles.iter().filter(|old| old.time_us.is_some()).count();
    let mut total: u64 = bundles.iter().map(|old| old.bytes).sum();
    for RemovableBundle { time_us, path, bytes } in bundles {
        if time_us.is_some() {
            if left <= most.0 && total <= most.1 {
                break;
            }
            left -= 1;
            total -= bytes;
        }
        match remove(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                *removal_error = Some(format!("{}: {e}", path.display()));
            }
            // Another process may have removed it already.
            _ => {}
        }
    }
}

/// Removes a bundle, its manifest last. If removal stops early, the rest is still recognized as a bundle.
fn remove(bundle: &Path) -> io::Result<()> {
    let dir = Dir::open_no_follow(bundle)?;
    for name in dir.names()? {
        if name != MANIFEST && dir.open_file(&name).is_ok() {
            dir.remove_file(&name)?;
        }
    }
    dir.remove_contents()?;
    fs::remove_dir(bundle)
}

/// Whether a finished bundle may have this name.
pub(super) fn is_bundle_name(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a folder belongs to this user.
pub(super) fn is_mine(folder: &Path) -> bool {
    Dir::open_no_follow(folder).and_then(|dir| dir.access()).is_ok_and(|access| access.is_mine())
}

/// Reads the manifest of a folder; `None` if the folder is not a bundle.
pub(super) fn read_manifest(folder: &Path) -> Option<Manifest> {
    let bytes = Dir::open_no_follow(folder).ok()?.read_file(MANIFEST.as_ref(), MANIFEST_ROOM).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the id of the process that writes the unfinished bundle of this name; `None` if the name is not that of an unfinished bundle.
pub(super) fn writer_of(name: &str) -> Option<u32> {
    let facts = PREFIXES.iter().find_map(|prefix| name.strip_prefix('.')?.strip_prefix(prefix))?;
    let mut parts = facts.strip_suffix(".part")?.split(['-', '_']);
    let (_time, pid, number) = (parts.next()?, parts.next()?, parts.next()?);
    number.parse::<u64>().ok()?;
    pid.parse().ok().filter(|_| parts.next().is_none())
}

/// Whether an unfinished bundle has no writer: it is not locked, and its writer's process has ended or has not changed it for
/// [`ABANDONED`].
pub(super) fn is_abandoned(part: &Path, pid: u32) -> bool {
    let locked = File::open(part).is_ok_and(|part| matches!(part.try_lock(), Err(TryLockError::WouldBlock)));
    let is_gone = || Path::new("/proc/self").exists() && !Path::new("/proc").join(pid.to_string()).exists();
    let is_old = || {
        let modified = fs::metadata(part).and_then(|part| part.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    !locked && (is_gone() || is_old())
}

/// Returns the total size of a folder's files, in bytes.
pub(super) fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}
