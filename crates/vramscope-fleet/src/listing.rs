//! The files that paths stand for: folders with what is in them, patterns of a shell, files.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use thiserror::Error;

use crate::bundle;
use crate::naming::Candidate;

/// How the names of recordings end, in small letters. A file that is named itself may be called anything.
const ENDINGS: [&str; 4] = ["pickle", "pkl", "json", "vramscope"];

/// How names end that were compressed.
const COMPRESSED: [&str; 3] = ["gz", "zst", "zstd"];

/// The files that were found, and what could not be looked at.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Each file once, with what names tell of it.
    pub files: Vec<(PathBuf, Candidate)>,
    /// What could not be looked at, a line each.
    pub notes: Vec<String>,
}

/// There is no file to look at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "no recording in {looked_at}: looked for files that end in {endings}, also with .gz or .zst; name others themselves"
)]
pub struct NoFiles {
    looked_at: String,
    endings: String,
}

/// Finds the recordings in `paths`: of a folder all that are called like recordings, in the folders in it, too, and of what a
/// flight recorder left the snapshot alone; of a pattern as
/// `runs/*/rank*.pickle` what it matches; any other path itself. What is hidden is left out.
///
/// # Errors
/// Where there is none.
pub fn list(paths: &[PathBuf]) -> Result<Listing, NoFiles> {
    let mut listing = Listing::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => listing.folder(path),
            Ok(metadata) => listing.file(path.clone(), Some(&metadata)),
            Err(_) => listing.pattern(path),
        }
    }
    listing.files.sort_by(|a, b| a.0.cmp(&b.0));
    listing.files.dedup_by(|a, b| a.0 == b.0);
    if listing.files.is_empty() {
        let looked_at: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let endings = ENDINGS.map(|ending| format!(".{ending}")).join(", ");
        return Err(NoFiles { looked_at: looked_at.join(", "), endings });
    }
    Ok(listing)
}

impl Listing {
    fn file(&mut self, path: PathBuf, metadata: Option<&Metadata>) {
        let name = path.display().to_string().replace('\\', "/");
        let told = bundle::of(&path).and_then(bundle::rank);
        let length = metadata.map_or(0, Metadata::len);
        let modified_ns = metadata.map_or(0, modified_ns);
        self.files.push((path, Candidate { name, told, length, modified_ns }));
    }

    /// What a shell would have made of a path that is none.
    fn pattern(&mut self, path: &Path) {
        let is_pattern = |text: &&str| text.contains(['*', '?', '[']);
        let matched = path.to_str().filter(is_pattern).and_then(|text| glob::glob(text).ok());
        let Some(matched) = matched else {
            return self.notes.push(format!("{}: there is no such file or folder", path.display()));
        };
        for found in matched.flatten() {
            match fs::metadata(&found) {
                Ok(metadata) if metadata.is_dir() => self.folder(&found),
                metadata => self.file(found, metadata.ok().as_ref()),
            }
        }
    }

    fn folder(&mut self, folder: &Path) {
        if bundle::is_bundle(folder) {
            return self.bundle(folder);
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => {
                return self.notes.push(format!("{}: {e}; what is in it is left out", folder.display()));
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            // A link to a folder may lead back to where it lies.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folder(&entry.path()),
                Ok(_) if is_called_recording(&name) => {
                    let metadata = fs::metadata(entry.path()).ok();
                    if metadata.as_ref().is_none_or(Metadata::is_file) {
                        self.file(entry.path(), metadata.as_ref());
                    }
                }
                _ => {}
            }
        }
    }

    /// What a flight recorder left: the other files of it are no recordings.
    fn bundle(&mut self, folder: &Path) {
        let snapshot = folder.join(bundle::SNAPSHOT);
        match fs::metadata(&snapshot) {
            Ok(metadata) => self.file(snapshot, Some(&metadata)),
            Err(_) => self.notes.push(format!(
                "{}: no history was recorded there, so that there is no {}",
                folder.display(),
                bundle::SNAPSHOT
            )),
        }
    }
}

/// Whether a file is called like a recording, and not like what lies beside one in a bundle.
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

/// When a file was last changed, in nanoseconds since the Unix epoch; 0 where nobody knows.
pub(crate) fn modified_ns(metadata: &Metadata) -> i64 {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_patterns_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for dir in ["host-a", "host-b", ".hidden"] {
            fs::create_dir(at(dir)).unwrap();
        }
        for name in [
            "host-a/rank0.pickle",
            "host-a/rank1.JSON.gz",
            "host-b/rank2.pkl.zst",
            "host-b/notes.txt",
            "host-b/.rank9.pickle",
            ".hidden/rank3.pickle",
        ] {
            fs::write(at(name), "x").unwrap();
        }
        let names = |paths: &[PathBuf]| {
            let found = list(paths).unwrap().files.into_iter();
            found
                .map(|(path, _)| path.strip_prefix(folder.path()).unwrap().display().to_string())
                .collect::<Vec<_>>()
        };
        let all = ["host-a/rank0.pickle", "host-a/rank1.JSON.gz", "host-b/rank2.pkl.zst"];
        assert_eq!(names(&[folder.path().to_owned()]), all);
        assert_eq!(names(&[at("host-a"), at("host-a/rank0.pickle")]), all[..2]);
        assert_eq!(names(&[at("*/rank[12]*")]), all[1..]);
        assert_eq!(names(&[at("host-b/notes.txt")]), ["host-b/notes.txt"]);
        for dir in ["dump_1", "dump_2"] {
            fs::create_dir(at(dir)).unwrap();
            fs::write(at(dir).join("manifest.json"), "{}").unwrap();
            fs::write(at(dir).join("environment.json"), r#"{"variables": {"RANK": "4"}}"#).unwrap();
        }
        fs::write(at("dump_1/snapshot.pickle"), "x").unwrap();
        assert!(
            !is_called_recording("s3://runs/dump_1/manifest.json")
                && is_called_recording("s3://runs/dump_1/rank0.json")
        );
        let left = list(&[at("dump_1"), at("dump_*")]).unwrap();
        assert_eq!(left.files.iter().map(|(_, file)| file.told).collect::<Vec<_>>(), [Some(4)]);
        let unrecorded = format!(
            "{}: no history was recorded there, so that there is no snapshot.pickle",
            at("dump_2").display()
        );
        assert_eq!(left.notes, [unrecorded]);
        assert_eq!(list(&[at("*/snapshot.pickle")]).unwrap().files, left.files);
        assert_eq!(list(&[at("host-a"), at("gone.pickle")]).unwrap().notes.len(), 1);
        assert_eq!(
            list(&[at("none*")]).unwrap_err().to_string(),
            format!(
                "no recording in {}: looked for files that end in .pickle, .pkl, .json, .vramscope, also with .gz or .zst; name others themselves",
                at("none*").display()
            )
        );
    }
}
