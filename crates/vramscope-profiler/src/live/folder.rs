//! The folders of a user's sockets.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use vramscope_files::Dir;

use super::LiveError;

/// Returns the folder of this user's sockets, and creates it if needed: `$XDG_RUNTIME_DIR/vramscope`, or `vramscope-UID` in the system's
/// temporary folder. If another user has taken that name, it is `vramscope-UID-` with 16 hexadecimal digits.
///
/// # Errors
/// The folder cannot be created, or is open to other users.
pub fn directory() -> Result<PathBuf, LiveError> {
    let [path, ..] = candidates();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(LiveError::io(&path)(e)),
        _ => match check(&path) {
            Ok(()) => Ok(path),
            Err(why) if is_of_another_user(&why) => own_name(&path),
            Err(why) => Err(why),
        },
    }
}

/// Returns the sockets of this user's programs, including sockets of ended programs. Covers programs with and without `XDG_RUNTIME_DIR` in
/// their environment. Skips folders of other users.
///
/// # Errors
/// The folder is open to other users.
pub fn sockets() -> Result<Vec<PathBuf>, LiveError> {
    let [first, second] = candidates();
    let mut found = match list(&first) {
        Err(why) if is_of_another_user(&why) => Vec::new(),
        listed => listed?,
    };
    let mut others = own_names(&second);
    if second != first {
        others.push(second);
    }
    for other in others {
        // This process creates nothing in these folders, so skip a folder that cannot be used.
        found.extend(list(&other).unwrap_or_default());
    }
    Ok(found)
}

/// Whether another user may have taken the name.
fn is_of_another_user(why: &LiveError) -> bool {
    matches!(why, LiveError::OthersFolder { .. } | LiveError::NotAFolder(_))
}

/// Returns a folder with an unpredictable name in place of `taken`: an existing one, or a new one.
fn own_name(taken: &Path) -> Result<PathBuf, LiveError> {
    if let Some(folder) = own_names(taken).into_iter().next() {
        return Ok(folder);
    }
    let failed = LiveError::io(taken);
    let name = || {
        let (parent, name) = (taken.parent()?, taken.file_name()?.to_str()?);
        Some((parent, format!("{name}-")))
    };
    let (parent, prefix) = name().ok_or_else(|| LiveError::NotAFolder(taken.to_owned()))?;
    let made = Dir::open(parent).and_then(|dir| dir.new_unpredictable_subdir(&prefix));
    made.map(|(name, _)| parent.join(name)).map_err(failed)
}

/// Returns the folders beside `taken` that this user's programs created because the name was taken, sorted by name.
fn own_names(taken: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (taken.parent(), taken.file_name()) else { return Vec::new() };
    let prefix = format!("{}-", name.to_string_lossy());
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let mut folders: Vec<_> = named.map(|entry| entry.path()).filter(|path| check(path).is_ok()).collect();
    folders.sort();
    folders
}

/// Returns the folder of this program's sockets, and the folder that other programs may use.
fn candidates() -> [PathBuf; 2] {
    let temporary = std::env::temp_dir().join(format!("vramscope-{}", user()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // By the specification, a relative path is ignored. The folder must belong to this user: after `su`, the variable may name another
    // user's folder.
    let own = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user());
    let runtime = runtime.filter(|path| path.is_absolute() && own(path));
    [runtime.map_or_else(|| temporary.clone(), |path| path.join("vramscope")), temporary]
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, LiveError> {
    match check(folder) {
        Err(LiveError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    // Follow links first, so that each socket has one path.
    let entries = fs::canonicalize(folder).and_then(fs::read_dir).map_err(LiveError::io(folder))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "sock")).collect();
    sockets.sort();
    Ok(sockets)
}

/// Checks that the folder belongs to this user and that no other user may enter it.
fn check(path: &Path) -> Result<(), LiveError> {
    let metadata = fs::symlink_metadata(path).map_err(LiveError::io(path))?;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    match () {
        () if !metadata.is_dir() => Err(LiveError::NotAFolder(path.to_owned())),
        () if owner != user() => Err(LiveError::OthersFolder { path: path.to_owned(), owner }),
        () if mode & 0o077 != 0 => Err(LiveError::OpenFolder { path: path.to_owned(), mode }),
        () => Ok(()),
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
