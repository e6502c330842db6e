//! Files and folders that other users cannot redirect.
//!
//! A user who can write to a folder can put a link, a pipe or a device under any name in it, at any moment. So nothing here
//! looks at a path first and opens it afterwards: folders are opened once ([`Dir`]), files are opened inside that folder without
//! following links, and kind and owner are asked of what was opened.
//!
//! On systems other than Unix the functions have the same results, and work with paths: there, folders for temporary files belong
//! to one user.

mod dir;
mod log;
mod open;
mod private;
mod replace;

use std::path::Path;
use std::{fs, io};

pub use dir::{Access, Dir};
pub use log::open_log;
pub use open::open_regular;
pub use private::PrivateFolder;
pub use replace::{Replacement, Target, Unfinished};

/// Whether both paths lead to one existing file, by device and inode: links and other names of a file count.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (dir::identity(one), dir::identity(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Creates a folder and those above it, where they are not there. Only this user can write to new ones.
///
/// # Errors
/// The system's own.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o755);
    builder.recursive(true).create(path)
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
