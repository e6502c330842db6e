//! docs/names.md names existing items, commands and views. python/tests/test_names.py tests its Python names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the word at the start of `text`.
fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns `text` without a parameter list in angle brackets at its start.
fn after_parameters(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0
    });
    if text.starts_with('<') { end.map_or(text, |end| &text[end + 1..]) } else { text }
}

/// Returns the public items of a file formatted by rustfmt: unindented items, with fields, variants and methods. `unreachable_pub` warns
/// about public items that cannot be reached.
fn items_of(source: &str) -> Vec<Vec<String>> {
    const KINDS: [&str; 8] = ["struct ", "enum ", "trait ", "const fn ", "fn ", "const ", "type ", "mod "];
    let mut items = Vec::new();
    // The item of the current body, and the prefix of its public lines.
    let mut owner: Option<(String, &str)> = None;
    // The macro `named!` defines an enum, which is indented in it.
    let mut is_named = false;
    for line in source.lines() {
        let line = if is_named { line.strip_prefix("    ").unwrap_or(line) } else { line };
        if line == "named! {" {
            is_named = true;
        } else if line == "}" {
            is_named &= owner.is_some();
            owner = None;
        } else if let Some((_, other_name)) = line.strip_prefix("pub use ").and_then(|r| r.split_once(" as "))
        {
            items.push(vec![word(other_name)]);
        } else if let Some(rest) = line.strip_prefix("pub ") {
            let Some(kind) = KINDS.into_iter().find(|kind| rest.starts_with(kind)) else { continue };
            let name = word(&rest[kind.len()..]);
            items.push(vec![name.clone()]);
            let begins = match kind {
                "struct " => "    pub ",
                "trait " => "    fn ",
                "enum " => "    ",
                _ => continue,
            };
            owner = Some((name, begins)).filter(|_| !line.ends_with(';') && !line.ends_with('}'));
        } else if let Some(rest) = line.strip_prefix("impl").filter(|rest| !rest.contains(" for ")) {
            owner = Some((word(after_parameters(rest).trim()), "    pub "));
        } else if let Some((name, begins)) = &owner
            && let Some(rest) = line.strip_prefix(begins)
        {
            let rest = rest.strip_prefix("const ").unwrap_or(rest);
            let member = word(rest.strip_prefix("fn ").unwrap_or(rest));
            if !member.is_empty() {
                items.push(vec![name.clone(), member]);
            }
        }
    }
    items
}

/// Returns the public items of the crates that `vramscope` re-exports, each by its file's path: `profiler`, `profiler`, `summary`,
/// `ProfileSummary`, `device`.
fn public_items() -> Vec<Vec<String>> {
    let facade = read("crates/vramscope/src/lib.rs");
    let mut items = Vec::new();
    for name in facade.lines().filter_map(|line| line.strip_prefix("pub use vramscope_")).map(word) {
        items.push(vec![name.clone()]);
        let folder = root().join(format!("crates/vramscope-{name}/src"));
        let mut files = Vec::new();
        sources(&folder, &mut files);
        for file in files {
            let module = file.strip_prefix(&folder).unwrap().with_extension("");
            let module = module.iter().map(|part| part.to_str().unwrap().to_owned());
            let module = module.filter(|part| part != "mod" && part != "lib");
            let path: Vec<String> = [name.clone()].into_iter().chain(module).collect();
            let source = fs::read_to_string(&file).unwrap();
            items.extend(items_of(&source).into_iter().map(|item| [path.clone(), item].concat()));
        }
    }
    items
}

/// Whether `name` refers to this item: the last parts must match, and so must the modules that `name` contains.
fn names(name: &[&str], item: &[String]) -> bool {
    let is_type = |part: &str| part.starts_with(char::is_uppercase);
    let own = |path: &[&str]| 1 + usize::from(path.len() > 1 && is_type(path[path.len() - 2]));
    let item: Vec<&str> = item.iter().map(String::as_str).collect();
    let end = own(&item);
    let mut modules = item[..item.len() - end].iter();
    own(name) == end
        && name[name.len() - end..] == item[item.len() - end..]
        && name[..name.len() - end].iter().all(|part| modules.any(|module| module == part))
}

#[test]
fn every_name_of_ours_is_there() {
    let items = public_items();
    let commands = read("crates/vramscope-cli/src/cli.rs");
    let views = read("viewer/src/state/place.ts");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in read("docs/names.md").lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [there, here, differs, python, differs_in_python] = cells[..] else {
            panic!("a row has five cells: {line}")
        };
        if there == "there" {
            continue;
        }
        rows += 1;
        let unsaid = here == "-" && differs.is_empty();
        if [there, here, python].contains(&"") || unsaid || (python == "-" && !differs_in_python.is_empty()) {
            wrong.push(line.to_owned());
        }
        for code in here.split('`').skip(1).step_by(2) {
            let is_known = if let Some(command) = code.strip_prefix("vramscope ") {
                let (first, rest) = command.split_at(1);
                commands.contains(&format!("    {0}{rest}({0}{rest}Args),\n", first.to_uppercase()))
            } else {
                let name: Vec<&str> = code.split("::").collect();
                items.iter().any(|item| names(&name, item))
            };
            if !is_known {
                wrong.push(format!("there is no `{code}`: {line}"));
            }
        }
        let mut words = here.split([' ', ',']);
        while words.any(|word| word == "view") {
            let view = words.next().unwrap_or_default();
            if !views.contains(&format!(": '{view}',")) {
                wrong.push(format!("there is no view {view}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows > 200, "{rows} rows were found");
}

/// Checks that the test above detects wrong names.
#[test]
fn the_name_test_detects_wrong_names() {
    let items = public_items();
    let known = |code: &str| items.iter().any(|item| names(&code.split("::").collect::<Vec<_>>(), item));
    for there in [
        "MemoryHook",
        "MemoryHook::name",
        "Free::pmem_id",
        "Unit::ZB",
        "hooks::function::register",
        "hooks::function",
        "profiler::CallSummary::call_count",
        "DebugPrintHook::into_inner",
        "TorchRelease::new",
    ] {
        assert!(known(there), "{there}");
    }
    for not in [
        "MemoryHook::names",
        "pmem_id",
        "Free::size",
        "analysis::MemoryHook",
        "hooks::FunctionSummary::call_count",
        "Line",
        "PoolHooks",
        "",
    ] {
        assert!(!known(not), "{not}");
    }
}
