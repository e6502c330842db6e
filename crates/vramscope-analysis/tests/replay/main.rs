//! Recordings run again: rules, whole recordings, other settings.

mod data;

use std::path::PathBuf;

/// Where larger recordings lie, if they do.
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("VRAMSCOPE_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: there is no {}; VRAMSCOPE_DATA names another place", folder.display());
    None
}
