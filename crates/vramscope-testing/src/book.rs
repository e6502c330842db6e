//! The README, the book in `docs/` and the READMEs of the crates, as the tests read them.
#![allow(clippy::unwrap_used, reason = "a test that cannot read the book fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// A block of code between two fences of a page.
#[derive(Debug, Clone)]
pub struct Fence {
    /// The page's path from the root of the checkout.
    pub page: String,
    /// The line number of the opening fence, from 1.
    pub line: usize,
    /// The text after the opening fence: a language, such as `sh`, and further words, such as `needs-gpu`.
    pub info: String,
    /// The lines between the fences.
    pub lines: Vec<String>,
}

impl Fence {
    /// Returns the first word of the info string: `sh`, `rust`, `rust,ignore`, `text` ...
    pub fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns what a machine needs to run this block, such as `gpu`, if the block names it: no test runs it.
    pub fn needs(&self) -> Option<&str> {
        self.info.split(' ').find_map(|word| word.strip_prefix("needs-"))
    }
}

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns a page's text; `page` is its path from the root of the checkout.
pub fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// Returns the folder names of the project's crates, sorted.
pub fn crates() -> Vec<String> {
    names_in("crates")
}

/// Returns the pages of the book: every Markdown file in `docs/` and in `docs/python/`, except the index.
pub fn pages_of_the_book() -> Vec<String> {
    let pages_in = |folder: &'static str| {
        let names = names_in(folder).into_iter().filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
        names.map(move |name| format!("{folder}/{name}"))
    };
    let mut pages: Vec<String> = pages_in("docs").chain(pages_in("docs/python")).collect();
    pages.sort();
    pages
}

/// Returns every page with examples: the README, the book and the READMEs of the crates.
pub fn pages() -> Vec<String> {
    let of_crates = crates().into_iter().map(|name| format!("crates/{name}/README.md"));
    let of_crates = of_crates.filter(|page| root().join(page).exists());
    ["README.md".to_owned()].into_iter().chain(pages_of_the_book()).chain(of_crates).collect()
}

/// Returns the code blocks of a page, in order.
pub fn fences(page: &str) -> Vec<Fence> {
    let text = read(page);
    let mut found = Vec::new();
    let mut open: Option<Fence> = None;
    for (line, number) in text.lines().zip(1..) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Fence {
                    page: page.to_owned(),
                    line: number,
                    info: info.to_owned(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(fence), None) => fence.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: the last block of code is not closed");
    found
}

/// Returns the names in a folder, sorted.
fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
