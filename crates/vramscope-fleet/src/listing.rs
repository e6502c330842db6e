//! Finds the files for paths: folders with their contents, shell patterns, files.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use thiserror::Error;

use crate::bundle;
use crate::naming::Candidate;
use crate::pattern::{self, MOST_FOLDERS, TooManyFolders};

/// Endings of the names of recordings, in lower case. A file that is given by name may have any name.
const ENDINGS: [&str; 6] = ["pickle", "pkl", "json", "vramscope", "sqlite", "prof"];

/// Endings of compressed files.
const COMPRESSED: [&str; 3] = ["gz", "zst", "zstd"];

/// The files that were found, and notes about others.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Each file once, with the facts that its name and folder contain.
    pub files: Vec<(PathBuf, Candidate)>,
    /// Files and folders that could not be used, one line each.
    pub notes: Vec<String>,
}

/// Limit on the notes of a listing; further ones are only counted.
const MOST_NOTES: usize = 20;

/// Why no recordings were listed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoFiles {
    /// The paths contain no recording.
    #[error(
        "no recording in {looked_at}: searched for files that end in {endings}, optionally followed by .gz or .zst; give other files by name"
    )]
    None {
        /// The paths.
        looked_at: String,
        /// The endings of the names of recordings.
        endings: String,
    },
    /// A path does not exist, and the other paths contain no recording.
    #[error("{}: no such file or folder; check the name, or give the full path", .0.display())]
    Missing(PathBuf),
    /// A pattern matches more folders than the limit.
    #[error("{pattern}: matches more than {most} folders; give the folders of the recordings instead")]
    TooMany {
        /// The pattern.
        pattern: String,
        /// The limit on the folders of a pattern.
        most: usize,
    },
}

/// Finds the recordings in `paths`.
///
/// A folder stands for all files in it and in its subfolders that are named like recordings; the folder of a flight recorder stands for
/// its snapshot only. A pattern such as `runs/*/rank*.pickle` stands for the matching paths, and any other path for itself. Hidden files,
/// links to folders, pipes and devices in folders are left out; `**` in a pattern follows no links.
///
/// # Errors
/// [`NoFiles`] if there is no recording, or if a pattern matches too many folders.
pub fn list(paths: &[PathBuf]) -> Result<Listing, NoFiles> {
    let mut search = Search::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => search.folder(path),
            Ok(metadata) => search.file(path.clone(), Some(&metadata)),
            Err(_) => search.pattern(path)?,
        }
    }
    let Search { mut listing, more_notes, missing, .. } = search;
    listing.files.sort_by(|a, b| a.0.cmp(&b.0));
    listing.files.dedup_by(|a, b| a.0 == b.0);
    if listing.files.is_empty() {
        if let Some(path) = missing {
            return Err(NoFiles::Missing(path));
        }
        let looked_at: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let endings = ENDINGS.map(|ending| format!(".{ending}")).join(", ");
        return Err(NoFiles::None { looked_at: looked_at.join(", "), endings });
    }
    if more_notes > 0 {
        listing.notes.push(format!("{more_notes} more files and folders are left out"));
    }
    Ok(listing)
}

/// A listing in progress.
#[derive(Debug, Default)]
struct Search {
    listing: Listing,
    /// Notes beyond the first [`MOST_NOTES`].
    more_notes: usize,
    /// The first path that does not exist.
    missing: Option<PathBuf>,
    /// Folders that were listed: matches of a pattern may contain each other.
    listed: BTreeSet<PathBuf>,
}

impl Search {
    fn note(&mut self, note: String) {
        if self.listing.notes.len() < MOST_NOTES {
            self.listing.notes.push(note);
        } else {
            self.more_notes += 1;
        }
    }

    /// A file in a folder or a match of a pattern. A dangling link is kept, so that reading it reports the error.
    fn found(&mut self, path: PathBuf) {
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => {
                self.note(format!("{}: is not a regular file; it is left out", path.display()));
            }
            metadata => self.file(path, metadata.ok().as_ref()),
        }
    }

    fn file(&mut self, path: PathBuf, metadata: Option<&Metadata>) {
        let name = path.display().to_string().replace('\\', "/");
        let told = bundle::of(&path).and_then(bundle::rank);
        let length = metadata.map_or(0, Metadata::len);
        let modified_ns = metadata.map_or(0, modified_ns);
        self.listing.files.push((path, Candidate { name, told, length, modified_ns }));
    }

    /// Handles a path that does not exist: a pattern, or a mistake.
    fn pattern(&mut self, path: &Path) -> Result<(), NoFiles> {
        match path.to_str().and_then(|text| pattern::matches(text, MOST_FOLDERS)) {
            None => {
                self.note(format!("{}: no such file or folder", path.display()));
                self.missing.get_or_insert_with(|| path.to_owned());
            }
            Some(Err(TooManyFolders)) => {
                return Err(NoFiles::TooMany { pattern: path.display().to_string(), most: MOST_FOLDERS });
            }
            Some(Ok(matched)) => {
                for path in matched {
                    if path.is_dir() { self.folder(&path) } else { self.found(path) }
                }
            }
        }
        Ok(())
    }

    fn folder(&mut self, folder: &Path) {
        if !self.listed.insert(folder.to_owned()) {
            return;
        }
        if bundle::is_bundle(folder) {
            return self.bundle(folder);
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => {
                return self.note(format!("{}: {e}; its contents are left out", folder.display()));
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            // Links to folders are skipped, because they may lead back to this folder.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folder(&entry.path()),
                Ok(_) if is_called_recording(&name) => self.found(entry.path()),
                _ => {}
            }
        }
    }

    /// The folder of a flight recorder: only its snapshot is a recording.
    fn bundle(&mut self, folder: &Path) {
        let snapshot = folder.join(bundle::SNAPSHOT);
        match fs::metadata(&snapshot) {
            Ok(_) => self.found(snapshot),
            Err(_) => self.note(format!(
                "{}: contains no {}, because no history was recorded",
                folder.display(),
                bundle::SNAPSHOT
            )),
        }
    }
}

/// Whether a file has the name of a recording, and is not another file of a bundle.
#[must_use]
pub fn is_called_recording(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    if bundle::FACTS.contains(&name.as_str()) {
        return false;
    }
    let plain =
        COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending)?.strip_suffix('.')).unwrap_or(&name);
    plain.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Returns the modification time in nanoseconds since the Unix epoch; 0 if unknown.
pub(crate) fn modified_ns(metadata: &Metadata) -> i64 {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
