//! Rows of comma-separated values, one at a time. Fields may be quoted, and a quoted field may have commas, quotes and line breaks.

use super::window::Window;
use crate::error::ReadError;

/// Maximum length of a row in bytes.
const LONGEST_ROW: usize = 1 << 20;

/// Bytes of a line that show whether a row begins with it.
const BEGINNING: usize = 1 << 10;

/// Whether a row begins with these bytes.
type BeginsRow<'s> = dyn Fn(&[u8]) -> bool + 's;

/// Rows of a stream.
pub(super) struct Rows<'s> {
    window: Window<'s>,
    /// Whether a row begins with a line, so that a quote before it is a stray one.
    begins: Box<BeginsRow<'s>>,
    /// Offset of the first byte of the current row, and how the row ends.
    start: u64,
    end: RowEnd,
    /// The fields of the current row, concatenated, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// How a row ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowEnd {
    /// With a line break.
    Complete,
    /// With the file: the row may be cut off.
    AtEnd,
    /// With a line break, but its quotes or its length are those of no row.
    Damaged,
}

impl<'s> Rows<'s> {
    /// The rows of `window`. `begins` returns whether a row, and no line of a quoted field, begins with a line of up to [`BEGINNING`] bytes.
    pub(super) fn new(window: Window<'s>, begins: impl Fn(&[u8]) -> bool + 's) -> Self {
        let (text, ends) = (Vec::new(), Vec::new());
        Self { window, begins: Box::new(begins), start: 0, end: RowEnd::Complete, text, ends }
    }

    /// Replaces the function that recognizes the beginning of a row, once the header is known.
    pub(super) fn set_begins(&mut self, begins: impl Fn(&[u8]) -> bool + 's) {
        self.begins = Box::new(begins);
    }

    /// Limit on memory; see [`Window::most_memory`].
    pub(super) fn most_memory(&self) -> u64 {
        self.window.most_memory()
    }

    /// Offset of the first byte of the current row.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// How the current row ends.
    pub(super) fn end(&self) -> RowEnd {
        self.end
    }

    /// Number of bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.window.offset()
    }

    /// Advances to the next row that is not empty; false at the end of the stream.
    pub(super) fn next(&mut self) -> Result<bool, ReadError> {
        loop {
            self.start = self.window.offset();
            self.text.clear();
            self.ends.clear();
            self.end = self.row()?;
            self.ends.push(self.text.len());
            let is_empty = self.text.is_empty() && self.ends.len() == 1;
            match (self.end, is_empty) {
                (RowEnd::Complete, true) => {}
                (RowEnd::AtEnd, true) => return Ok(false),
                _ => return Ok(true),
            }
        }
    }

    /// Reads one row.
    fn row(&mut self) -> Result<RowEnd, ReadError> {
        let mut in_quotes = false;
        // Whether the last byte of a quoted field was a quote: it ends the field, or is the first of two that stand for one.
        let mut after_quote = false;
        let mut is_damaged = false;
        let mut length = 0;
        loop {
            self.window.fill(1)?;
            let here = self.window.here();
            if here.is_empty() {
                return Ok(RowEnd::AtEnd);
            }
            let mut used = 0;
            let mut is_line = false;
            for &byte in here {
                used += 1;
                match byte {
                    b'\n' => {
                        is_line = true;
                        break;
                    }
                    // What follows is skipped up to the next line.
                    _ if is_damaged => {}
                    b'"' if in_quotes && !after_quote => after_quote = true,
                    b'"' if in_quotes => {
                        after_quote = false;
                        self.text.push(byte);
                    }
                    b'"' if self.text.len() == self.ends.last().copied().unwrap_or(0) => in_quotes = true,
                    b',' if !in_quotes || after_quote => {
                        (in_quotes, after_quote) = (false, false);
                        self.ends.push(self.text.len());
                    }
                    b'\r' if !in_quotes || after_quote => {}
                    _ => {
                        is_damaged |= after_quote;
                        self.text.push(byte);
                    }
                }
            }
            length += used;
            self.window.advance(used);
            is_damaged |= length > LONGEST_ROW;
            if !is_line {
                continue;
            }
            if is_damaged {
                return Ok(RowEnd::Damaged);
            }
            if !in_quotes || after_quote {
                return Ok(RowEnd::Complete);
            }
            self.window.fill(BEGINNING)?;
            let here = self.window.here();
            let line = here[..here.len().min(BEGINNING)].split(|&byte| byte == b'\n').next();
            if line.is_some_and(&self.begins) {
                return Ok(RowEnd::Damaged);
            }
            self.text.push(b'\n');
        }
    }

    /// Returns field `i` of the current row; empty if there is none. Bytes that are not UTF-8 are replaced.
    pub(super) fn field(&self, i: usize) -> std::borrow::Cow<'_, str> {
        let Some(&end) = self.ends.get(i) else { return "".into() };
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        String::from_utf8_lossy(&self.text[start..end])
    }

    /// Number of fields of the current row.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests;
