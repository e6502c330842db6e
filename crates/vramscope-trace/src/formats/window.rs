//! A moving window on a byte stream: contiguous bytes for decoding, independent of the stream's chunks.

use std::io::{self, Read};

/// Size of one read from a stream, in bytes.
pub(super) const CHUNK: usize = 1 << 19;

/// Size of the first buffer of a stream, in bytes.
const SMALLEST: usize = 1 << 15;

/// Source of a [`Window`]'s bytes.
pub(super) trait Source {
    /// Appends more of the stream to the bytes at hand. Appends nothing at the end of the stream.
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()>;
}

/// The decompressed bytes of a recording as they arrive. A reader may inspect bytes before it consumes them. `Window` is also a
/// [`Read`], for readers that do their own buffering.
pub struct Window<'s> {
    source: Box<dyn Source + 's>,
    at_hand: AtHand,
    /// Stream offset after the last byte at hand.
    read: u64,
    exhausted: bool,
    most_memory: u64,
    /// Receives all bytes of the stream.
    copy: Option<&'s mut Vec<u8>>,
}

impl<'s> Window<'s> {
    pub(super) fn new(source: impl Source + 's, memory_bytes: Option<u64>) -> Self {
        Self {
            source: Box::new(source),
            at_hand: AtHand::default(),
            read: 0,
            exhausted: false,
            most_memory: memory_bytes.unwrap_or(u64::MAX),
            copy: None,
        }
    }

    /// Appends the bytes at hand, and all that follow, to `copy` too.
    pub(super) fn copied_to<'t>(self, copy: &'t mut Vec<u8>) -> Window<'t>
    where
        's: 't,
    {
        copy.extend_from_slice(self.here());
        Window { copy: Some(copy), ..self }
    }

    /// Limit on the memory of the recording's tables in bytes: [`ReadOptions::memory_bytes`](super::ReadOptions::memory_bytes), or
    /// [`u64::MAX`] without a limit.
    pub fn most_memory(&self) -> u64 {
        self.most_memory
    }

    /// Stream offset of the next byte.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.read - (self.at_hand.end - self.at_hand.pos) as u64
    }

    /// Returns the bytes at hand.
    #[inline]
    pub fn here(&self) -> &[u8] {
        self.at_hand.bytes()
    }

    /// Consumes `n` of the bytes at hand.
    ///
    /// # Panics
    /// A later call panics if there are fewer than `n` bytes at hand.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        debug_assert!(self.at_hand.pos + n <= self.at_hand.end);
        self.at_hand.pos += n;
    }

    /// Makes `n` bytes available, or all remaining bytes if there are fewer. The buffer grows with the arriving bytes, not with `n`,
    /// because a length in the file is not trusted.
    ///
    /// # Errors
    /// If the stream fails.
    #[inline]
    pub fn fill(&mut self, n: usize) -> io::Result<()> {
        if self.here().len() >= n { Ok(()) } else { self.fill_slow(n) }
    }

    #[cold]
    fn fill_slow(&mut self, n: usize) -> io::Result<()> {
        while self.here().len() < n && !self.exhausted {
            let before = self.here().len();
            self.source.more(&mut self.at_hand)?;
            let got = self.here().len() - before;
            if let Some(copy) = &mut self.copy {
                copy.extend_from_slice(&self.at_hand.bytes()[before..]);
            }
            self.read += got as u64;
            self.exhausted = got == 0;
        }
        Ok(())
    }
}

/// The rest of the stream, for readers that do their own buffering.
impl Read for Window<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.fill(1)?;
        let n = self.here().len().min(out.len());
        out[..n].copy_from_slice(&self.here()[..n]);
        self.advance(n);
        Ok(n)
    }
}

/// Bytes that arrived and are not decoded yet: `buffer[pos..end]`.
#[derive(Default)]
pub(super) struct AtHand {
    buffer: Vec<u8>,
    pos: usize,
    end: usize,
}

impl AtHand {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.pos..self.end]
    }

    /// Returns space for at least `least` bytes after the bytes at hand. Call [`arrived`](Self::arrived) after writing to it.
    pub(super) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.buffer.len() - self.end < least {
            self.buffer.copy_within(self.pos..self.end, 0);
            self.end -= self.pos;
            self.pos = 0;
        }
        if self.buffer.len() - self.end < least {
            self.buffer.resize((self.buffer.len() * 2).max(self.end + least), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Marks the first `n` bytes of the space as bytes of the stream.
    pub(super) fn arrived(&mut self, n: usize) {
        self.end += n;
    }

    /// Appends the stream's next bytes, `chunk[start..end]`. If the unused bytes fit in front of them, takes over the chunk's buffer;
    /// otherwise copies the new bytes. Returns the buffer that is no longer needed.
    pub(super) fn take(&mut self, mut chunk: Vec<u8>, start: usize, end: usize) -> Vec<u8> {
        let left = self.bytes().len();
        match start.checked_sub(left) {
            Some(pos) => {
                chunk[pos..start].copy_from_slice(self.bytes());
                (self.pos, self.end) = (pos, end);
                std::mem::replace(&mut self.buffer, chunk)
            }
            None => {
                let bytes = &chunk[start..end];
                self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
                self.arrived(bytes.len());
                chunk
            }
        }
    }
}

/// A stream that is read on demand: no read waits for more bytes than needed.
pub(super) struct WhenNeeded<'p, R> {
    pub(super) stream: R,
    /// Called after each read.
    pub(super) progress: &'p mut dyn FnMut(),
}

impl<R: Read> Source for WhenNeeded<'_, R> {
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()> {
        // The memory of a small file is about as large as the file.
        let least = at_hand.buffer.len().clamp(SMALLEST, CHUNK / 2);
        let got = read(&mut self.stream, at_hand.room(least))?;
        at_hand.arrived(got);
        (self.progress)();
        Ok(())
    }
}

/// Reads once. Repeats a read that was interrupted by a signal.
pub(super) fn read(stream: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(out) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
