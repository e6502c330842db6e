//! A choice of stacks by what stands in them.

use std::borrow::Cow;

use regex::Regex;
use vramscope_trace::{StackId, Trace};

/// Which stacks a filter takes, decided once for each.
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

/// The most bytes of a path and of a function's name that a filter looks at: many frames may share a text, and no
/// known system has a longer path.
const LONGEST_FILTERED: usize = 4 << 10;

/// Of a path without end the end, behind a sign that it is not all.
fn end_of(path: &str) -> Cow<'_, str> {
    match path.len() {
        0..=LONGEST_FILTERED => path.into(),
        bytes => format!("…{}", &path[path.ceil_char_boundary(bytes - LONGEST_FILTERED)..]).into(),
    }
}

/// Of a name without end the start.
fn start_of(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_FILTERED)]
}
