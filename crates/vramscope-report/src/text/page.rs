//! A page of text as it is written: lines, words, headings and styles that all sections share.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::Recorder;
use vramscope_trace::formats::{Compression, Recording};

use crate::advice::Advice;
use crate::fit::fit;
use crate::names::Names;
use crate::shown::Shown;
use vramscope_basics::units::counted;

/// How the text is laid out.
#[derive(Debug, Clone, Copy)]
pub struct TextOptions {
    /// Columns that a line may take.
    pub width: usize,
    /// The most rows of each list.
    pub top: usize,
    /// Whether every frame of its stack follows each row.
    pub full_stacks: bool,
}

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAR: Style = AnsiColor::Cyan.on_default();

/// A page under way. Each section is a file that adds to it.
pub(super) struct Page<'r> {
    pub(super) out: String,
    pub(super) names: Names<'r>,
    pub(super) recorder: Recorder,
    pub(super) advice: Advice,
    pub(super) options: TextOptions,
}

impl<'r> Page<'r> {
    pub(super) fn new(names: Names<'r>, recorder: Recorder, advice: Advice, options: TextOptions) -> Self {
        Self { out: String::new(), names, recorder, advice, options }
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Words, wrapped at the width with every row indented.
    pub(super) fn words(&mut self, indent: usize, text: &str) {
        let width = self.options.width.saturating_sub(indent).max(20);
        let mut row = String::new();
        // Columns of the row: measured again for each word, a long row would cost its square.
        let mut used = 0;
        for word in text.trim_end().split(' ') {
            let columns = word.width();
            if !row.is_empty() && used + 1 + columns > width {
                let _ = writeln!(self.out, "{:indent$}{row}", "");
                row.clear();
                used = 0;
            }
            if !row.is_empty() {
                row.push(' ');
                used += 1;
            }
            row.push_str(word);
            used += columns;
        }
        let _ = writeln!(self.out, "{:indent$}{row}", "");
    }

    /// Words behind a prefix, every row indented by its columns, which are as many as its bytes.
    pub(super) fn hanging(&mut self, prefix: &str, text: &str) {
        let start = self.out.len();
        self.words(prefix.len(), text);
        self.out.replace_range(start..start + prefix.len(), prefix);
    }

    pub(super) fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "\n{BOLD}{text}{BOLD:#}");
    }

    pub(super) fn styled_words(&mut self, style: Style, text: &str) {
        let _ = write!(self.out, "{style}");
        self.words(0, text);
        // The style ends before the line does.
        self.out.pop();
        let _ = writeln!(self.out, "{style:#}");
    }

    pub(super) fn file(&mut self, file: &str, recording: &Recording, events: usize, devices: usize) {
        let facts = format!(
            "{}, {} on {}",
            format_of(recording),
            counted(events as u64, "event"),
            counted(devices as u64, "device"),
        );
        let room = self.options.width.saturating_sub(facts.width() + 2).max(20);
        let file = fit(&Shown::of(file), room);
        self.line(format!("{DIM}{file}: {facts}{DIM:#}"));
    }
}

/// The form of a file, as `pickle, protocol 4, compressed with zstd`.
pub(super) fn format_of(recording: &Recording) -> String {
    let mut text = recording.format.to_string();
    if recording.compression != Compression::None {
        let _ = write!(text, ", compressed with {}", recording.compression.name());
    }
    text
}
