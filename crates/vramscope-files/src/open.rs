//! Files that the user named, or that folders and patterns lead to.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens the regular file that `path` leads to for reading; links are followed. What is no regular file is neither waited for nor read.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for what is no regular file; else the system's own.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Asked first, because opening a device can act on it; asked again, because another file may stand there by then.
    if !fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let file = without_waiting(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Opens a pipe without waiting for its writer.
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

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
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
