//! Modules import in one direction: each is above the modules that it uses in the list `.ci/order`, and no folder has a cycle.
//!
//! A module is a file. A shared library that `build.rs` compiles counts as a crate. Paths with `crate::`, `super::` or `self::`, in imports and
//! in code, are followed through re-exports to the defining file. A dependency between two files counts at the folder that contains both,
//! between the folder's children. A folder's own file and its children are one unit. Tests do not count, and neither do re-exports, because
//! they only refer to items.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Item, UseTree, Visibility};
use vramscope_testing::book::{read, root};

/// A module by its names below the crate; empty for the crate's root.
type Module = Vec<String>;

/// Folders of shared libraries. The `build.rs` beside each compiles it as a separate crate.
const LIBRARIES: [&str; 2] = ["vramscope-phantom/library", "vramscope-recorder/library"];

/// Dependencies between the children of a folder.
type Folder = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct File {
    /// The paths in the file, each as its names: `crate` first, otherwise relative.
    named: BTreeSet<Module>,
    /// The re-exported names: the name here, and its target path.
    exported: BTreeMap<String, Module>,
    /// The modules of which everything is re-exported.
    exported_whole: Vec<Module>,
    /// The names of items.
    items: BTreeSet<String>,
    /// The declared modules whose file lies elsewhere: the name, and the path in the attribute `#[path]`.
    elsewhere: Vec<(String, String)>,
}

impl File {
    fn read(path: &Path, module: Module) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut reader = Reader { file: Self::default(), module };
        reader.visit_file(&parsed);
        reader.file
    }
}

/// All files of a crate.
struct Crate {
    files: BTreeMap<Module, File>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut files = BTreeMap::new();
        for path in rust_files(src) {
            let mut module: Module = path
                .strip_prefix(src)
                .unwrap()
                .with_extension("")
                .components()
                .map(|part| part.as_os_str().to_str().unwrap().to_owned())
                .collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                module.pop();
            }
            let file = File::read(&path, module.clone());
            for (name, place) in &file.elsewhere {
                let child = [&module[..], std::slice::from_ref(name)].concat();
                files.insert(child.clone(), File::read(&path.with_file_name(place), child));
            }
            files.insert(module, file);
        }
        Self { files }
    }

    /// Returns the file that defines the item at `path`; `None` for items of other crates.
    fn defines(&self, path: &[String], followed: usize) -> Option<Module> {
        let mut module: Module = Vec::new();
        for (i, name) in path.iter().enumerate() {
            let mut child = module.clone();
            child.push(name.clone());
            if self.files.contains_key(&child) {
                module = child;
                continue;
            }
            let file = self.files.get(&module)?;
            let follow = |target: &Module| {
                let mut whole = target.clone();
                whole.extend_from_slice(&path[i + 1..]);
                (followed < 9 && *target != path[..=i]).then(|| self.defines(&whole, followed + 1)).flatten()
            };
            let has = |of: &&Module| self.files.get(*of).is_some_and(|file| file.items.contains(name));
            let whole =
                file.exported_whole.iter().find(has).map(|of| [&of[..], std::slice::from_ref(name)].concat());
            if let Some(target) = file.exported.get(name).or(whole.as_ref()) {
                return follow(target).or(Some(module));
            }
            return Some(module);
        }
        Some(module)
    }

    /// Returns the dependencies between the children of each folder.
    fn folders(&self) -> BTreeMap<Module, Folder> {
        let mut folders: BTreeMap<Module, Folder> = BTreeMap::new();
        for module in self.files.keys() {
            for depth in 0..module.len() {
                folders
                    .entry(module[..depth].to_vec())
                    .or_default()
                    .entry(module[depth].clone())
                    .or_default();
            }
        }
        for (from, file) in &self.files {
            for path in &file.named {
                let Some(to) = self.defines(path, 0).filter(|to| to != from) else { continue };
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(child), Some(other)) = (from.get(shared), to.get(shared))
                    && let Some(children) = folders.get_mut(&from[..shared])
                {
                    children.entry(child.clone()).or_default().insert(other.clone());
                }
            }
        }
        folders
    }
}

/// Reads one file.
struct Reader {
    file: File,
    module: Module,
}

impl Reader {
    /// Returns the path from the crate's root for `names` in this file; `None` for another crate's path.
    fn whole(&self, names: &[String]) -> Option<Module> {
        let (first, rest) = names.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.module, rest].concat()),
            "super" => {
                let (mut base, mut rest) = (self.module.clone(), names);
                while let Some((_, behind)) = rest.split_first().filter(|(name, _)| *name == "super") {
                    base.pop()?;
                    rest = behind;
                }
                Some([&base[..], rest].concat())
            }
            _ => None,
        }
    }

    fn import(&mut self, before: &[String], tree: &UseTree, is_export: bool) {
        let mut names = before.to_vec();
        match tree {
            UseTree::Path(path) => {
                names.push(path.ident.to_string());
                self.import(&names, &path.tree, is_export);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(before, tree, is_export)),
            UseTree::Name(name) => self.imported(before, name.ident.to_string(), None, is_export),
            UseTree::Rename(name) => {
                self.imported(before, name.ident.to_string(), Some(name.rename.to_string()), is_export);
            }
            UseTree::Glob(_) if is_export => {
                let whole = self.whole(&names).unwrap_or_else(|| [&self.module[..], &names].concat());
                self.file.exported_whole.push(whole);
            }
            UseTree::Glob(_) => self.file.named.extend(self.whole(&names)),
        }
    }

    fn imported(&mut self, before: &[String], name: String, renamed: Option<String>, is_export: bool) {
        let mut path = before.to_vec();
        let here = renamed.unwrap_or_else(|| name.clone());
        if name != "self" {
            path.push(name);
        }
        // `use child::Name` names a module of this one.
        let whole = self.whole(&path).unwrap_or_else(|| [&self.module[..], &path].concat());
        if is_export {
            self.file.exported.insert(here, whole);
        } else {
            self.file.named.insert(whole);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (i, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) if *first == "crate" || *first == "super" => {
                    let mut names = vec![first.to_string()];
                    let mut rest = tokens[i + 1..].iter();
                    while let (
                        Some(TokenTree::Punct(a)),
                        Some(TokenTree::Punct(b)),
                        Some(TokenTree::Ident(name)),
                    ) = (rest.next(), rest.next(), rest.next())
                        && (a.as_char(), b.as_char()) == (':', ':')
                    {
                        names.push(name.to_string());
                    }
                    self.file.named.extend(self.whole(&names));
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Struct(item) => &item.attrs,
            _ => &vec![],
        };
        let is_test = attributes.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        });
        if !is_test {
            let name = match item {
                Item::Const(item) => Some(&item.ident),
                Item::Enum(item) => Some(&item.ident),
                Item::Fn(item) => Some(&item.sig.ident),
                Item::Struct(item) => Some(&item.ident),
                Item::Trait(item) => Some(&item.ident),
                Item::Type(item) => Some(&item.ident),
                _ => None,
            };
            self.file.items.extend(name.map(ToString::to_string));
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let path = item.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(meta) if meta.path.is_ident("path") => Some(&meta.value),
            _ => None,
        });
        if let Some(syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. })) = path {
            self.file.elsewhere.push((item.ident.to_string(), path.value()));
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.file.named.extend(self.whole(&names));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }

    /// Attributes name items too, such as `value_parser = crate::values::parse`.
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            syn::Meta::List(list) => self.tokens(list.tokens.clone()),
            syn::Meta::NameValue(pair) => syn::visit::visit_expr(self, &pair.value),
            syn::Meta::Path(_) => {}
        }
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = matches!(path.file_stem().and_then(|name| name.to_str()), Some("tests" | "testing"));
        if path.is_dir() && !is_test {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Returns the cycles: children that can be reached from themselves, with the children in between.
fn circles(folder: &Folder) -> Vec<Vec<&str>> {
    let reach = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = next.pop() {
            next.extend(
                folder.get(&name).into_iter().flatten().filter(|to| seen.insert((*to).clone())).cloned(),
            );
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> =
        folder.keys().map(|name| (name.as_str(), reach(name))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (&name, to) in &reached {
        if to.contains(name) && !found.iter().any(|circle| circle.contains(&name)) {
            let both = |other: &&&str| to.contains(**other) && reached[**other].contains(name);
            found.push(reached.keys().filter(both).copied().collect());
        }
    }
    found
}

/// Returns the crates with modules, and the shared library of the phantom GPUs, by name.
fn crates() -> BTreeMap<String, Crate> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let read = Crate::read(&folder.join("src"));
        if read.files.len() > 1 {
            found.insert(name, read);
        }
    }
    for library in LIBRARIES {
        found.insert(library.to_owned(), Crate::read(&root().join("crates").join(library)));
    }
    found
}

#[test]
fn no_folder_has_an_import_cycle() {
    let mut told = String::new();
    for (name, read) in crates() {
        for (folder, children) in read.folders() {
            for circle in circles(&children) {
                let path = [std::slice::from_ref(&name), &folder[..]].concat().join("/");
                writeln!(told, "{path}: {}", circle.join(" <-> ")).unwrap();
            }
        }
    }
    assert!(told.is_empty(), "modules import each other in cycles:\n{told}");
}

/// Returns `.ci/order`: the crates, and the modules of each, as lines from the top.
fn order() -> BTreeMap<String, Vec<Vec<String>>> {
    let mut order: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut of = String::new();
    for line in read(".ci/order").lines().filter_map(|line| line.split('#').next()) {
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with(' ') {
            let names = line.split_whitespace().map(str::to_owned).collect();
            order.entry(of.clone()).or_default().push(names);
        } else {
            of = line.trim().to_owned();
        }
    }
    order
}

/// Describes the violations of the order: names missing on either side, and modules that use a module beside or above them.
fn disorder(lines: &[Vec<String>], uses: &Folder) -> String {
    let mut told = String::new();
    let line = |name: &str| lines.iter().position(|line| line.iter().any(|other| other == name));
    for name in lines.iter().flatten().filter(|name| !uses.contains_key(*name)) {
        writeln!(told, "  {name} is in the list but does not exist").unwrap();
    }
    for (name, used) in uses {
        let Some(own) = line(name) else {
            writeln!(told, "  {name} is not in the list").unwrap();
            continue;
        };
        for other in used.iter().filter(|other| line(other).is_some_and(|line| line <= own)) {
            writeln!(told, "  {name} uses {other}, which is not below it").unwrap();
        }
    }
    told
}

/// Returns the dependencies between crates, except those of tests.
fn uses_of_crates() -> Folder {
    let names: Vec<String> = vramscope_testing::book::crates();
    let uses = |name: &String| {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let tables = manifest
            .split("\n[")
            .filter(|table| table.starts_with("dependencies]") || table.starts_with("build-dependencies]"));
        let lines = tables.flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next());
        lines.filter(|used| names.iter().any(|name| name == used)).map(str::to_owned).collect()
    };
    names.iter().map(|name| (name.clone(), uses(name))).collect()
}

#[test]
fn every_module_stands_above_what_it_uses() {
    let order = order();
    let crates = crates();
    let mut told = String::new();
    let mut check = |name: &str, uses: &Folder| {
        let wrong = disorder(order.get(name).map_or(&[], Vec::as_slice), uses);
        if !wrong.is_empty() {
            write!(told, "{name}\n{wrong}").unwrap();
        }
    };
    check("crates", &uses_of_crates());
    for (name, read) in &crates {
        check(name, &read.folders()[&Module::new()]);
    }
    let known = |name: &String| name == "crates" || crates.contains_key(name);
    let unknown: Vec<&String> = order.keys().filter(|name| !known(name)).collect();
    assert!(told.is_empty() && unknown.is_empty(), "violations of .ci/order:\n{told}{unknown:?}");
}

/// The engine runs wherever Rust does, including browsers, so it does not use the operating system.
#[test]
fn the_engine_needs_no_operating_system() {
    const OF_A_SYSTEM: [&str; 9] = ["env", "fs", "io", "net", "os", "path", "process", "thread", "time"];
    let mut told = String::new();
    for name in ["vramscope-engine", "vramscope-packing", "vramscope-basics"] {
        let files = rust_files(&root().join("crates").join(name).join("src"));
        assert!(!files.is_empty());
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for used in OF_A_SYSTEM.map(|module| format!("std::{module}")) {
                if text.contains(&used) {
                    writeln!(told, "{}: {used}", file.display()).unwrap();
                }
            }
        }
    }
    assert!(told.is_empty(), "{told}");
}

/// Checks that the tests above detect violations.
#[test]
fn the_order_test_detects_violations() {
    let file = |names: &[&str]| {
        let named = names.iter().map(|path| path.split("::").map(str::to_owned).collect());
        File { named: named.collect(), ..File::default() }
    };
    let module = |path: &str| -> Module {
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut facade = File::default();
    facade.exported.insert("C".to_owned(), module("c::C"));
    let files = [("", facade), ("a", file(&["b::B"])), ("b", file(&["C"])), ("c", file(&[]))];
    let mut read = Crate { files: files.map(|(path, file)| (module(path), file)).into() };
    let root = |read: &Crate| read.folders()[&Module::new()].clone();
    assert!(circles(&root(&read)).is_empty());
    // A re-export of the root is followed to the defining file.
    read.files.insert(module("c"), file(&["a::A"]));
    assert_eq!(circles(&root(&read)), [["a", "b", "c"]]);

    // No order is valid for a cycle.
    let lines = |names: &[&str]| names.iter().map(|name| vec![(*name).to_owned()]).collect::<Vec<_>>();
    let told = disorder(&lines(&["a", "b", "c"]), &root(&read));
    assert_eq!(told, "  c uses a, which is not below it\n");
    assert!(disorder(&lines(&["a", "c"]), &root(&read)).contains("b is not in the list"));
}
