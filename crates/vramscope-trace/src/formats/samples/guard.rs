//! Limits the length of texts and records in a stream, because parsers buffer a whole text or record.

use std::io::{self, Read};

use super::LONGEST_ROW;

/// A stream that returns an error when a text or a record is too long.
pub(super) struct Guard<R> {
    stream: R,
    ends: Ends,
    in_quotes: bool,
    /// Whether the previous byte was a backslash inside a JSON string.
    escaped: bool,
    /// Number of bytes since the last delimiter.
    run: usize,
}

/// The delimiter that must recur within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The end of a JSON string.
    Strings,
    /// The end of a table record.
    #[cfg(feature = "csv")]
    Records,
}

impl<R> Guard<R> {
    pub(super) fn new(stream: R, ends: Ends) -> Self {
        Self { stream, ends, in_quotes: false, escaped: false, run: 0 }
    }

    fn see(&mut self, byte: u8) {
        let is_end = match self.ends {
            Ends::Strings => !self.in_quotes,
            #[cfg(feature = "csv")]
            Ends::Records => byte == b'\n' && !self.in_quotes,
        };
        self.run = if is_end { 0 } else { self.run + 1 };
        if byte == b'"' && !self.escaped {
            self.in_quotes = !self.in_quotes;
        }
        self.escaped = self.ends == Ends::Strings && self.in_quotes && byte == b'\\' && !self.escaped;
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        for &byte in &out[..n] {
            self.see(byte);
        }
        if self.run > LONGEST_ROW {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a row or a text of more than 1 MiB, which no log has; the file is damaged or not a log",
            ));
        }
        Ok(n)
    }
}
