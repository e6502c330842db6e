//! [`Place`]: where a recording lies, on this machine or in a store that others read for us.

use std::fmt::{self, Debug, Display};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vramscope_files::open_regular;
use vramscope_trace::ReadError;
use vramscope_trace::formats::{self, ReadOptions, Recording};

/// Where a recording lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On this machine.
    Here(PathBuf),
    /// In a store.
    Stored(Stored),
}

/// A file in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its address, as `s3://bucket/run/rank3.pickle`.
    pub address: String,
    /// Its bytes.
    pub length: u64,
    /// When it was last written, in nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// What tells it from what had this address before, as the store says it.
    pub version: String,
}

/// Reads what lies in stores.
pub trait Store: Debug + Sync {
    /// The bytes of a file, as they arrive.
    ///
    /// # Errors
    /// In words where the store does not answer, or refuses.
    fn open(&self, address: &str) -> Result<Box<dyn Read + Send>, String>;
}

impl Display for Place {
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
/// In words: why it cannot be read.
pub fn read(place: &Place, options: ReadOptions, store: Option<&dyn Store>) -> Result<Recording, String> {
    match place {
        Place::Here(path) => {
            formats::read_file(options, &open(path).map_err(told)?, &mut |_| {}).map_err(in_words)
        }
        Place::Stored(stored) => {
            let bytes = open_stored(stored, store)?;
            formats::read_ahead(options, bytes, &mut |_| {}).map_err(in_words)
        }
    }
}

/// Opens a file of this machine.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_regular(path).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidInput => io::Error::other("is no regular file; name a recording"),
        _ => e,
    })
}

/// Opens a file of a store.
pub(crate) fn open_stored(
    stored: &Stored,
    store: Option<&dyn Store>,
) -> Result<Box<dyn Read + Send>, String> {
    store.ok_or_else(|| "lies in a store, which this program cannot read".to_owned())?.open(&stored.address)
}

pub(crate) fn told(e: io::Error) -> String {
    e.to_string()
}

/// What the reader says, and what can be done about it.
pub(crate) fn in_words(e: ReadError) -> String {
    match e {
        ReadError::Expands { .. } => format!("{e}, or give --max-expanded"),
        _ => e.to_string(),
    }
}
