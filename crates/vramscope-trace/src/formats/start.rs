//! Detection of a file's kind from its beginning: the keys of the first JSON object, and the signatures of other files.

use crate::error::{ReadError, TEXT};

/// The first object of a JSON text: the text itself, or the first element of its list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FirstObject {
    /// Whether the text is a list of objects.
    pub(super) in_list: bool,
    /// The keys seen so far.
    pub(super) keys: Vec<String>,
    /// Whether all keys were read: the object has ended, or the text is not an object.
    pub(super) is_whole: bool,
}

impl FirstObject {
    /// Scans the beginning of a text; `None` if it does not begin like an object.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        let mut rest = Scan(start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start));
        let in_list = rest.take(b'[');
        let mut keys = Vec::new();
        if !rest.take(b'{') {
            // More bytes may show an object.
            return rest.0.is_empty().then_some(Self { in_list, keys, is_whole: false });
        }
        let is_whole = loop {
            match rest.next() {
                None => break false,
                Some(b'"') => {}
                Some(_) => break true,
            }
            let Some(key) = rest.string() else { break false };
            keys.push(String::from_utf8_lossy(&key[..key.len().min(LONGEST_KEY)]).into_owned());
            match (rest.next(), keys.len() < MOST_KEYS) {
                (Some(b':'), true) => {}
                (next, _) => break next.is_some(),
            }
            match rest.value() {
                None => break false,
                Some(b',') => {}
                Some(_) => break true,
            }
        };
        Some(Self { in_list, keys, is_whole })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }
}

/// Rows of logs have about thirty.
const MOST_KEYS: usize = 100;
const LONGEST_KEY: usize = 100;

/// The rest of a text.
struct Scan<'t>(&'t [u8]);

impl<'t> Scan<'t> {
    /// Returns the next byte that is not whitespace.
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.trim_ascii_start().split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// Skips `byte` if it is the next byte that is not whitespace.
    fn take(&mut self, byte: u8) -> bool {
        let text = self.0.trim_ascii_start();
        let rest = text.split_first().filter(|&(&next, _)| next == byte).map(|(_, rest)| rest);
        self.0 = rest.unwrap_or(text);
        rest.is_some()
    }

    /// Returns the rest of a string after its opening quote; `None` if the string does not end.
    fn string(&mut self) -> Option<&'t [u8]> {
        let mut escaped = false;
        let end = self.0.iter().position(|&byte| {
            let is_end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            is_end
        })?;
        let (string, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        Some(string)
    }

    /// Skips a value. Returns the byte after it, which ends it; `None` if the value does not end.
    fn value(&mut self) -> Option<u8> {
        let mut depth = 0u32;
        loop {
            match self.next()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => depth += 1,
                end @ (b'}' | b']' | b',') if depth == 0 => return Some(end),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
    }
}

/// Describes a file of another kind by its first bytes.
pub(super) fn other_file(start: &[u8]) -> ReadError {
    let (what, remedy) = match start {
        [] => return ReadError::Empty,
        [b'P', b'K', 3 | 5, ..] => ("a zip archive, as `torch.save` writes".to_owned(), DUMP),
        [b'(' | b']' | b'}', ..] => (
            "a pickle of protocol 0 or 1".to_owned(),
            "write the file again with `pickle.dump(.., protocol=4)`",
        ),
        s if s.starts_with(b"version https://git-lfs") => {
            ("a Git LFS pointer".to_owned(), "fetch the file itself with `git lfs pull`")
        }
        // A profile begins with the types of its values, which are short protobuf messages.
        [b'\n', 1..=8, 8, ..] => ("a pprof profile".to_owned(), EXPORTED),
        // The data inside a page is not printable.
        s if s.starts_with(b"<!doctype html>")
            && s.windows(PAGE_TITLE.len()).any(|part| part == PAGE_TITLE) =>
        {
            (
                "a page of `vramscope view --html`".to_owned(),
                "open it in a browser, or give the recording it was made from",
            )
        }
        s if s.starts_with(b"PAR1") => ("a table of `vramscope export`".to_owned(), EXPORTED),
        s => match text_start(s) {
            Some(text) => match own_text(s) {
                Some((what, remedy)) => (what.to_owned(), remedy),
                None if text.starts_with('<') => (
                    "a web page".to_owned(),
                    "give the snapshot it was made from; vramscope does not read pages of `_memory_viz.py`",
                ),
                None => (format!("{TEXT} \"{text}\""), DUMP),
            },
            None => {
                let hex: Vec<String> = s.iter().take(4).map(|b| format!("{b:02x}")).collect();
                (format!("an unknown kind of file that begins with the bytes {}", hex.join(" ")), DUMP)
            }
        },
    };
    ReadError::OtherFile { what, remedy }
}

/// Part of every page of `vramscope view`.
const PAGE_TITLE: &[u8] = b"<title>vramscope";

const DUMP: &str = "give the file that `torch.cuda.memory._dump_snapshot` wrote";
const ANSWERED: &str = "it is already a result: give the recording it was made from";
const EXPORTED: &str = "give the recording it was made from";
const SEEN: &str = "`vramscope monitor PID --output FILE` writes a log that vramscope reads";
const BUNDLED: &str = "give `snapshot.pickle`, the events or the log in the same folder";

/// Describes a text output of vramscope that is neither a recording nor a log.
fn own_text(start: &[u8]) -> Option<(&'static str, &'static str)> {
    let text = String::from_utf8_lossy(&start[..start.len().min(4096)]);
    let line = text.lines().next().unwrap_or_default();
    let has = |part: &str| text.contains(part);
    Some(match line {
        _ if line.starts_with("device,") && has("event") => ("a table of `vramscope export`", EXPORTED),
        _ if line.starts_with("<?xml") && has("<testsuites name=\"vramscope") => {
            ("output of `vramscope check --junit`", ANSWERED)
        }
        _ if line.starts_with("<?xml") && has("<svg") => {
            ("a flame graph", "open it in a browser, or give the recording it was made from")
        }
        _ if [": pickle, protocol ", ": JSON, ", ": log, version "]
            .iter()
            .any(|form| line.contains(form)) =>
        {
            ("a text report of `vramscope`", ANSWERED)
        }
        _ if line.starts_with("_vramscope") || line.starts_with("#compdef vramscope") => {
            ("a shell completion script of `vramscope`", EXPORTED)
        }
        _ if is_folded(line) => ("folded stacks of `vramscope export`", EXPORTED),
        _ if line.starts_with("# HELP ") || line.starts_with("# TYPE ") => ("Prometheus metrics", SEEN),
        _ => return None,
    })
}

/// Whether a line has the form `outermost;...;innermost bytes`.
fn is_folded(line: &str) -> bool {
    let bytes = line.rsplit_once(' ').filter(|(stack, _)| stack.contains(';')).map(|(_, bytes)| bytes);
    bytes.is_some_and(|bytes| bytes.parse::<u64>().is_ok())
}

/// Describes a JSON output of vramscope that is neither a recording nor a log, by the keys of its first object.
pub(super) fn own_json(object: &FirstObject) -> Option<ReadError> {
    let all = |keys: &[&str]| keys.iter().all(|key| object.has(key));
    let (what, remedy) = match object.in_list {
        true if all(&["name", "driver_name"]) => ("output of `vramscope phantom list --json`", EXPORTED),
        true => return None,
        false if all(&["file", "kept"]) => ("output of `vramscope check --json`", ANSWERED),
        false if all(&["file", "collector"]) => ("output of `vramscope report --json`", ANSWERED),
        false if all(&["file", "compression"]) => ("output of `vramscope info --json`", ANSWERED),
        false if all(&["file", "format", "output"]) => ("output of `vramscope export --json`", EXPORTED),
        false if all(&["file", "format", "devices"]) => ("output of `vramscope report --json`", ANSWERED),
        false if all(&["file", "devices"]) => ("output of `vramscope replay --json`", ANSWERED),
        false if all(&["files", "same"]) => ("output of `vramscope diff --json`", ANSWERED),
        false if all(&["source", "samples", "ended"]) => ("output of `vramscope monitor --json`", SEEN),
        false if all(&["gpus", "programs"]) => ("output of `vramscope top --json`", SEEN),
        false if all(&["command", "gpu", "fits"]) => (
            "output of `vramscope phantom run --json`",
            "give one of the recordings it names; `--record FILE` keeps them",
        ),
        false if all(&["url"]) || all(&["page", "bytes"]) => {
            ("output of `vramscope` without a recording", EXPORTED)
        }
        false if all(&["displayTimeUnit"]) || all(&["traceEvents"]) => (
            "a Chrome or Perfetto trace",
            "open it at ui.perfetto.dev, or give the recording it was made from",
        ),
        false if all(&["reason", "files"]) || all(&["reason", "custom_metadata"]) => {
            ("a part of an out-of-memory bundle", BUNDLED)
        }
        false if all(&["pid", "variables"]) => ("a part of an out-of-memory bundle", BUNDLED),
        false if all(&["total_used_bytes", "call_history"]) => (
            "a summary by function of `CupyMemoryProfileHook`",
            "open it in a text editor, or give a recording, which has more detail",
        ),
        false if all(&["nodes", "threads", "device_ids"]) => (
            "a summary by line of `LineProfileHook`",
            "open it in a text editor, or give a recording, which has more detail",
        ),
        false if object.keys.first().is_some_and(|key| key == "tests") => {
            ("a memory baseline of tests", "`pytest --vramscope-baseline FILE` reads it")
        }
        false => return None,
    };
    Some(ReadError::OtherFile { what: what.to_owned(), remedy })
}

/// Returns the beginning of `start`, if it is printable text.
fn text_start(start: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The last character may be incomplete.
        Err(e) if e.valid_up_to() + 4 > start.len() => std::str::from_utf8(&start[..e.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let printable = |c: &char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(|c| printable(&c)).then(|| text.chars().take(24).flat_map(char::escape_debug).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_first_object() {
        let keys =
            |text: &str| FirstObject::of(text.as_bytes()).map(|o| (o.in_list, o.keys.join(" "), o.is_whole));
        let found = |in_list, keys: &str, is_whole| Some((in_list, keys.to_owned(), is_whole));
        assert_eq!(keys(r#" {"a": 1, "b": {"c": ["}\"", 2]}, "d": "x"} tail"#), found(false, "a b d", true));
        assert_eq!(keys("[\n  {\"a\": [1, 2], \"b\": null}"), found(true, "a b", true));
        assert_eq!(keys(r#"{"a": 1, "b"#), found(false, "a", false));
        assert_eq!(keys(r#"{"a": {"#), found(false, "a", false));
        assert_eq!(keys("{"), found(false, "", false));
        assert_eq!(keys("{}"), found(false, "", true));
        assert_eq!(keys(r#"{"a"]"#), found(false, "a", true));
        assert_eq!((keys("[1]"), keys("text")), (None, None));
        assert_eq!((keys(" "), keys("[ ")), (found(false, "", false), found(true, "", false)));
        let many = format!("{{{}}}", r#""k":1,"#.repeat(1000));
        assert_eq!(FirstObject::of(many.as_bytes()).map(|o| o.keys.len()), Some(MOST_KEYS));
    }
}
