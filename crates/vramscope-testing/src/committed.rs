//! Files that tests generate and that are committed, for programs in another language.

use std::collections::BTreeMap;

use ts_rs::{Config, TS, TypeVisitor};

use crate::book::root;

/// Compares a committed file, whose path is relative to the repository's root, with its current contents. As with snapshots,
/// `INSTA_UPDATE=always` writes it.
///
/// # Panics
/// The two differ, or the file cannot be read or written.
pub fn committed(path: &str, now: &str) {
    let file = root().join(path);
    let done = if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&file, now)
    } else {
        std::fs::read_to_string(&file).map(|is| {
            let differs = is.lines().zip(now.lines()).find(|(is, now)| is != now);
            assert!(is == now, "{path} differs, first here: {differs:?}; INSTA_UPDATE=always writes it");
        })
    };
    if let Err(e) = done {
        panic!("{}: {e}", file.display());
    }
}

/// TypeScript declarations of types and of the types of their members, by name, with documentation. Every number is a `number`.
#[derive(Debug, Default)]
pub struct Declarations(BTreeMap<String, String>);

impl Declarations {
    /// Declares a type and the types of its members, if they are not declared. Returns the name of the type.
    pub fn add<T: TS + 'static + ?Sized>(&mut self) -> String {
        self.visit::<T>();
        T::visit_generics(self);
        T::name(&config())
    }

    /// All declarations, sorted by name.
    pub fn text(&self) -> String {
        self.0.values().map(String::as_str).collect()
    }
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // A type without a path, such as a number or a list, has no declaration.
        if T::output_path().is_none() || self.0.contains_key(&T::ident(&config())) {
            return;
        }
        self.0.insert(T::ident(&config()), typescript(T::docs().as_deref(), &T::decl(&config())));
        T::visit_dependencies(self);
    }
}

fn config() -> Config {
    Config::default().with_large_int("number")
}

/// Formats a TypeScript declaration of the generating library, with one member per line.
fn typescript(docs: Option<&str>, declaration: &str) -> String {
    let mut out = String::from("\n");
    out += docs.unwrap_or_default();
    out += "export ";
    let (mut depth, mut rest) = (0usize, declaration);
    while let Some(c) = rest.chars().next() {
        if let Some(end) = rest.strip_prefix("/**").and_then(|comment| comment.find("*/")) {
            let (comment, after) = rest.split_at(end + 5);
            let words = comment.trim_start_matches("/**").trim_end_matches("*/").lines();
            let words: Vec<&str> = words.map(|l| l.trim().trim_start_matches('*').trim()).collect();
            out += &format!("/** {} */\n{:indent$}", words.join(" ").trim(), "", indent = 2 * depth);
            rest = after.trim_start();
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' => {
                depth += 1;
                rest = rest.trim_start();
                out += &format!("{{\n{:indent$}", "", indent = 2 * depth);
            }
            '}' => {
                depth = depth.saturating_sub(1);
                out.truncate(out.trim_end().len());
                out += &format!("\n{:indent$}}}", "", indent = 2 * depth);
            }
            // A comma between members; in tuples and parameter lists, a bracket is still open.
            ',' if depth > 0 && is_balanced(&out) => {
                rest = rest.trim_start();
                out += &format!(";\n{:indent$}", "", indent = 2 * depth);
            }
            _ => out.push(c),
        }
    }
    out + "\n"
}

/// Whether every bracket of the last line is closed.
fn is_balanced(written: &str) -> bool {
    let line = written.lines().next_back().unwrap_or_default();
    let count = |brackets: [char; 2]| line.matches(brackets[0]).count() == line.matches(brackets[1]).count();
    count(['<', '>']) && count(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::typescript;

    #[test]
    fn members_stand_below_each_other() {
        let declaration = "type A<T> = { a: T, \n/**\n * Two, that is.\n */\nb: Array<[number, B<T, T>]>, c: { d: T | null, }, };";
        let written = "\n/** A. */\nexport type A<T> = {\n  a: T;\n  /** Two, that is. */\n  b: Array<[number, B<T, T>]>;\n  c: {\n    d: T | null;\n  };\n};\n";
        assert_eq!(typescript(Some("/** A. */\n"), declaration), written);
        assert_eq!(typescript(None, "type K = \"a\" | \"b\";"), "\nexport type K = \"a\" | \"b\";\n");
    }
}
