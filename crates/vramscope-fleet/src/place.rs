//! [`RecordingPlace`]: the location of a recording, on this machine or in a store.

use std::fmt::{self, Debug, Display};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vramscope_files::open_regular;
use vramscope_trace::ReadError;
use vramscope_trace::formats::{ReadOptions, Reader, Recording};

/// The location of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordingPlace {
    /// A path on this machine.
    Here(PathBuf),
    /// A file in a store.
    Stored(Stored),
}

/// A file in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its URL, such as `s3://bucket/run/rank3.pickle`.
    pub address: String,
    /// Its size in bytes.
    pub length: u64,
    /// Modification time in nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// The store's version of the file; it changes when the file is replaced.
    pub version: String,
}

/// Reads files from stores.
pub trait Store: Debug + Sync {
    /// Streams the contents of a file.
    ///
    /// # Errors
    /// A message if the store does not respond or denies access.
    fn open(&self, address: &str) -> Result<Box<dyn Read + Send>, String>;
}

impl Display for RecordingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(path) => Display::fmt(&path.display(), f),
            Self::Stored(stored) => f.write_str(&stored.address),
        }
    }
}

/// Reads a recording.
///
/// # Errors
/// A message with the reason.
pub fn read(
    place: &RecordingPlace,
    options: ReadOptions,
    store: Option<&dyn Store>,
) -> Result<Recording, String> {
    let read = match place {
        RecordingPlace::Here(path) => Reader::file(&open(path)?).options(options).read(),
        RecordingPlace::Stored(stored) => Reader::ahead(open_stored(stored, store)?).options(options).read(),
    };
    read.map_err(in_words)
}

/// Opens a file on this machine.
pub(crate) fn open(path: &Path) -> Result<File, String> {
    open_regular(path).map_err(|e| in_words(ReadError::open(path, e)))
}

/// Opens a file in a store.
pub(crate) fn open_stored(
    stored: &Stored,
    store: Option<&dyn Store>,
) -> Result<Box<dyn Read + Send>, String> {
    store.ok_or_else(|| "is in a store, which this program cannot read".to_owned())?.open(&stored.address)
}

/// Returns the error message without the name of the file, with advice.
pub(crate) fn in_words(e: ReadError) -> String {
    match e {
        ReadError::Open { why, .. } => why,
        ReadError::Expands { .. } => format!("{e}, or raise --max-expanded"),
        _ => e.to_string(),
    }
}
