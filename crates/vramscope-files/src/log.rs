//! Files that a process writes while it runs, and does not replace at the end.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::dir::{Entry, Place, locate, not_regular, parent};

/// Opens `path` for writing and keeps its contents, so that the caller can lock the file before it truncates it. Follows links. Creates
/// a regular file if none exists. Opens a pipe or a device as it is, and waits for the reader of a pipe.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if `path` is a link or a file of another user who is not root; otherwise errors of the operating
/// system.
pub fn open_log(path: &Path) -> io::Result<File> {
    match locate(path)? {
        Place::Descriptor(open) => Ok(open),
        Place::Name(dir, name) if dir.entry(&name)? == Entry::Special => dir.open_special(&name),
        Place::Name(dir, name) => dir.open_or_create(&name),
    }
}

/// Opens the regular file at `path` for reading, and for writing at its end. Follows links.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is not a regular file; [`io::ErrorKind::PermissionDenied`] if `path` is a link or a file of
/// another user who is not root; otherwise errors of the operating system.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    match locate(path)? {
        Place::Descriptor(_) => Err(not_regular()),
        Place::Name(dir, name) => dir.open_to_append(&name),
    }
}

/// Replaces the file at `path` by its neighbor `next`, and keeps the former file under the name `before`. All three names are in the folder
/// of `path`. Wherever the file system has hard links, `path` names a whole file at every moment.
///
/// # Errors
/// Errors of the operating system. `path` then names the former file.
pub fn rotate_log(path: &Path, next: &OsStr, before: &OsStr) -> io::Result<()> {
    let (dir, name) = parent(path)?;
    match dir.remove_file(before) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let has_links = dir.add_name(&name, before).is_ok();
    if !has_links {
        dir.rename(&name, before)?;
    }
    dir.rename(next, &name).inspect_err(|_| {
        if has_links {
            dir.remove_file(before).ok()
        } else {
            dir.rename(before, &name).ok()
        };
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_is_replaced_and_the_former_one_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [log, next, before] = ["log", "next", "before"].map(|name| folder.path().join(name));
        let rotate = || rotate_log(&log, "next".as_ref(), "before".as_ref());
        fs::write(&log, "1").unwrap();
        assert_eq!(rotate().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!before.exists());
        for number in ["2", "3"] {
            fs::write(&next, number).unwrap();
            rotate().unwrap();
        }
        let read = [&log, &before].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!((read, next.exists()), (["3".to_owned(), "2".to_owned()], false));
    }
}
