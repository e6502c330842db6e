//! docs/profiler.md shows these programs and all that they print.

use std::fs;
use std::path::Path;

use crate::{SECTIONS, Section};

/// Returns the output of a section, with file paths relative to the checkout's root.
fn printed(run: Section, root: &Path) -> String {
    let mut out = Vec::new();
    run(&mut out).unwrap();
    String::from_utf8(out).unwrap().replace(&format!("{}/", root.display()), "")
}

/// Returns a file of this example without its header comment.
fn program(name: &str, root: &Path) -> String {
    let file = root.join(format!("crates/vramscope/examples/profiler/{name}.rs"));
    let file = fs::read_to_string(file).unwrap();
    let lines = file.lines().skip_while(|line| line.is_empty() || line.starts_with("//!"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the guide with the current programs and outputs.
fn as_it_should_be(guide: &str, root: &Path) -> String {
    let mut shown = Vec::new();
    let mut written = String::new();
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        written += &format!("{line}\n");
        if let Some(name) = line.strip_prefix("cargo run -p vramscope --example profiler -- ") {
            shown.push(*SECTIONS.iter().find(|(section, ..)| *section == name).expect(name));
        }
        let block = match (line, shown.last()) {
            ("```rust,ignore", section) => program(section.map_or("training", |(name, ..)| name), root),
            ("```text", Some((_, run, _))) => printed(*run, root),
            _ => continue,
        };
        lines.by_ref().take_while(|line| *line != "```").for_each(drop);
        written += &format!("{block}```\n");
    }
    assert_eq!(shown.len(), SECTIONS.len(), "the guide shows every section once");
    written
}

/// As with snapshots, `INSTA_UPDATE=always` writes the current output.
#[test]
fn the_guide_shows_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = root.join("docs/profiler.md");
    let guide = fs::read_to_string(&path).unwrap();
    let now = as_it_should_be(&guide, root);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(path, now).unwrap();
    } else {
        let first = guide.lines().zip(now.lines()).find(|(shown, printed)| shown != printed);
        assert!(
            guide == now,
            "docs/profiler.md shows something else: {first:?}; INSTA_UPDATE=always writes it"
        );
    }
}
