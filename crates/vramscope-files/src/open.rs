//! Files that the user names, directly or by folders and patterns.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::dir::not_regular;

/// Opens a regular file for reading. Follows links. Never waits for pipes and never reads from other special files.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `path` does not lead to a regular file; otherwise errors of the operating system.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Checked before the open, because opening a device can have effects. Checked again below, because the file may have been replaced.
    if !fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let file = without_waiting(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Opens `path` for reading. Does not wait for the writer of a pipe.
#[cfg(unix)]
fn without_waiting(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(not(unix))]
fn without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn links_are_followed_and_pipes_and_devices_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        assert!(open_regular(&at("file")).is_ok() && open_regular(&at("link")).is_ok());
        for other in ["zero", "pipe", "."] {
            assert_eq!(open_regular(&at(other)).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{other}");
        }
    }
}
