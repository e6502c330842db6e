//! Source files for the page, from folders that the user named. Nothing outside of these folders is read.
//!
//! A request names a frame of a recording, never a path. The frame's recorded path is compared with the paths of the regular files in the
//! folders, component by component from the end. Links are not followed, neither while listing nor while reading.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use vramscope_files::Dir;

/// Requests the text of a frame's source file.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceQuery {
    pub(crate) frame: usize,
    /// The chosen file, if several match equally well: a position in `Source.files`.
    pub(crate) choice: Option<usize>,
}

/// The source file of a frame, from the folders of `--source`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Source {
    /// The folders as the user named them; empty without `--source`.
    pub(crate) folders: Vec<String>,
    /// The files that share most of the end of the recorded path, equally well.
    pub(crate) files: Vec<SourceFile>,
    /// The position of the read file in `files`; null if none or several match.
    pub(crate) taken: Option<usize>,
    /// Its text; null if it was not read.
    pub(crate) text: Option<String>,
    /// Why it was not read.
    pub(crate) why: Option<String>,
}

/// A file that matches a recorded path.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    /// The number of equal components at the end of both paths, and that of the recorded path.
    pub(crate) equal: usize,
    pub(crate) recorded: usize,
}

/// The maximum number of listed files and folders in each named folder.
const MOST_FILES: usize = 200_000;

/// The maximum depth of a listed file.
const DEEPEST: usize = 64;

/// The maximum size of a shown file in bytes.
const LARGEST: u64 = 4 << 20;

/// The maximum number of files among which the user chooses.
const MOST_CHOICES: usize = 50;

/// The maximum number of components of a recorded path that are compared.
const MOST_COMPONENTS: usize = 256;

/// Folders with the sources of recorded programs.
#[derive(Debug, Default)]
pub struct SourceFolders {
    folders: Vec<Folder>,
}

#[derive(Debug)]
struct Folder {
    /// As the user named it.
    named: PathBuf,
    /// The components of its canonical path.
    components: Vec<String>,
    dir: Dir,
    listing: OnceLock<Listing>,
}

/// The regular files of a folder.
#[derive(Debug, Default)]
struct Listing {
    /// The folders, each as the names that lead to it from the named folder.
    folders: Vec<Vec<OsString>>,
    /// For each file name, the positions of the folders with such a file.
    files: HashMap<String, Vec<u32>>,
    is_complete: bool,
}

impl Listing {
    fn of(root: &Path) -> Self {
        let mut listing = Self { is_complete: true, ..Self::default() };
        let mut rest = MOST_FILES;
        let mut waiting: Vec<Vec<OsString>> = vec![Vec::new()];
        while let Some(folder) = waiting.pop() {
            let number = listing.folders.len() as u32;
            let path = folder.iter().fold(root.to_owned(), |path, name| path.join(name));
            // A folder that cannot be listed has no files.
            let Ok(entries) = fs::read_dir(path) else { continue };
            for entry in entries.flatten() {
                // The kind of the entry itself: a link is neither a folder nor a file.
                let Ok(kind) = entry.file_type() else { continue };
                if rest == 0 {
                    listing.is_complete = false;
                    break;
                }
                rest -= 1;
                let name = entry.file_name();
                if kind.is_dir() && name != ".git" && folder.len() < DEEPEST {
                    waiting.push(folder.iter().cloned().chain([name]).collect());
                } else if kind.is_file() {
                    let name = name.to_string_lossy().into_owned();
                    listing.files.entry(name).or_default().push(number);
                }
            }
            listing.folders.push(folder);
        }
        listing
    }
}

/// A file with the same name as a recorded one.
struct Candidate<'f> {
    folder: &'f Folder,
    inside: &'f [OsString],
    /// The number of equal components at the end of both paths.
    equal: usize,
}

impl Candidate<'_> {
    fn path(&self, name: &str) -> String {
        let inside = self.inside.iter().fold(self.folder.named.clone(), |path, name| path.join(name));
        inside.join(name).display().to_string()
    }
}

impl SourceFolders {
    /// Opens the folders.
    ///
    /// # Errors
    /// The path that is not a folder or cannot be opened, and the cause.
    pub fn open(paths: &[PathBuf]) -> Result<Self, (PathBuf, io::Error)> {
        let folder = |named: &PathBuf| {
            let open = || {
                let whole = fs::canonicalize(named)?;
                let components = whole.components().map(|c| c.as_os_str().to_string_lossy().into_owned());
                let components = components.collect();
                Ok(Folder {
                    named: named.clone(),
                    components,
                    dir: Dir::open(&whole)?,
                    listing: OnceLock::new(),
                })
            };
            open().map_err(|e| (named.clone(), e))
        };
        Ok(Self { folders: paths.iter().map(folder).collect::<Result<_, _>>()? })
    }

    /// Finds and reads the source of a recorded file. `choice` is a position among the files that match equally well.
    pub(crate) fn read(&self, recorded: &str, choice: Option<usize>) -> Source {
        let folders = self.folders.iter().map(|folder| folder.named.display().to_string()).collect();
        let mut source = Source { folders, files: Vec::new(), taken: None, text: None, why: None };
        let wanted: Vec<&str> =
            recorded.split(['/', '\\']).filter(|part| !part.is_empty()).rev().take(MOST_COMPONENTS).collect();
        let Some(name) = wanted.first() else { return source };
        let candidates = self.candidates(&wanted);
        source.files = candidates
            .iter()
            .map(|one| SourceFile { path: one.path(name), equal: one.equal, recorded: wanted.len() })
            .collect();
        let at = choice.or((candidates.len() == 1).then_some(0));
        let Some((at, taken)) = at.and_then(|at| Some((at, candidates.get(at)?))) else {
            let is_cut = self.folders.iter().any(|of| of.listing.get().is_some_and(|of| !of.is_complete));
            source.why = (candidates.is_empty() && is_cut)
                .then(|| format!("only the first {MOST_FILES} files and folders of a folder are known"));
            return source;
        };
        source.taken = Some(at);
        match read(&taken.folder.dir, taken.inside, OsStr::new(name)) {
            Ok(bytes) => source.text = Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
                source.why = Some(format!("the file is larger than {}", vramscope_report::bytes(LARGEST)));
            }
            Err(e) => source.why = Some(format!("the file cannot be read: {e}")),
        }
        source
    }

    /// The files that share most components with a recorded path, whose components are in `wanted`, the last one first.
    fn candidates(&self, wanted: &[&str]) -> Vec<Candidate<'_>> {
        let mut all = Vec::new();
        for folder in &self.folders {
            let listing = folder.listing.get_or_init(|| {
                let root: PathBuf = folder.components.iter().collect();
                Listing::of(&root)
            });
            for &at in wanted.first().and_then(|name| listing.files.get(*name)).into_iter().flatten() {
                let inside = listing.folders[at as usize].as_slice();
                let above = inside.iter().rev().map(|name| name.to_string_lossy());
                let whole = above.chain(folder.components.iter().rev().map(|name| name.as_str().into()));
                let equal = 1 + whole.zip(&wanted[1..]).take_while(|(a, b)| a == *b).count();
                all.push(Candidate { folder, inside, equal });
            }
        }
        let most = all.iter().map(|one| one.equal).max().unwrap_or_default();
        all.retain(|one| one.equal == most);
        all.sort_by(|a, b| (&a.folder.named, a.inside).cmp(&(&b.folder.named, b.inside)));
        all.truncate(MOST_CHOICES);
        all
    }
}

/// Reads a file of a folder without following links.
fn read(root: &Dir, inside: &[OsString], name: &OsStr) -> io::Result<Vec<u8>> {
    let Some((first, rest)) = inside.split_first() else { return root.read_file(name, LARGEST) };
    let mut dir = root.subdir(first)?;
    for name in rest {
        dir = dir.subdir(name)?;
    }
    dir.read_file(name, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files, each with its path as its text.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        dir
    }

    fn open(dir: &tempfile::TempDir) -> SourceFolders {
        SourceFolders::open(&[dir.path().to_owned()]).unwrap()
    }

    #[test]
    fn the_longest_common_end_of_the_path_decides() {
        let dir = folder(&["train.py", "a/model.py", "b/model.py", "b/x/model.py"]);
        let folders = open(&dir);
        let text = |recorded: &str| folders.read(recorded, None).text;
        assert_eq!(text("/build/7/train.py").unwrap(), "train.py");
        assert_eq!(text("/build/a/model.py").unwrap(), "a/model.py");
        assert_eq!(text("C:\\build\\b\\x\\model.py").unwrap(), "b/x/model.py");
        // The whole path is equal, because the folder is the recorded one.
        let here = dir.path().canonicalize().unwrap().join("b/model.py");
        assert_eq!(text(here.to_str().unwrap()).unwrap(), "b/model.py");
        // Two files match equally well; the user chooses.
        let several = folders.read("/build/x/y/model.py", None);
        assert_eq!((several.text, several.taken), (None, None));
        let equal: Vec<(String, usize)> = several.files.iter().map(|f| (f.path.clone(), f.equal)).collect();
        let path = |inside: &str| dir.path().join(inside).display().to_string();
        assert_eq!(equal, ["a/model.py", "b/model.py", "b/x/model.py"].map(|inside| (path(inside), 1)));
        let chosen = folders.read("/build/x/y/model.py", Some(1));
        assert_eq!((chosen.text.as_deref(), chosen.taken), (Some("b/model.py"), Some(1)));
        assert_eq!(folders.read("/build/x/y/model.py", Some(3)).text, None);
    }

    #[test]
    fn hostile_names_read_nothing() {
        let dir = folder(&["in/train.py"]);
        fs::write(dir.path().join("secret.py"), "secret").unwrap();
        let inside = SourceFolders::open(&[dir.path().join("in")]).unwrap();
        let long = format!("{}train.py", "../".repeat(100_000));
        for recorded in [
            "",
            "/",
            "..",
            "../secret.py",
            "in/../secret.py",
            "/etc/passwd",
            "train.py/..",
            "train.py\0",
            "secret.py",
            "<string>",
            "??",
            ".",
        ] {
            let read = inside.read(recorded, Some(0));
            assert_eq!((read.text, read.files.len()), (None, 0), "{recorded:?}");
        }
        assert_eq!(inside.read(&long, None).text.unwrap(), "in/train.py");
        // Without the option, there are no folders.
        let none = SourceFolders::default().read("train.py", Some(0));
        assert!(none.folders.is_empty() && none.files.is_empty() && none.text.is_none());
        let missing = SourceFolders::open(&[dir.path().join("missing")]).unwrap_err();
        assert_eq!(missing.1.kind(), io::ErrorKind::NotFound);
        assert!(SourceFolders::open(&[dir.path().join("secret.py")]).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let outside = folder(&["secret.py", "deep/other.py"]);
        let dir = folder(&["train.py", "pkg/model.py"]);
        symlink(outside.path().join("secret.py"), dir.path().join("secret.py")).unwrap();
        symlink(outside.path().join("deep"), dir.path().join("deep")).unwrap();
        // A link in a circle.
        symlink(dir.path(), dir.path().join("pkg/again")).unwrap();
        let folders = open(&dir);
        for name in ["/x/secret.py", "/x/deep/other.py"] {
            assert!(folders.read(name, Some(0)).files.is_empty(), "{name}");
        }
        assert_eq!(folders.read("/x/pkg/model.py", None).text.unwrap(), "pkg/model.py");
        // A link that replaces a listed file or folder later.
        fs::remove_file(dir.path().join("train.py")).unwrap();
        symlink(outside.path().join("secret.py"), dir.path().join("train.py")).unwrap();
        fs::rename(dir.path().join("pkg"), dir.path().join("old")).unwrap();
        symlink(dir.path().join("old"), dir.path().join("pkg")).unwrap();
        for name in ["train.py", "pkg/model.py"] {
            let read = folders.read(name, None);
            assert!(
                read.text.is_none() && read.why.unwrap().starts_with("the file cannot be read"),
                "{name}"
            );
        }
        // The named folder itself may be a link.
        let link = outside.path().join("link");
        symlink(dir.path().join("old"), &link).unwrap();
        assert_eq!(
            SourceFolders::open(&[link]).unwrap().read("model.py", None).text.unwrap(),
            "pkg/model.py"
        );
    }

    #[test]
    fn a_large_file_and_a_deep_folder_are_refused() {
        let deep = format!("{}end.py", "d/".repeat(DEEPEST + 1));
        let dir = folder(&["large.py", "bytes.py", &deep, ".git/hook.py"]);
        fs::write(dir.path().join("large.py"), vec![b'x'; LARGEST as usize + 1]).unwrap();
        fs::write(dir.path().join("bytes.py"), [b'a', 0xff, b'b']).unwrap();
        let folders = open(&dir);
        let large = folders.read("large.py", None);
        assert_eq!((large.text, large.why.as_deref()), (None, Some("the file is larger than 4.00 MiB")));
        assert_eq!(folders.read("bytes.py", None).text.unwrap(), "a\u{fffd}b");
        assert!(
            folders.read("end.py", None).files.is_empty() && folders.read("hook.py", None).files.is_empty()
        );
    }
}
