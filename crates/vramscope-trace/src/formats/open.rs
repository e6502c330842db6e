//! Opens files that the user names, with errors that say what to do.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::ReadError;

/// Opens a file. Also returns its length if it is a regular file.
pub(super) fn open(path: &Path) -> Result<(File, Option<u64>), ReadError> {
    let opened = File::open(path).and_then(|file| {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((file, metadata.is_file().then_some(metadata.len())))
    });
    opened.map_err(|e| ReadError::open(path, e))
}

impl ReadError {
    /// The error for a file that could not be opened, with advice.
    pub fn open(path: &Path, error: io::Error) -> Self {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file; check the name, or give the full path".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "permission denied; let the owner of the file allow reading, or copy it".to_owned()
            }
            io::ErrorKind::IsADirectory => format!("is a directory; name {} in it", recordings_in(path)),
            io::ErrorKind::InvalidInput => "is not a regular file; name a recording".to_owned(),
            _ => format!("cannot be opened: {error}"),
        };
        Self::Open { path: path.to_owned(), why, error }
    }
}

/// The recording of an out-of-memory bundle, and its events; `log.jsonl` is their name in earlier versions of the format.
const BUNDLED: [&str; 3] = ["snapshot.pickle", "log.jsonl", "events.json"];

/// Returns the recording of an out-of-memory bundle, or else its events; `None` if the path is not the folder of a bundle.
pub fn in_bundle(folder: &Path) -> Option<PathBuf> {
    let is_bundle = folder.join("manifest.json").is_file();
    BUNDLED.iter().map(|name| folder.join(name)).find(|file| is_bundle && file.is_file())
}

/// The files to read in a folder, which may have those of a bundle.
fn recordings_in(folder: &Path) -> String {
    let mut found = BUNDLED.to_vec();
    found.retain(|name| folder.join(name).is_file());
    if found.is_empty() { "a snapshot".to_owned() } else { found.join(" or ") }
}
