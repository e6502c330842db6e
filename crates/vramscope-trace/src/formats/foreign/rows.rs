//! Rows of comma-separated values, one at a time. Fields may be quoted, and a quoted field may have commas, quotes and line breaks.

use super::super::window::Window;
use crate::error::ReadError;

/// Maximum length of a row in bytes.
const LONGEST_ROW: usize = 1 << 20;

/// Rows of a stream.
pub(super) struct Rows<'s> {
    window: Window<'s>,
    /// Offset of the first byte of the current row.
    start: u64,
    /// The fields of the current row, concatenated, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl<'s> Rows<'s> {
    pub(super) fn new(window: Window<'s>) -> Self {
        Self { window, start: 0, text: Vec::new(), ends: Vec::new() }
    }

    /// Limit on memory; see [`Window::most_memory`].
    pub(super) fn most_memory(&self) -> u64 {
        self.window.most_memory()
    }

    /// Offset of the first byte of the current row.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Number of bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.window.offset()
    }

    /// Advances to the next row that is not empty; false at the end of the stream. Also returns whether the row is complete: the last
    /// row of a file may be cut off.
    pub(super) fn next(&mut self) -> Result<Option<bool>, ReadError> {
        loop {
            self.start = self.window.offset();
            self.text.clear();
            self.ends.clear();
            let is_complete = self.row()?;
            self.ends.push(self.text.len());
            let is_empty = self.text.is_empty() && self.ends.len() == 1;
            match (is_complete, is_empty) {
                (true, true) => {}
                (false, true) => return Ok(None),
                (is_complete, false) => return Ok(Some(is_complete)),
            }
        }
    }

    /// Reads one row. Returns whether a line break ends it.
    fn row(&mut self) -> Result<bool, ReadError> {
        let mut in_quotes = false;
        // Whether the last byte of a quoted field was a quote: it ends the field, or is the first of two that stand for one.
        let mut after_quote = false;
        let mut length = 0;
        loop {
            self.window.fill(1)?;
            let here = self.window.here();
            if here.is_empty() {
                return Ok(false);
            }
            let mut used = 0;
            let mut ended = false;
            for &byte in here {
                used += 1;
                match byte {
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
                    b'\n' if !in_quotes || after_quote => {
                        ended = true;
                        break;
                    }
                    b'\r' if !in_quotes || after_quote => {}
                    _ => self.text.push(byte),
                }
            }
            length += used;
            self.window.advance(used);
            if ended {
                return Ok(true);
            }
            if length > LONGEST_ROW {
                let what = format!("a row of more than {LONGEST_ROW} bytes");
                return Err(ReadError::Damaged { offset: self.start, what });
            }
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
mod tests {
    use super::super::super::window::WhenNeeded;
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        let mut progress = || {};
        let window = Window::new(WhenNeeded { stream: text.as_bytes(), progress: &mut progress }, None);
        let mut rows = Rows::new(window);
        let mut all = Vec::new();
        while rows.next().unwrap().is_some() {
            all.push((0..rows.len()).map(|i| rows.field(i).into_owned()).collect());
        }
        all
    }

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(rows("a,b\r\n\n1,\"x,\"\"y\"\"\nz\",\n"), [vec!["a", "b"], vec!["1", "x,\"y\"\nz", ""]]);
        assert_eq!(rows("last"), [["last"]]);
        assert_eq!(rows(""), Vec::<Vec<String>>::new());
        // A quote inside a field is a quote.
        assert_eq!(rows("a\"b,c\n"), [["a\"b", "c"]]);
    }

    #[test]
    fn a_row_has_a_maximum_length() {
        let text = format!("\"{}", "x,\n".repeat(LONGEST_ROW));
        let mut progress = || {};
        let window = Window::new(WhenNeeded { stream: text.as_bytes(), progress: &mut progress }, None);
        assert!(matches!(Rows::new(window).next(), Err(ReadError::Damaged { offset: 0, .. })));
    }
}
