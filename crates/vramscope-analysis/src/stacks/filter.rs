//! A filter of stacks by their frames.

use std::borrow::Cow;

use regex::Regex;
use vramscope_trace::{StackId, Trace};

/// The stacks that a filter accepts, decided once for each stack.
pub(crate) struct StackFilter {
    takes: Vec<bool>,
}

impl StackFilter {
    pub(crate) fn new(trace: &Trace, filter: &Regex) -> Self {
        let matches = trace.frames.iter().map(|(_, f)| {
            let (file, name) = (trace.strings.get(f.filename), trace.strings.get(f.name));
            filter.is_match(&format!("{}:{} {}", end_of(file), f.line, start_of(name)))
        });
        let frames: Vec<bool> = matches.collect();
        Self { takes: trace.stacks.iter().map(|(_, s)| s.iter().any(|f| frames[f.index()])).collect() }
    }

    pub(crate) fn takes(&self, stack: Option<StackId>) -> bool {
        stack.is_some_and(|s| self.takes[s.index()])
    }
}

/// The largest number of bytes of a path or a function name that a filter reads. Many frames may share a text, and no known
/// system has longer paths.
const LONGEST_FILTERED: usize = 4 << 10;

/// Returns the end of a very long path, with a mark that it is cut.
fn end_of(path: &str) -> Cow<'_, str> {
    match path.len() {
        0..=LONGEST_FILTERED => path.into(),
        bytes => format!("…{}", &path[path.ceil_char_boundary(bytes - LONGEST_FILTERED)..]).into(),
    }
}

/// Returns the start of a very long name.
fn start_of(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_FILTERED)]
}
