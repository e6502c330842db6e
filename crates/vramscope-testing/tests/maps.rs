//! The list of modules in the documentation of each crate names the modules that exist.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use vramscope_testing::book::{crates, root};

/// Returns the names of all modules in a folder and in those below it, and the names of those directly in it.
fn modules(folder: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut here) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            let below = modules(&path).0;
            if !below.is_empty() {
                all.extend(below);
                here.insert(name);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            here.insert(name);
        }
    }
    for name in ["lib", "main", "mod", "tests"] {
        here.remove(name);
    }
    all.extend(here.iter().cloned());
    (all, here)
}

/// Returns the names in backticks: all of them, and those that begin an entry, as in "`one`, `two`: what they do".
fn names(map: &str) -> (BTreeSet<&str>, Vec<&str>) {
    let parts: Vec<&str> = map.split('`').collect();
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut entry = Vec::new();
    let mut entries = Vec::new();
    let mut all = BTreeSet::new();
    for pair in parts[1..].chunks(2) {
        let (name, behind) = (pair[0], pair.get(1).copied().unwrap_or_default());
        if is_name(name) {
            all.insert(name);
            entry.push(name);
        }
        match behind.trim_start() {
            rest if rest.starts_with(':') => entries.append(&mut entry),
            "," | "and" => {}
            _ => entry.clear(),
        }
    }
    (all, entries)
}

#[test]
fn every_map_of_modules_matches_its_folder() {
    let mut wrong = String::new();
    for name in crates() {
        let folder = root().join("crates").join(&name).join("src");
        let text = std::fs::read_to_string(folder.join("lib.rs")).unwrap_or_default();
        let is_doc = |line: &&str| line.is_empty() || line.starts_with("//!") || line.starts_with("#![");
        let lines = text.lines().take_while(is_doc);
        let docs = lines.map(|line| line.trim_start_matches("//!")).collect::<Vec<_>>().join("\n");
        let (all, here) = modules(&folder);
        let Some((_, map)) = docs.split_once("# Modules") else {
            // A crate of a few files needs no map.
            if here.len() > 4 {
                writeln!(wrong, "{name}: src/lib.rs has no list of modules").unwrap();
            }
            continue;
        };
        let (mentioned, entries) = names(map.split("\n #").next().unwrap_or(map));
        for missing in here.iter().filter(|module| !mentioned.contains(module.as_str())) {
            writeln!(wrong, "{name}: src/lib.rs does not list `{missing}`").unwrap();
        }
        for unknown in entries.iter().filter(|entry| !all.contains(**entry)) {
            writeln!(wrong, "{name}: src/lib.rs lists `{unknown}`, which does not exist").unwrap();
        }
    }
    assert!(wrong.is_empty(), "stale lists of modules:\n{wrong}");
}
