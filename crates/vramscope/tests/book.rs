//! Every Rust program of the README, the book and the crates' READMEs compiles as shown. rustdoc compiles them. This test checks that
//! rustdoc sees all of them, and that none has hidden lines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Returns the Rust blocks of a page: the options after the language, and the lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let block = lines.by_ref().take_while(|line| line.trim_start() != "```").collect();
        if let Some(options) = language.strip_prefix("rust") {
            blocks.push((options, block));
        }
    }
    blocks
}

/// Whether rustdoc compiles a line that the page does not show.
fn is_hidden(line: &str) -> bool {
    line.trim_start() == "#" || line.trim_start().starts_with("# ")
}

#[test]
fn every_rust_program_is_compiled_as_it_is_shown() {
    let mut found = vec![root().join("README.md")];
    pages(&root().join("docs"), &mut found);
    let readmes =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("README.md"));
    found.extend(readmes.filter(|readme| readme.exists()));
    let facade = root().join("crates/vramscope/src/book.rs");
    let facade = fs::read_to_string(facade).unwrap();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in found {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let page = fs::read_to_string(&path).unwrap();
        let blocks = blocks(&page);
        seen += blocks.len();
        for (options, block) in &blocks {
            let hidden = block.iter().filter(|line| is_hidden(line));
            wrong.extend(hidden.map(|line| format!("{name}: a hidden line: {line}")));
            // The example `profiler` compiles these.
            if options.contains("ignore") && name != "docs/profiler.md" {
                wrong.push(format!("{name}: a program that nothing compiles: {}", block.join("\n")));
            }
        }
        let own = path.with_file_name("src/lib.rs");
        let own = fs::read_to_string(own).unwrap_or_default();
        let included =
            facade.contains(&format!("../../../{name}\"")) || own.contains("include_str!(\"../README.md\")");
        let is_ours = name == "crates/vramscope/README.md" || name == "crates/vramscope-macros/README.md";
        if !blocks.is_empty() && !included && !is_ours {
            wrong.push(format!("{name}: rustdoc does not see its programs"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 30, "{seen} programs were found");
}

#[test]
fn hidden_lines_are_noticed() {
    assert!(is_hidden("# Ok::<(), Error>(())") && is_hidden("    #"));
    assert!(!is_hidden("#[profile]") && !is_hidden("#![allow(unused)]") && !is_hidden("let a = 4; # "));
    assert_eq!(blocks("```sh\n# a\n```\n```rust,no_run\nlet a;\n```\n"), [(",no_run", vec!["let a;"])]);
}
