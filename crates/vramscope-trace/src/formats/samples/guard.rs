//! Limits the length of texts in a stream, because the parser of JSON buffers a whole text.

use std::io::{self, Read};

use super::LONGEST_ROW;
use crate::formats::window::Window;

/// A stream that returns an error when a text is too long.
pub(super) struct Guard<'s> {
    stream: Window<'s>,
    in_quotes: bool,
    /// Whether the previous byte was a backslash inside a text.
    escaped: bool,
    /// Number of bytes since the last delimiter.
    run: usize,
}

impl<'s> Guard<'s> {
    pub(super) fn new(stream: Window<'s>) -> Self {
        Self { stream, in_quotes: false, escaped: false, run: 0 }
    }

    fn see(&mut self, byte: u8) {
        self.run = if self.in_quotes { self.run + 1 } else { 0 };
        if byte == b'"' && !self.escaped {
            self.in_quotes = !self.in_quotes;
        }
        self.escaped = self.in_quotes && byte == b'\\' && !self.escaped;
    }
}

impl Read for Guard<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        for &byte in &out[..n] {
            self.see(byte);
        }
        if self.run > LONGEST_ROW {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a text of more than 1 MiB, which no log has; the file is damaged or not a log",
            ));
        }
        Ok(n)
    }
}
