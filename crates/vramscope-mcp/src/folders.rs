//! Access to recordings: only in the allowed folders.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use vramscope_report::Shown;

/// The allowed folders, as canonical paths.
#[derive(Debug)]
pub(super) struct Folders(Vec<PathBuf>);

impl Folders {
    /// Allows these folders and their contents.
    ///
    /// # Errors
    /// A path does not exist, or is not a folder.
    pub(super) fn new(allowed: &[PathBuf]) -> anyhow::Result<Self> {
        let folder = |path: &PathBuf| {
            let found = path.canonicalize().with_context(|| format!("--allow {}", path.display()))?;
            if !found.is_dir() {
                bail!("--allow {}: is not a folder", path.display());
            }
            Ok(found)
        };
        Ok(Self(allowed.iter().map(folder).collect::<anyhow::Result<_>>()?))
    }

    /// Opens a regular file in one of the folders. The check uses the target of the path, so `..` and links are allowed if the target
    /// is inside. A relative path is resolved from the current folder, then from each allowed folder.
    ///
    /// # Errors
    /// The file does not exist. Files outside of the folders give the same error.
    pub(super) fn open(&self, asked: &str) -> anyhow::Result<(PathBuf, File)> {
        let shown = super::shown(asked);
        let Some(path) = self.find(Path::new(asked)) else {
            bail!(
                "{shown}: no such file in {}; name a file there, or let the user allow another folder (vramscope mcp --allow DIR)",
                self.names()
            );
        };
        let kind = fs::symlink_metadata(&path).with_context(|| shown.to_string())?;
        if kind.is_dir() {
            bail!("{shown}: is a folder; name a recording in it");
        }
        // Checked before opening, because opening a pipe wakes its writer.
        if !kind.is_file() {
            bail!("{shown}: is not a regular file; name a recording");
        }
        let file = read_only().open(&path).with_context(|| shown.to_string())?;
        // The path may refer to another file by now.
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_regular || !self.holds(&place_of(&file, &path)) {
            bail!("{shown}: was replaced while it was being opened; try again");
        }
        Ok((path, file))
    }

    /// The folders, for messages.
    pub(super) fn names(&self) -> String {
        self.0
            .iter()
            .map(|folder| Shown::of(&folder.to_string_lossy()).into())
            .collect::<Vec<String>>()
            .join(", ")
    }

    /// The canonical target of `asked`, if it is in one of the folders.
    fn find(&self, asked: &Path) -> Option<PathBuf> {
        let beginnings = std::iter::once(Path::new("")).chain(self.0.iter().map(PathBuf::as_path));
        let found = beginnings.filter_map(|folder| folder.join(asked).canonicalize().ok());
        found.into_iter().find(|path| self.holds(path))
    }

    /// Whether a canonical path is in one of the folders.
    fn holds(&self, path: &Path) -> bool {
        self.0.iter().any(|folder| path.starts_with(folder))
    }
}

/// Options that open for reading only, follow no link and do not wait for a pipe's writer.
fn read_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    options
}

/// The path of an open file according to the system; `path` if the system does not provide it.
fn place_of(file: &File, path: &Path) -> PathBuf {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_else(|_| path.to_owned())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_inside_the_folder_opens_in_every_spelling() {
        let all = tempfile::tempdir().unwrap();
        let inside = all.path().join("inside");
        fs::create_dir_all(inside.join("deeper")).unwrap();
        fs::write(inside.join("a.json"), "a").unwrap();
        let folders = Folders::new(std::slice::from_ref(&inside)).unwrap();
        let absolute = inside.join("a.json").display().to_string();
        let around = format!("{}/../inside/a.json", inside.display());
        for asked in ["a.json", "./deeper/../a.json", &absolute, &around] {
            let (path, _) = folders.open(asked).unwrap();
            assert_eq!(path, inside.join("a.json").canonicalize().unwrap(), "{asked}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(inside.join("a.json"), inside.join("link")).unwrap();
            folders.open("link").unwrap();
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_path_outside_the_folder_is_refused_in_one_line() {
        use std::os::unix::fs::symlink;

        let all = tempfile::tempdir().unwrap();
        let [inside, outside, beside] = ["inside", "outside", "inside-too"].map(|name| all.path().join(name));
        for folder in [&inside, &outside, &beside] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("secret.json"), "s").unwrap();
        }
        fs::remove_file(inside.join("secret.json")).unwrap();
        fs::create_dir(inside.join("folder")).unwrap();
        symlink(outside.join("secret.json"), inside.join("link")).unwrap();
        symlink(&outside, inside.join("folder-link")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        symlink("/dev/zero", inside.join("zero")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        let folders = Folders::new(std::slice::from_ref(&inside)).unwrap();
        let none = "no such file in";
        let absolute = outside.join("secret.json").display().to_string();
        let long = "x/".repeat(100_000);
        for (asked, why) in [
            ("none.json", none),
            ("../outside/secret.json", none),
            ("../inside-too/secret.json", none),
            (&absolute, none),
            ("link", none),
            ("folder-link/secret.json", none),
            ("loop", none),
            ("zero", none),
            ("/dev/zero", none),
            ("/proc/self/environ", none),
            ("/", none),
            ("a\0b", none),
            ("a\nb", none),
            (&long, none),
            ("", "is a folder"),
            (".", "is a folder"),
            ("folder", "is a folder"),
            ("pipe", "is not a regular file"),
            ("socket", "is not a regular file"),
        ] {
            let error = format!("{:#}", folders.open(asked).unwrap_err());
            assert!(error.contains(why) && !error.contains('\n') && error.len() < 1000, "{asked}: {error}");
        }
    }

    #[test]
    fn only_folders_are_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (path, why) in [(file.path(), "is not a folder"), (Path::new("/does/not/exist"), "No such file")]
        {
            let error = format!("{:#}", Folders::new(&[path.to_owned()]).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
