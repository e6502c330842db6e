//! The state of a text report while it is written, shared by all sections.

use std::fmt::Write as _;

use anstyle::Style;
use vramscope_analysis::Recorder;
use vramscope_trace::formats::{Compression, Recording};

use super::lines::Lines;
pub(crate) use super::lines::{BAR, DIM};
use crate::advice::{Advice, sentence};
use crate::names::Names;
use vramscope_basics::units::counted;

/// The default limit on the rows of each list.
pub const ROWS: usize = 10;

/// The layout of the text.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// Line width in columns.
    pub width: usize,
    /// Limit on the rows of each list.
    pub top: usize,
    /// Whether every row is followed by all frames of its stack.
    pub full_stacks: bool,
}

/// A text report that is being written. Each section is a file with further methods.
pub(crate) struct Page<'r> {
    pub(crate) out: String,
    pub(crate) names: Names<'r>,
    pub(crate) recorder: Recorder,
    pub(crate) advice: Advice,
    pub(crate) options: TextOptions,
}

impl<'r> Page<'r> {
    pub(crate) fn new(names: Names<'r>, recorder: Recorder, advice: Advice, options: TextOptions) -> Self {
        Self { out: String::new(), names, recorder, advice, options }
    }

    pub(crate) fn lines(&mut self) -> Lines<'_> {
        Lines { out: &mut self.out, width: self.options.width }
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.lines().line(text);
    }

    pub(crate) fn words(&mut self, indent: usize, text: &str) {
        self.lines().words(indent, text);
    }

    /// Writes words after a prefix and indents every row by its length. The prefix must be ASCII.
    pub(crate) fn hanging(&mut self, prefix: &str, text: &str) {
        let start = self.out.len();
        self.words(prefix.len(), text);
        self.out.replace_range(start..start + prefix.len(), prefix);
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.lines().heading(text);
    }

    pub(crate) fn styled_words(&mut self, style: Style, text: &str) {
        self.lines().styled_words(style, text);
    }

    pub(crate) fn file(&mut self, file: &str, recording: &Recording, events: usize, devices: usize) {
        let facts = format!(
            "{}, {} on {}",
            format_of(recording),
            counted(events as u64, "event"),
            counted(devices as u64, "device"),
        );
        self.lines().title(file, &facts);
        if recording.notices.damage.places > 0 {
            let damage = recording.notices.damage.to_string();
            self.styled_words(super::lines::BAD, &format!("{}.", sentence(&damage)));
        }
    }
}

/// The format of a file, as `pickle, protocol 4, compressed with zstd`.
pub(crate) fn format_of(recording: &Recording) -> String {
    let mut text = recording.format.to_string();
    if recording.compression != Compression::None {
        let _ = write!(text, ", compressed with {}", recording.compression.name());
    }
    text
}
