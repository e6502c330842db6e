//! Wrapped lines, headings and styles shared by all text reports.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr as _;

use crate::fit::fit;
use crate::shown::Shown;

/// For headings and names.
pub const BOLD: Style = Style::new().bold();
/// For secondary text.
pub const DIM: Style = Style::new().dimmed();
/// For a verdict that something went wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// For a verdict that all is well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAR: Style = AnsiColor::Cyan.on_default();

/// Writes lines of a given width to a text.
#[derive(Debug)]
pub struct Lines<'o> {
    /// The text so far, with ANSI styles.
    pub out: &'o mut String,
    /// Line width in columns.
    pub width: usize,
}

impl Lines<'_> {
    /// Writes a line unchanged.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Writes words, wrapped at the width, with every row indented.
    pub fn words(&mut self, indent: usize, text: &str) {
        let width = self.width.saturating_sub(indent).max(20);
        let mut row = String::new();
        // Tracked incrementally: measuring the row again for each word would be quadratic.
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

    /// Writes a heading after an empty line.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "\n{BOLD}{text}{BOLD:#}");
    }

    /// Writes words in a style, wrapped at the width.
    pub fn styled_words(&mut self, style: Style, text: &str) {
        let _ = write!(self.out, "{style}");
        self.words(0, text);
        // The style ends before the line break.
        self.out.pop();
        let _ = writeln!(self.out, "{style:#}");
    }

    /// Writes the first line: a file name and facts about the file.
    pub fn title(&mut self, file: &str, facts: &str) {
        let room = self.width.saturating_sub(facts.width() + 2).max(20);
        let file = fit(&Shown::of(file), room);
        self.line(format!("{DIM}{file}: {facts}{DIM:#}"));
    }
}
