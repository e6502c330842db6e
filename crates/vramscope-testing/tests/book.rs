//! Checks of the README, the book and the READMEs of the crates: every page is in the index, every link has a target, and a test runs every
//! example.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use vramscope_testing::book::{crates, fences, pages, pages_of_the_book, read, root};

/// Pages beside the book whose links are followed, too.
const OTHER_PAGES: [&str; 9] = [
    "docs/SUMMARY.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "acceptance/README.md",
    "python/README.md",
    "viewer/README.md",
];

/// Returns a page's text outside code blocks and inline code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut text = String::new();
    for line in read(page).lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            text += line;
            text.push('\n');
        }
    }
    // A link's text may be code, so remove backticks and keep the text between them, except brackets.
    let parts = text.split('`').enumerate();
    parts
        .map(|(i, part)| if i % 2 == 1 { part.replace(['[', ']', '(', ')'], "") } else { part.to_owned() })
        .collect()
}

/// Returns the targets of a page's links and images.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect()
}

/// Returns the anchors of a page's headings, as GitHub and mdBook create them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in read(page).lines() {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    anchors
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().chain(OTHER_PAGES.map(str::to_owned)) {
        for link in links(&page) {
            if link.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page).parent().unwrap();
            let target =
                if path.is_empty() { page.clone() } else { folder.join(path).to_str().unwrap().to_owned() };
            let leads = root().join(&target).exists()
                && (anchor.is_empty() || (target.ends_with(".md") && anchors(&target).contains(anchor)));
            if !leads {
                wrong.push(format!("{page}: the target {link} does not exist"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A link that leaves `docs/` would be broken in the built book.
#[test]
fn the_book_is_whole_by_itself() {
    for page in pages_of_the_book() {
        // A page in a subfolder of `docs/` may link up to `docs/`.
        let leaves = "../".repeat(page.matches('/').count());
        let leaving: Vec<String> =
            links(&page).into_iter().filter(|link| link.starts_with(&leaves)).collect();
        assert!(leaving.is_empty(), "{page} links outside the book: {leaving:?}");
    }
}

#[test]
fn every_page_is_in_the_index_once() {
    let mut listed: Vec<String> =
        links("docs/SUMMARY.md").iter().map(|page| format!("docs/{page}")).collect();
    listed.sort();
    assert_eq!(listed, pages_of_the_book());
}

#[test]
fn the_readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 130, "README.md has {lines} lines, of at most 130: move text to the book");
}

/// The languages of code blocks, and the tests that run them.
#[test]
fn every_example_is_one_that_a_test_runs() {
    // Rust: a crate includes the page as documentation, so rustdoc compiles and runs its blocks.
    let sources = crates().into_iter().flat_map(|name| {
        let files = std::fs::read_dir(root().join(format!("crates/{name}/src"))).unwrap();
        files.map(move |file| format!("crates/{name}/src/{}", file.unwrap().file_name().to_str().unwrap()))
    });
    let included: Vec<(String, String)> =
        sources.filter(|file| file.ends_with(".rs")).map(|file| (file.clone(), read(&file))).collect();
    let is_included = |page: &str| {
        included.iter().any(|(file, text)| {
            let own =
                page.strip_suffix("/README.md").is_some_and(|folder| file.starts_with(&format!("{folder}/")));
            let from_the_root = format!("include_str!(\"../../../{page}\")");
            let from_crates =
                page.strip_prefix("crates/").map(|page| format!("include_str!(\"../../{page}\")"));
            text.contains(&from_the_root)
                || from_crates.is_some_and(|include| text.contains(&include))
                || (own && text.contains("include_str!(\"../README.md\")"))
        })
    };
    let mut wrong = Vec::new();
    for fence in pages().iter().flat_map(|page| fences(page)) {
        let is_run = match fence.language() {
            // The command's tests run them.
            "sh" | "text" => true,
            // The Python package's tests run them (`python/tests/test_book.py`).
            "python" => fence.page.starts_with("docs/python") || fence.needs().is_some(),
            "rust" => is_included(&fence.page),
            // Compiled in the same way.
            "rust,no_run" => is_included(&fence.page) && fence.needs().is_some(),
            // The example `profiler` compares the guide with its source; no other page shows parts of programs.
            "rust,ignore" => fence.page == "docs/profiler.md",
            // The profiler's tests compare docs/live.md with a live server's responses; the command's tests start the commands of
            // docs/mcp.md.
            "json" => ["docs/live.md", "docs/mcp.md"].contains(&fence.page.as_str()),
            // Tested by `metrics_in_questions_are_served` below.
            "promql" => fence.page == "docs/prometheus.md",
            // Lines of a program's Cargo.toml.
            "toml" => fence.page == "docs/pool.md",
            _ => fence.needs().is_some(),
        };
        if !is_run {
            wrong.push(format!("{}:{}: no test runs a block of `{}`", fence.page, fence.line, fence.info));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn metrics_in_questions_are_served() {
    let page = "docs/prometheus.md";
    let table = read(page);
    let questions = fences(page).into_iter().filter(|fence| fence.language() == "promql");
    let text: String = questions.flat_map(|fence| fence.lines).map(|line| line + "\n").collect();
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let metrics: BTreeSet<&str> = words.filter(|word| word.starts_with("vramscope_")).collect();
    assert!(!metrics.is_empty());
    for metric in metrics {
        assert!(table.contains(&format!("| `{metric}` |")), "the metric {metric} does not exist");
    }
}

/// The features on the page of the pool exist in the facade's `Cargo.toml`.
#[test]
fn the_dependency_that_the_book_shows_names_features_that_exist() {
    let manifest = read("crates/vramscope/Cargo.toml");
    let fence = fences("docs/pool.md").into_iter().find(|fence| fence.language() == "toml").unwrap();
    let line = fence.lines.iter().find(|line| line.starts_with("vramscope = ")).unwrap();
    let features = line.split("features = [").nth(1).unwrap().split(']').next().unwrap();
    for feature in features.split(',').map(|feature| feature.trim().trim_matches('"')) {
        assert!(manifest.contains(&format!("\n{feature} = [")), "the feature {feature} does not exist");
    }
}

#[test]
fn every_published_crate_has_a_readme() {
    for name in crates() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        if manifest.contains("publish = false") {
            continue;
        }
        assert!(
            manifest.contains("\nreadme = \"README.md\"\n"),
            "{name}: Cargo.toml has no readme = \"README.md\""
        );
        let readme = format!("crates/{name}/README.md");
        assert!(read(&readme).starts_with(&format!("# {name}\n")), "{readme} must start with `# {name}`");
        assert!(!fences(&readme).is_empty(), "{readme} has no example");
    }
}
