//! Bundles: the folders that a flight recorder writes, one per out-of-memory failure, with facts next to the recording. Folder names
//! contain times and process IDs; the facts contain the rank.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use vramscope_files::open_regular;

/// File name of a bundle's recording. Missing if the program recorded no history.
pub(crate) const SNAPSHOT: &str = "snapshot.pickle";

/// File name of the facts about the process, including its environment variables.
const ENVIRONMENT: &str = "environment.json";

/// File name of the list of contents.
const MANIFEST: &str = "manifest.json";

/// Further files of a bundle whose names look like recordings.
pub(crate) const FACTS: [&str; 4] = [ENVIRONMENT, MANIFEST, "metadata.json", "events.json"];

/// Environment variables with the global rank of a process, set by torchrun, Open MPI and Slurm.
const RANKS: [&str; 3] = ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// Limit on the bytes of facts.
const MOST: u64 = 1 << 20;

/// Whether a folder is a bundle.
pub(crate) fn is_bundle(folder: &Path) -> bool {
    [ENVIRONMENT, MANIFEST]
        .iter()
        .all(|name| fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file()))
}

/// Returns the bundle that contains a recording.
pub(crate) fn of(recording: &Path) -> Option<&Path> {
    recording.parent().filter(|folder| recording.ends_with(SNAPSHOT) && is_bundle(folder))
}

/// Returns the rank of the process that wrote a bundle, if the facts contain it.
pub(crate) fn rank(bundle: &Path) -> Option<u64> {
    let mut facts = Vec::new();
    open_regular(&bundle.join(ENVIRONMENT)).ok()?.take(MOST).read_to_end(&mut facts).ok()?;
    let facts: Value = serde_json::from_slice(&facts).ok()?;
    RANKS.iter().find_map(|name| facts["variables"][name].as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_bundle_has_the_rank() {
        let folder = tempfile::tempdir().unwrap();
        let of = |facts: &str| {
            fs::write(folder.path().join(ENVIRONMENT), facts).unwrap();
            rank(folder.path())
        };
        assert_eq!(of(r#"{"pid": 1, "variables": {"LOCAL_RANK": "1", "RANK": "9"}}"#), Some(9));
        assert_eq!(of(r#"{"variables": {"SLURM_PROCID": "3"}}"#), Some(3));
        for other in
            [r#"{"variables": {"LOCAL_RANK": "1"}}"#, r#"{"variables": {"RANK": "-1"}}"#, "[]", "", "{"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert!(!is_bundle(folder.path()));
        fs::write(folder.path().join(MANIFEST), "{}").unwrap();
        assert!(is_bundle(folder.path()));
    }
}
