//! Only `vramscope-files` creates, replaces and renames files, because its safety checks are easily forgotten elsewhere.
//!
//! A call is identified by the last two names of its path, and an import by its whole path. Tests and macros do not count.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, Meta, UseTree};
use vramscope_testing::book::root;

/// Functions that create, replace or rename files, or start to.
const REFUSED: [(&str, &str); 14] = [
    ("File", "create"),
    ("File", "create_new"),
    ("File", "options"),
    ("OpenOptions", "new"),
    ("DirBuilder", "new"),
    ("fs", "copy"),
    ("fs", "create_dir"),
    ("fs", "create_dir_all"),
    ("fs", "hard_link"),
    ("fs", "rename"),
    ("fs", "set_permissions"),
    ("fs", "soft_link"),
    ("fs", "symlink"),
    ("fs", "write"),
];

/// The allowed uses, with reasons.
const ALLOWED: [(&str, &str, &str); 16] = [
    (
        "vramscope-cli/src/commands/dataset.rs",
        "fs::create_dir_all",
        "the user's folder, and a private folder",
    ),
    ("vramscope-bare/src/build.rs", "fs::write", "in the folder of a build script"),
    ("vramscope-mcp/src/folders.rs", "OpenOptions::new", "opens for reading"),
    ("vramscope-cli/src/part_folder.rs", "fs::rename", "out of a private folder"),
    ("vramscope-cli/src/part_folder.rs", "tempfile", "with mode 700"),
    ("vramscope-fleet/src/cache/home.rs", "fs::create_dir_all", "the owner is checked afterwards"),
    ("vramscope-phantom/library/graphs.rs", "fs::write", "a file that the program names, as the driver does"),
    ("vramscope-phantom/library/machine.rs", "OpenOptions::new", "depends only on std; with O_NOFOLLOW"),
    (
        "vramscope-phantom/library/nccl/messages.rs",
        "DirBuilder::new",
        "depends only on std; in a private folder",
    ),
    ("vramscope-recorder/library/ring_file.rs", "OpenOptions::new", "depends only on std; new files of 0600"),
    ("vramscope-recorder/library/ring_file.rs", "fs::symlink", "in a private folder"),
    (
        "vramscope-recorder/library/process.rs",
        "OpenOptions::new",
        "depends only on std; opens a file to read it",
    ),
    ("vramscope-recorder/src/attach/memory.rs", "OpenOptions::new", "opens the memory of a process"),
    ("vramscope-phantom/src/run.rs", "fs::symlink", "in a private folder"),
    ("vramscope-profiler/src/live/folder.rs", "DirBuilder::new", "owner and mode are checked afterwards"),
    ("vramscope-profiler/src/live/socket.rs", "fs::set_permissions", "a socket in a private folder"),
];

/// Crates that are not part of the product, and the crate of the file functions.
const NOT_LOOKED_AT: [&str; 2] = ["vramscope-files", "vramscope-testing"];

#[derive(Default)]
struct Reader {
    found: BTreeSet<String>,
}

impl Reader {
    fn import(&mut self, before: &[String], tree: &UseTree) {
        let below = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&below(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree)),
            UseTree::Name(name) => self.named(&below(&name.ident)),
            UseTree::Rename(name) => {
                self.named(&below(&name.ident));
                // Calls under another name would be missed.
                let hides = ["fs", "File", "OpenOptions", "DirBuilder"].iter().any(|of| name.ident == of);
                if hides && name.rename != "_" {
                    self.found.insert(format!("{} as {}", name.ident, name.rename));
                }
            }
            UseTree::Glob(_) => {
                if before.last().is_some_and(|last| last == "fs") {
                    self.found.insert("fs::*".to_owned());
                }
            }
        }
    }

    fn named(&mut self, names: &[String]) {
        if names.first().is_some_and(|first| first == "tempfile") {
            self.found.insert("tempfile".to_owned());
        }
        if let [.., before, last] = names
            && REFUSED.contains(&(before, last))
        {
            self.found.insert(format!("{before}::{last}"));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !attributes.iter().any(is_for_tests) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.named(&names);
        syn::visit::visit_path(self, path);
    }
}

/// Whether the attribute is `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
        }
        _ => false,
    }
}

fn found_in(text: &str) -> BTreeSet<String> {
    let mut reader = Reader::default();
    reader.visit_file(&syn::parse_file(text).unwrap());
    reader.found
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs")
            && path.file_stem().is_some_and(|name| name != "tests")
        {
            all.push(path);
        }
    }
}

#[test]
fn files_are_created_and_replaced_in_one_crate() {
    let crates = root().join("crates");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let path = entry.unwrap().path();
        if NOT_LOOKED_AT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        for part in ["src", "library"] {
            if path.join(part).is_dir() {
                sources(&path.join(part), &mut files);
            }
        }
    }
    assert!(files.len() > 300, "only {} files were looked at", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        for call in found_in(&std::fs::read_to_string(&file).unwrap()) {
            if !ALLOWED.iter().any(|(of, allowed, _)| *of == name && *allowed == call) {
                wrong.push(format!("{name}: {call}"));
            }
        }
    }
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "use vramscope_files, or add the call to ALLOWED with a reason:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn each_way_to_write_is_known() {
    for (text, call) in [
        ("fn f() { File::create(p); }", "File::create"),
        ("fn f() { std::fs::File::options().write(true); }", "File::options"),
        ("fn f() { v.map(fs::write); }", "fs::write"),
        ("use std::fs::{self, rename};", "fs::rename"),
        ("use std::fs as files;", "fs as files"),
        ("use std::fs::*;", "fs::*"),
        ("use tempfile::TempDir;", "tempfile"),
        ("fn f() { tempfile::tempdir(); }", "tempfile"),
    ] {
        assert_eq!(found_in(text).into_iter().collect::<Vec<_>>(), [call], "{text}");
    }
    for text in
        ["fn f() { File::open(p); fs::read(p); }", "#[cfg(test)] mod tests { use tempfile::TempDir; }"]
    {
        assert!(found_in(text).is_empty(), "{text}");
    }
}
