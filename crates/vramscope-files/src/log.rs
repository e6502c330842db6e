//! Files that a process writes while it runs, and does not replace at the end.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::dir::{is_special, locate};

/// Opens `path` for writing and keeps its contents, so that the caller can lock the file before it truncates it. Follows links. Creates
/// a regular file if none exists. Opens a pipe or a device as it is.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if `path` is a link owned by another user who is not root; otherwise errors of the operating system.
pub fn open_log(path: &Path) -> io::Result<File> {
    let (dir, name) = locate(path)?;
    if is_special(path, &dir, &name) {
        return File::options().write(true).open(path);
    }
    dir.open_or_create(&name)
}
