//! Lines of text under way: words that are wrapped, headings and styles that all pages share.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr as _;

use crate::fit::fit;
use crate::shown::Shown;

/// Of headings and names.
pub const BOLD: Style = Style::new().bold();
/// Of what matters less.
pub const DIM: Style = Style::new().dimmed();
/// Of a verdict that something went wrong.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Of a verdict that all is well.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAR: Style = AnsiColor::Cyan.on_default();

/// A text under way, whose lines take so many columns.
#[derive(Debug)]
pub struct Lines<'o> {
    /// What is written so far, with ANSI styles.
    pub out: &'o mut String,
    /// Columns that a line may take.
    pub width: usize,
}

impl Lines<'_> {
    /// A line as it is.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Words, wrapped at the width with every row indented.
    pub fn words(&mut self, indent: usize, text: &str) {
        let width = self.width.saturating_sub(indent).max(20);
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

    /// A heading, with a line before it.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "\n{BOLD}{text}{BOLD:#}");
    }

    /// Words, wrapped at the width, in a style.
    pub fn styled_words(&mut self, style: Style, text: &str) {
        let _ = write!(self.out, "{style}");
        self.words(0, text);
        // The style ends before the line does.
        self.out.pop();
        let _ = writeln!(self.out, "{style:#}");
    }

    /// The first line: a file, and what it is.
    pub fn title(&mut self, file: &str, facts: &str) {
        let room = self.width.saturating_sub(facts.width() + 2).max(20);
        let file = fit(&Shown::of(file), room);
        self.line(format!("{DIM}{file}: {facts}{DIM:#}"));
    }
}
