//! Summaries kept beside the recordings, so that asking again reads none of them.
//!
//! A folder has one file for all of its recordings, `.vramscope-summaries/summaries.json`. An entry belongs to the content of a
//! recording, by its hash; name, length, time of change and number of the file tell that the content is the same, so that only what
//! was moved or copied is read for its hash. A file that cannot be understood is made again.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::Builder;

use crate::listing::modified_ns;
use crate::place::Stored as StoredFile;
use crate::summary::{RankSummary, VERSION};

/// The folder beside recordings.
const FOLDER: &str = ".vramscope-summaries";

/// The file in it.
const FILE: &str = "summaries.json";

/// The end of the names of files that are being written.
const PART: &str = ".part";

/// A file that was not written to for so long is of somebody who was ended.
const ENDED: Duration = Duration::from_hours(1);

/// Where summaries are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keeps {
    /// Beside the recordings in a folder.
    Beside(PathBuf),
    /// In a folder of the user's, for recordings in a store, which may not be written to.
    Apart(PathBuf),
}

impl Keeps {
    /// Where those of the recordings are kept that lie beside an address; `None` where the user has no place for such.
    pub(crate) fn of_store(address: &str) -> Option<Self> {
        let folder = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let home = folder("XDG_CACHE_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".cache")))
            .or_else(|| folder("LOCALAPPDATA"))?;
        let beside = address.rsplit_once('/').map_or(address, |(folder, _)| folder);
        let hash = in_hexadecimal(&Sha256::digest(beside));
        Some(Self::Apart(home.join("vramscope").join(&hash[..32])))
    }

    pub(crate) fn folder(&self) -> &Path {
        let (Self::Beside(folder) | Self::Apart(folder)) = self;
        folder
    }
}

/// What is kept of the recordings of a folder.
#[derive(Debug)]
pub(crate) struct Cache {
    keeps: Keeps,
    kept: BTreeMap<String, Kept>,
    /// Names of entries that are not on the disk yet.
    new: BTreeSet<String>,
}

/// A summary, and what tells that it is still true.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    version: FileVersion,
    /// The hash of all bytes of the file, SHA-256 in hexadecimal digits.
    sha256: String,
    summary: RankSummary,
}

/// What tells a file from the one that it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    length: u64,
    modified_ns: i64,
    /// The number of the file on its disk; 0 where systems have none. In a store: of what it tells versions by.
    inode: u64,
}

/// The file, as it lies on the disk.
#[derive(Deserialize)]
struct Stored {
    version: u32,
    summaries: BTreeMap<String, Kept>,
}

/// The same, to be written.
#[derive(Serialize)]
struct ToStore<'c> {
    version: u32,
    summaries: &'c BTreeMap<String, Kept>,
}

impl FileVersion {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified_ns: modified_ns(metadata), inode: inode(metadata) }
    }

    pub(crate) fn of_stored(stored: &StoredFile) -> Self {
        let hash: [u8; 32] = Sha256::digest(&stored.version).into();
        let inode = hash[..8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        Self { length: stored.length, modified_ns: stored.modified_ns, inode }
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

impl Cache {
    /// What is kept there; nothing where that cannot be read.
    pub(crate) fn open(keeps: Keeps) -> Self {
        Self { kept: stored(keeps.folder()).unwrap_or_default(), keeps, new: BTreeSet::new() }
    }

    /// The summary of the file `name`, where it is known to be the same as then.
    pub(crate) fn find(&mut self, name: &str, version: FileVersion) -> Option<RankSummary> {
        if let Some(kept) = self.kept.get(name).filter(|kept| kept.version == version) {
            return Some(kept.summary.clone());
        }
        // It may have been moved or copied here, with what is kept of it.
        let Keeps::Beside(folder) = &self.keeps else { return None };
        if !self.kept.values().any(|kept| kept.version.length == version.length) {
            return None;
        }
        let mut file = Hashed::new(File::open(folder.join(name)).ok()?);
        let sha256 = file.hash().ok()?;
        let kept = self.kept.values().find(|kept| kept.sha256 == sha256)?.summary.clone();
        self.keep(name, version, sha256, kept.clone());
        Some(kept)
    }

    /// Keeps the summary of a file from now on.
    pub(crate) fn keep(&mut self, name: &str, version: FileVersion, sha256: String, summary: RankSummary) {
        self.kept.insert(name.to_owned(), Kept { version, sha256, summary });
        self.new.insert(name.to_owned());
    }

    /// Writes what is new, beside what others have written meanwhile. What belongs to files that are gone is forgotten.
    ///
    /// # Errors
    /// Where it cannot be written; the file is then as it was.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let beside = self.keeps.folder().join(FOLDER);
        fs::create_dir_all(&beside)?;
        for (name, kept) in stored(self.keeps.folder()).unwrap_or_default() {
            if !self.new.contains(&name) {
                self.kept.insert(name, kept);
            }
        }
        if let Keeps::Beside(folder) = &self.keeps {
            self.kept.retain(|name, _| folder.join(name).exists());
        }
        forget_unfinished(&beside);
        let mut builder = Builder::new();
        builder.prefix("summaries-").suffix(PART);
        // As any new file: others who may read the recordings may read this.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let part = builder.tempfile_in(&beside)?;
        let mut out = BufWriter::new(part.as_file());
        serde_json::to_writer(&mut out, &ToStore { version: VERSION, summaries: &self.kept })?;
        out.flush()?;
        drop(out);
        part.persist(beside.join(FILE)).map_err(|e| e.error)?;
        self.new.clear();
        Ok(())
    }
}

/// What lies on the disk; `None` where nothing does, or it cannot be understood.
fn stored(folder: &Path) -> Option<BTreeMap<String, Kept>> {
    let text = fs::read(folder.join(FOLDER).join(FILE)).ok()?;
    let stored: Stored = serde_json::from_slice(&text).ok()?;
    (stored.version == VERSION).then_some(stored.summaries)
}

/// Removes what others began to write and will not finish.
fn forget_unfinished(beside: &Path) {
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let is_part = entry.file_name().to_string_lossy().ends_with(PART);
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        if is_part && age.is_some_and(|age| age > ENDED) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stream whose bytes are hashed as they go by.
pub(crate) struct Hashed<R> {
    stream: R,
    sha256: Sha256,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, sha256: Sha256::new() }
    }

    /// Reads what is left, and has the hash of all.
    pub(crate) fn hash(&mut self) -> io::Result<String> {
        let mut buffer = vec![0; 1 << 16];
        while self.read(&mut buffer)? > 0 {}
        let hash = std::mem::take(&mut self.sha256).finalize();
        Ok(in_hexadecimal(&hash))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(out)?;
        self.sha256.update(&out[..read]);
        Ok(read)
    }
}
