//! Files and folders that other users cannot redirect.
//!
//! A user who can write to a folder can create a link, a pipe or a device under any name in it, at any time. A check of a path followed
//! by an open of that path is therefore unsafe. Instead, this crate opens a folder once ([`Dir`]), opens files inside that folder
//! without following links, and checks kind and owner of the open file.
//!
//! On systems other than Unix, the functions have the same results but work with paths, because each user has a separate folder for
//! temporary files.
//!
//! # Modules
//! - `dir`: open folders, and the files in them.
//! - `open`: input files that the user names.
//! - `replace`: atomic replacement of a file.
//! - `private`: folders of this user alone.
//! - `log`: files that grow while a program writes them.

mod dir;
mod log;
mod open;
mod private;
mod replace;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub use dir::{Access, Dir};
pub use log::{open_log, open_to_append, rotate_log};
pub use open::open_regular;
pub use private::PrivateFolder;
pub use replace::{Destination, Replacement, Target, Unfinished};

/// Whether both paths lead to the same existing file. Compares device and inode, so links and hard links count.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (dir::identity(one), dir::identity(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Creates a folder and its missing parents. Only this user can write to new folders.
///
/// # Errors
/// Errors of the operating system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.recursive(true).create(path)
}

/// Inserts a suffix before the extension of a file's name: `run.pickle` and `-rank3` give `run-rank3.pickle`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Returns a path list for an environment variable: `first`, then this process's own value of the variable.
pub fn with_first(first: &Path, variable: &str) -> OsString {
    let mut paths = first.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        paths.push(":");
        paths.push(rest);
    }
    paths
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_inserted_before_the_extension() {
        assert_eq!(with_suffix(Path::new("a/run.pickle"), "-rank3"), Path::new("a/run-rank3.pickle"));
        assert_eq!(with_suffix(Path::new("run"), "-2"), Path::new("run-2"));
    }
}
