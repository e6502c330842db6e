//! A moving view of a byte stream: contiguous bytes to decode from, whatever the stream's chunks are.

use std::io::{self, Read};

/// Bytes asked of the stream at a time.
const CHUNK: usize = 1 << 18;

pub(super) struct Window<R> {
    stream: R,
    buffer: Vec<u8>,
    /// The next byte to decode.
    pos: usize,
    /// Where valid bytes end.
    end: usize,
    /// Offset in the stream of `buffer[0]`.
    base: u64,
    exhausted: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: vec![0; CHUNK], pos: 0, end: 0, base: 0, exhausted: false }
    }

    /// Offset in the stream of the next byte.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    /// The bytes at hand.
    #[inline]
    pub(super) fn here(&self) -> &[u8] {
        &self.buffer[self.pos..self.end]
    }

    /// Steps over `n` of the bytes at hand.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) {
        debug_assert!(self.pos + n <= self.end);
        self.pos += n;
    }

    /// Has `n` bytes at hand, or all that are left where there are fewer. The buffer grows with what
    /// arrives, not with what is asked for: a length in the file is not to be trusted.
    #[inline]
    pub(super) fn fill(&mut self, n: usize) -> io::Result<()> {
        if self.end - self.pos >= n { Ok(()) } else { self.fill_slow(n) }
    }

    #[cold]
    fn fill_slow(&mut self, n: usize) -> io::Result<()> {
        self.buffer.copy_within(self.pos..self.end, 0);
        self.base += self.pos as u64;
        self.end -= self.pos;
        self.pos = 0;
        while self.end < n && !self.exhausted {
            if self.buffer.len() - self.end < CHUNK / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.exhausted = true,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// What is left of the stream, for a reader that does its own buffering.
impl<R: Read> Read for Window<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.fill(1)?;
        let n = self.here().len().min(out.len());
        out[..n].copy_from_slice(&self.here()[..n]);
        self.advance(n);
        Ok(n)
    }
}
