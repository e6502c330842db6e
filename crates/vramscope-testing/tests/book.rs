//! The README, the book and the READMEs of the crates hold together: every page is in the index, every link leads somewhere, and
//! every example is one that a test runs.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use vramscope_testing::book::{crates, fences, pages, pages_of_the_book, read, root};

/// Pages beside the book whose links are followed, too.
const OTHER_PAGES: [&str; 8] = [
    "docs/SUMMARY.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "python/README.md",
    "viewer/README.md",
];

/// What stands in a page outside of blocks of code and of code in a line.
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
    // A link's own text may be code, so backticks go and what is between them stays, but for brackets.
    let parts = text.split('`').enumerate();
    parts
        .map(|(i, part)| if i % 2 == 1 { part.replace(['[', ']', '(', ')'], "") } else { part.to_owned() })
        .collect()
}

/// The targets of the links and pictures of a page.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect()
}

/// The names under which the headings of a page can be linked to, as GitHub and mdBook make them.
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
                wrong.push(format!("{page}: there is no {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A link that leaves `docs/` would lead nowhere in the built book.
#[test]
fn the_book_is_whole_by_itself() {
    for page in pages_of_the_book() {
        // A page in a folder of `docs/` may go up to `docs/`.
        let leaves = "../".repeat(page.matches('/').count());
        let leaving: Vec<String> =
            links(&page).into_iter().filter(|link| link.starts_with(&leaves)).collect();
        assert!(leaving.is_empty(), "{page} links to what is not in the book: {leaving:?}");
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

/// Languages of blocks, and who runs them.
#[test]
fn every_example_is_one_that_a_test_runs() {
    // Rust: pages that some crate includes as documentation, so that rustdoc compiles and runs their blocks.
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
            // The example `profiler` holds its guide to its lines; nobody else shows parts of programs.
            "rust,ignore" => fence.page == "docs/profiler.md",
            // The facade's tests ask a live program for the same keys; the command's tests start what the other page says.
            "json" => ["docs/live.md", "docs/mcp.md"].contains(&fence.page.as_str()),
            // `metrics_in_questions_are_served`, below.
            "promql" => fence.page == "docs/prometheus.md",
            // What a program's own Cargo.toml says.
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
        assert!(table.contains(&format!("| `{metric}` |")), "there is no metric {metric}");
    }
}

/// What `Cargo.toml` tells of the crate's features, the page of the pool does, too.
#[test]
fn the_dependency_that_the_book_shows_names_features_that_exist() {
    let manifest = read("crates/vramscope/Cargo.toml");
    let fence = fences("docs/pool.md").into_iter().find(|fence| fence.language() == "toml").unwrap();
    let line = fence.lines.iter().find(|line| line.starts_with("vramscope = ")).unwrap();
    let features = line.split("features = [").nth(1).unwrap().split(']').next().unwrap();
    for feature in features.split(',').map(|feature| feature.trim().trim_matches('"')) {
        assert!(manifest.contains(&format!("\n{feature} = [")), "there is no feature {feature}");
    }
}

#[test]
fn every_published_crate_has_a_readme() {
    for name in crates() {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        if manifest.contains("publish = false") {
            continue;
        }
        assert!(manifest.contains("\nreadme = \"README.md\"\n"), "{name}: Cargo.toml names no README.md");
        let readme = format!("crates/{name}/README.md");
        assert!(read(&readme).starts_with(&format!("# {name}\n")), "{readme} begins with another name");
        assert!(!fences(&readme).is_empty(), "{readme} has no example");
    }
}
