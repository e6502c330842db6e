//! Finds the paths that match a shell pattern, such as `runs/**/rank*.pickle`.
//!
//! `*`, `?` and `[...]` match within a name; `**` matches any number of folders. `**` does not follow links to folders, because a link may
//! lead back to its own folder. Hidden files match only if the pattern contains the dot.

use std::fs;
use std::path::{Component, MAIN_SEPARATOR_STR, Path, PathBuf, is_separator};

use glob::{MatchOptions, Pattern};

/// Limit on the folders read for one pattern: 128 per rank of a job of 4,096 ranks.
pub(crate) const MOST_FOLDERS: usize = 1 << 19;

/// A component of a pattern.
enum Part {
    /// A name without wildcards.
    Name(PathBuf),
    /// A name with wildcards.
    Wild(Pattern),
    /// `**`: any number of folders, including zero.
    Folders,
}

/// Returns the paths that match a pattern, sorted, without duplicates; `None` if the text is not a pattern.
///
/// # Errors
/// [`TooManyFolders`] if more than `most_folders` folders would have to be read.
pub(crate) fn matches(text: &str, most_folders: usize) -> Option<Result<Vec<PathBuf>, TooManyFolders>> {
    let parts = parts(text)?;
    let mut search = Search { found: Vec::new(), folders: 0, most_folders };
    let searched = search.below(Path::new(""), &parts);
    let mut found = search.found;
    found.sort();
    found.dedup();
    if text.ends_with(is_separator) {
        found.retain(|path| path.is_dir());
    }
    Some(searched.map(|()| found))
}

/// A pattern matches more folders than the limit.
#[derive(Debug)]
pub(crate) struct TooManyFolders;

fn parts(text: &str) -> Option<Vec<Part>> {
    let is_wild = |name: &str| name.contains(['*', '?', '[']);
    if !is_wild(text) {
        return None;
    }
    let mut parts = Vec::new();
    for component in Path::new(text).components() {
        parts.push(match component {
            Component::Normal(name) if name == "**" => Part::Folders,
            Component::Normal(name) if name.to_str().is_some_and(is_wild) => {
                Part::Wild(Pattern::new(name.to_str()?).ok()?)
            }
            Component::RootDir => Part::Name(MAIN_SEPARATOR_STR.into()),
            other => Part::Name(other.as_os_str().into()),
        });
    }
    parts.dedup_by(|a, b| matches!((a, b), (Part::Folders, Part::Folders)));
    Some(parts)
}

struct Search {
    found: Vec<PathBuf>,
    /// The number of folders read so far.
    folders: usize,
    most_folders: usize,
}

impl Search {
    /// Finds the paths that match `parts` in `folder`; the empty path is the current folder.
    fn below(&mut self, folder: &Path, parts: &[Part]) -> Result<(), TooManyFolders> {
        match parts {
            [] => self.found.push(folder.to_owned()),
            [Part::Name(name), rest @ ..] => {
                let path = folder.join(name);
                if !rest.is_empty() || path.symlink_metadata().is_ok() {
                    self.below(&path, rest)?;
                }
            }
            [Part::Wild(pattern), rest @ ..] => {
                let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
                for entry in self.entries(folder)? {
                    let name = entry.file_name();
                    if name.to_str().is_some_and(|name| pattern.matches_with(name, options)) {
                        let path = folder.join(&name);
                        if rest.is_empty() || path.is_dir() {
                            self.below(&path, rest)?;
                        }
                    }
                }
            }
            [Part::Folders, rest @ ..] => {
                self.below(folder, rest)?;
                for entry in self.entries(folder)? {
                    let name = entry.file_name();
                    let is_hidden = name.to_string_lossy().starts_with('.');
                    if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        self.below(&folder.join(&name), parts)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the entries of a folder; empty if it cannot be read.
    fn entries(&mut self, folder: &Path) -> Result<Vec<fs::DirEntry>, TooManyFolders> {
        self.folders += 1;
        if self.folders > self.most_folders {
            return Err(TooManyFolders);
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        Ok(fs::read_dir(folder).into_iter().flatten().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the matching paths relative to `folder`.
    fn names(folder: &Path, pattern: &str) -> Vec<String> {
        let found = matches(&format!("{}/{pattern}", folder.display()), MOST_FOLDERS).unwrap().unwrap();
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/rank0", "a/b/rank1", "a/b/c/rank2", ".hidden/rank3", "a/.rank4", "rank5"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for (pattern, expected) in [
            ("**/rank*", &["a/b/c/rank2", "a/b/rank1", "a/rank0", "rank5"][..]),
            ("**/**/rank?", &["a/b/c/rank2", "a/b/rank1", "a/rank0", "rank5"]),
            ("*/rank[0-9]", &["a/rank0"]),
            ("a/**/b/rank*", &["a/b/rank1"]),
            ("a/**/c/../rank*", &["a/b/c/../rank1"]),
            (".h*/rank*", &[".hidden/rank3"]),
            ("a/.*", &["a/.rank4"]),
            ("a*/", &["a"]),
            ("rank*/", &[]),
            ("a/**", &["a", "a/b", "a/b/c"]),
            ("*/none", &[]),
        ] {
            assert_eq!(names(folder.path(), pattern), expected, "{pattern}");
        }
        assert!(matches("rank0", MOST_FOLDERS).is_none());
        assert!(matches("rank[", MOST_FOLDERS).is_none());
    }

    #[test]
    #[cfg(unix)]
    fn links_to_folders_are_followed_by_name_and_not_by_two_stars() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        for link in ["one", "two"] {
            symlink(".", folder.path().join(link)).unwrap();
        }
        fs::write(folder.path().join("rank0"), "").unwrap();
        assert_eq!(names(folder.path(), "**/rank*"), ["rank0"]);
        assert_eq!(names(folder.path(), "*/rank*"), ["one/rank0", "two/rank0"]);
        // Each level of links doubles the number of folders.
        let deep = format!("{}/{}rank*", folder.path().display(), "*/".repeat(30));
        assert!(matches(&deep, 1000).unwrap().is_err());
    }
}
