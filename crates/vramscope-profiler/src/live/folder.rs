//! Where the sockets of a user's programs are.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::LiveError;

/// The folder of this user's sockets, made where it is not there: `$XDG_RUNTIME_DIR/vramscope`, else
/// `vramscope-UID` in the system's folder for temporary files.
///
/// # Errors
/// Where it cannot be made, or belongs to another user, or is open to others.
pub fn directory() -> Result<PathBuf, LiveError> {
    let [path, ..] = candidates();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(LiveError::io(&path)(e)),
        _ => check(&path)?,
    }
    Ok(path)
}

/// The sockets of this user's programs, of which some may have ended. Programs with and without `XDG_RUNTIME_DIR` in their
/// environment are both found.
///
/// # Errors
/// Where the folder belongs to another user, or is open to others.
pub fn sockets() -> Result<Vec<PathBuf>, LiveError> {
    let [first, second] = candidates();
    let mut found = list(&first)?;
    if second != first {
        // This process puts nothing into the second folder, so it does not matter where that cannot be used.
        found.extend(list(&second).unwrap_or_default());
    }
    Ok(found)
}

/// Where this program puts its socket, and where others may have.
fn candidates() -> [PathBuf; 2] {
    let temporary = std::env::temp_dir().join(format!("vramscope-{}", user()));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // By its specification, a path that is not absolute is ignored. The folder must be this user's own: after `su`, the
    // variable may name another user's.
    let own = |path: &PathBuf| path.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user());
    let runtime = runtime.filter(|path| path.is_absolute() && own(path));
    [runtime.map_or_else(|| temporary.clone(), |path| path.join("vramscope")), temporary]
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, LiveError> {
    match check(folder) {
        Err(LiveError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    // Links are followed first, so that each socket is found under one path.
    let entries = fs::canonicalize(folder).and_then(fs::read_dir).map_err(LiveError::io(folder))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "sock")).collect();
    sockets.sort();
    Ok(sockets)
}

/// Whether the folder is this user's and nobody else may enter it.
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
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_folder_that_is_not_ones_own_alone_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vramscope");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        assert!(check(&path).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let said = check(&path).unwrap_err().to_string();
        let shown = path.display();
        assert_eq!(said, format!("{shown}: is open to other users (mode 750); run `chmod 700 {shown}`"));
        // The root folder belongs to root; a link may lead anywhere.
        if user() != 0 {
            assert!(matches!(check(Path::new("/")), Err(LiveError::OthersFolder { owner: 0, .. })));
        }
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(check(&link), Err(LiveError::NotAFolder(_))));
        if let Ok(()) = std::os::unix::fs::chown(&path, Some(12345), None) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            let said = check(&path).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{shown}: belongs to user 12345; ")), "{said}");
        }
    }

    #[test]
    fn sockets_are_listed_by_name_and_a_folder_that_is_not_there_has_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(list(&folder.path().join("none")).unwrap(), Vec::<PathBuf>::new());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["7.sock", "12.sock", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names = ["12.sock", "7.sock"].map(|name| folder.path().join(name));
        assert_eq!(list(folder.path()).unwrap(), names);
    }
}
