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
mod tests;
