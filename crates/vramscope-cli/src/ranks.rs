//! Finds the recordings for paths, on this machine and in stores, and their ranks.

use std::path::PathBuf;

use anyhow::bail;
use regex::Regex;
use vramscope::fleet::{Candidate, NoFiles, RankFile, RecordingPlace, Store, Stored, list, ranks};

use crate::say::say;

/// How to install a command with features that need much larger libraries.
#[cfg(not(feature = "rollup"))]
pub(crate) const WITH_ROLLUP: &str = "install one with `cargo install vramscope-cli --features rollup`";

/// The recordings of a job.
pub(crate) struct RankFiles {
    /// Sorted by rank.
    pub(crate) files: Vec<RankFile>,
    /// How the rank was found; completes "ranks by".
    pub(crate) rule: String,
    /// Notes about files that were left out, one line each; already printed.
    pub(crate) notes: Vec<String>,
}

/// Finds the recordings in `paths`.
pub(crate) fn find(paths: &[PathBuf], rank: Option<&Regex>) -> anyhow::Result<RankFiles> {
    let address = |path: &PathBuf| path.to_str().filter(|path| is_address(path)).map(str::to_owned);
    let (remote, local): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| address(path).is_some());
    let (stored, mut notes) = stored(remote.iter().filter_map(address))?;
    let mut files: Vec<(RecordingPlace, Candidate)> = Vec::new();
    match list(&local) {
        Ok(listing) => {
            notes.extend(listing.notes);
            files.extend(listing.files.into_iter().map(|(path, file)| (RecordingPlace::Here(path), file)));
        }
        Err(too_many @ NoFiles::TooMany { .. }) => return Err(too_many.into()),
        Err(none) if stored.is_empty() => match notes.as_slice() {
            [] => return Err(none.into()),
            notes => bail!("{}", notes.join("; ")),
        },
        Err(none) if !local.is_empty() => notes.push(none.to_string()),
        Err(_) => {}
    }
    files.extend(stored.into_iter().map(|file| {
        let Stored { address, length, modified_ns, .. } = &file;
        let candidate =
            Candidate { name: address.clone(), told: None, length: *length, modified_ns: *modified_ns };
        (RecordingPlace::Stored(file), candidate)
    }));
    let candidates: Vec<Candidate> = files.iter().map(|(_, file)| file.clone()).collect();
    let found = ranks(&candidates, rank)?;
    notes.extend(found.notes);
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    let files = found.files.into_iter().map(|(rank, at)| {
        let (place, file) = &files[at];
        RankFile { rank, place: place.clone(), length: file.length }
    });
    Ok(RankFiles { files: files.collect(), rule: found.rule, notes })
}

/// The recordings that are files on this machine.
pub(crate) fn on_this_machine(files: &[RankFile]) -> Vec<PathBuf> {
    let path = |file: &RankFile| match &file.place {
        RecordingPlace::Here(path) => Some(path.clone()),
        RecordingPlace::Stored(_) => None,
    };
    files.iter().filter_map(path).collect()
}

/// Whether a path is a URL of a store.
fn is_address(path: &str) -> bool {
    ["s3://", "gs://", "http://", "https://"].iter().any(|scheme| path.starts_with(scheme))
}

/// The recordings in stores, and a note for each URL without one.
#[cfg(feature = "rollup")]
fn stored(addresses: impl Iterator<Item = String>) -> anyhow::Result<(Vec<Stored>, Vec<String>)> {
    use vramscope::fleet::is_called_recording;
    use vramscope_rollup::list_stored;

    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for address in addresses {
        let is_recording = |file: &Stored| file.address == address || is_called_recording(&file.address);
        match list_stored(&address) {
            Ok(files) if files.iter().any(is_recording) => {
                found.extend(files.into_iter().filter(is_recording));
            }
            Ok(_) => notes.push(format!("{address}: contains no recording")),
            Err(why) => notes.push(format!("{address}: {why}")),
        }
    }
    found.sort_by(|a, b| a.address.cmp(&b.address));
    found.dedup_by(|a, b| a.address == b.address);
    Ok((found, notes))
}

#[cfg(not(feature = "rollup"))]
fn stored(mut addresses: impl Iterator<Item = String>) -> anyhow::Result<(Vec<Stored>, Vec<String>)> {
    match addresses.next() {
        Some(address) => bail!("{address}: this build of vramscope has no store support; {WITH_ROLLUP}"),
        None => Ok((Vec::new(), Vec::new())),
    }
}

/// The reader of recordings in stores, if it is built in.
pub(crate) fn store() -> Option<&'static dyn Store> {
    #[cfg(feature = "rollup")]
    return Some(&vramscope_rollup::Stores);
    #[cfg(not(feature = "rollup"))]
    None
}
