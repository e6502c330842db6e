//! A cache of summaries in a folder of the user, so that repeated queries do not read the recordings again.
//!
//! The folder has one file per folder of recordings and per prefix of a store, named by the hash of its path. Summaries are never read
//! from or written to the folders of the recordings, whose files may come from an archive or from another user.
//!
//! An entry belongs to one version of a recording. On Unix a version includes `ctime`, the time of the last change, which only the system
//! can set. A recording that was replaced or edited is read again, even if its length and modification time are unchanged.

mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::listing::modified_ns;
use crate::place::Stored as StoredFile;
use crate::summary::{CELLS, RankSummary, VERSION};
pub(crate) use home::Home;

/// The summaries of the recordings in a folder, or under a prefix of a store.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The folder of the recordings; `None` for a store.
    folder: Option<PathBuf>,
    /// The file name in the cache folder.
    file: String,
    kept: BTreeMap<String, Kept>,
    /// Names of entries that are not yet on disk.
    new: BTreeSet<String>,
}

/// A summary, and the version of its recording.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    version: FileVersion,
    summary: RankSummary,
}

/// A version of a file; it changes when the file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    length: u64,
    modified_ns: i64,
    /// The time of the last change (`ctime`), in nanoseconds since the Unix epoch; 0 in a store and on systems without it.
    changed_ns: i64,
    /// The inode number; 0 on systems without it. In a store: a hash of the store's version.
    inode: u64,
}

/// The contents of a cache file, for reading.
#[derive(Deserialize)]
struct Stored {
    version: u32,
    summaries: BTreeMap<String, Kept>,
}

/// The contents of a cache file, for writing.
#[derive(Serialize)]
struct ToStore<'c> {
    version: u32,
    summaries: &'c BTreeMap<String, Kept>,
}

impl FileVersion {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let (inode, changed_ns) = of_system(metadata);
        Self { length: metadata.len(), modified_ns: modified_ns(metadata), changed_ns, inode }
    }

    pub(crate) fn of_stored(stored: &StoredFile) -> Self {
        let hash: [u8; 32] = Sha256::digest(&stored.version).into();
        let inode = hash[..8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        Self { length: stored.length, modified_ns: stored.modified_ns, changed_ns: 0, inode }
    }
}

/// Returns the inode number and `ctime`.
#[cfg(unix)]
fn of_system(metadata: &Metadata) -> (u64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    let changed_ns = metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
    (metadata.ino(), changed_ns)
}

#[cfg(not(unix))]
fn of_system(_: &Metadata) -> (u64, i64) {
    (0, 0)
}

impl Cache {
    /// Returns the cache of a folder, and the reason if its file is not used.
    ///
    /// # Errors
    /// The folder does not exist.
    pub(crate) fn of_folder(home: &Home, folder: &Path) -> io::Result<(Self, Option<String>)> {
        let path = folder.canonicalize()?;
        Ok(Self::open(home, Some(path.clone()), "folder", path.as_os_str()))
    }

    /// Returns the cache of the recordings with the same prefix as a URL, and the reason if its file is not used.
    pub(crate) fn of_store(home: &Home, address: &str) -> (Self, Option<String>) {
        let beside = address.rsplit_once('/').map_or(address, |(folder, _)| folder);
        Self::open(home, None, "store", beside.as_ref())
    }

    fn open(home: &Home, folder: Option<PathBuf>, kind: &str, path: &OsStr) -> (Self, Option<String>) {
        let hash =
            Sha256::new().chain_update(kind).chain_update([0_u8]).chain_update(path.as_encoded_bytes());
        let file: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let file = file + home::ENDING;
        let (kept, refused) = match stored(home, &file) {
            Ok(kept) => (kept, None),
            Err(why) => (BTreeMap::new(), Some(format!("{why}, so its cached summaries are not used"))),
        };
        (Self { folder, file, kept, new: BTreeSet::new() }, refused)
    }

    /// Returns the summary of the file `name`, if this version is cached.
    pub(crate) fn find(&self, name: &str, version: FileVersion) -> Option<RankSummary> {
        self.kept.get(name).filter(|kept| kept.version == version).map(|kept| kept.summary.clone())
    }

    /// Adds the summary of a file.
    pub(crate) fn keep(&mut self, name: &str, version: FileVersion, summary: RankSummary) {
        self.kept.insert(name.to_owned(), Kept { version, summary });
        self.new.insert(name.to_owned());
    }

    /// Writes new entries, keeps entries that other processes wrote meanwhile, and drops entries of deleted files. Returns whether there
    /// were new entries.
    ///
    /// # Errors
    /// The file cannot be written; the old file is then unchanged.
    pub(crate) fn save(&mut self, home: &Home) -> io::Result<bool> {
        if self.new.is_empty() {
            return Ok(false);
        }
        for (name, kept) in stored(home, &self.file).unwrap_or_default() {
            if !self.new.contains(&name) {
                self.kept.insert(name, kept);
            }
        }
        if let Some(folder) = &self.folder {
            self.kept.retain(|name, _| folder.join(name).exists());
        }
        let stored = ToStore { version: VERSION, summaries: &self.kept };
        home.write(&self.file, |out| Ok(serde_json::to_writer(out, &stored)?))?;
        self.new.clear();
        Ok(true)
    }
}

/// Returns the entries of a file; empty if it does not exist or is invalid.
///
/// # Errors
/// The reason why the file is not used.
fn stored(home: &Home, file: &str) -> Result<BTreeMap<String, Kept>, String> {
    let stored: Option<Stored> = serde_json::from_slice(&home.read(file)?).ok();
    let kept = stored.filter(|stored| stored.version == VERSION).map(|stored| stored.summaries);
    let mut kept = kept.unwrap_or_default();
    kept.retain(|_, kept| is_whole(&kept.summary));
    Ok(kept)
}

/// Whether a summary has [`CELLS`] cells.
fn is_whole(summary: &RankSummary) -> bool {
    [&summary.course.allocated_bytes, &summary.course.reserved_bytes].iter().all(|cells| cells.len() == CELLS)
}
