//! Files that are written from their beginning while a program runs, and are not replaced at the end.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::dir::{is_special, locate};

/// Opens `path` for writing and leaves its contents: the caller locks it before it empties it. A regular file is created where there
/// is none; links to it are followed. A pipe or a device is opened as it is.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] where `path` is a link of another user's, who is not root; else the system's own.
pub fn open_log(path: &Path) -> io::Result<File> {
    let (dir, name) = locate(path)?;
    if is_special(path, &dir, &name) {
        return File::options().write(true).open(path);
    }
    dir.open_or_create(&name)
}
