//! A moving view of a byte stream: contiguous bytes to decode from, whatever the stream's chunks are.

use std::io::{self, Read};

/// Bytes asked of a stream at a time.
pub(super) const CHUNK: usize = 1 << 19;

/// Where a [`Window`] gets its bytes from.
pub(super) trait Source {
    /// Puts more of the stream behind the bytes at hand; nothing where the stream has ended.
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()>;
}

/// The bytes of a recording, unpacked, as they arrive: those at hand may be looked at before they are taken. It is also
/// a [`Read`], for readers that do their own buffering.
pub struct Window<'s> {
    source: Box<dyn Source + 's>,
    at_hand: AtHand,
    /// Offset in the stream behind the last byte at hand.
    read: u64,
    exhausted: bool,
    most_memory: u64,
}

impl<'s> Window<'s> {
    pub(super) fn new(source: impl Source + 's, memory_bytes: Option<u64>) -> Self {
        Self {
            source: Box::new(source),
            at_hand: AtHand::default(),
            read: 0,
            exhausted: false,
            most_memory: memory_bytes.unwrap_or(u64::MAX),
        }
    }

    /// Bytes of memory that the tables of the recording may take: [`ReadOptions::memory_bytes`](super::ReadOptions::memory_bytes), or
    /// [`u64::MAX`] without a limit.
    pub fn most_memory(&self) -> u64 {
        self.most_memory
    }

    /// Offset in the stream of the next byte.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.read - (self.at_hand.end - self.at_hand.pos) as u64
    }

    /// The bytes at hand.
    #[inline]
    pub fn here(&self) -> &[u8] {
        self.at_hand.bytes()
    }

    /// Steps over `n` of the bytes at hand.
    ///
    /// # Panics
    /// Later, where there are fewer.
    #[inline]
    pub fn advance(&mut self, n: usize) {
        debug_assert!(self.at_hand.pos + n <= self.at_hand.end);
        self.at_hand.pos += n;
    }

    /// Has `n` bytes at hand, or all that are left where there are fewer. The buffer grows with what
    /// arrives, not with what is asked for: a length in the file is not to be trusted.
    ///
    /// # Errors
    /// Where the stream fails.
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
            self.read += got as u64;
            self.exhausted = got == 0;
        }
        Ok(())
    }
}

/// What is left of the stream, for a reader that does its own buffering.
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

    /// Room for `least` bytes or more behind the bytes at hand. What is put there counts once
    /// [`arrived`](Self::arrived) says so.
    pub(super) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.buffer.len() - self.end < least {
            self.buffer.copy_within(self.pos..self.end, 0);
            self.end -= self.pos;
            self.pos = 0;
        }
        if self.buffer.len() - self.end < least {
            let length = (self.buffer.len() * 2).max(self.end + least).max(CHUNK);
            if self.buffer.is_empty() {
                // The system's fresh memory is zeros already: a small file touches little of it.
                self.buffer = vec![0; length];
            } else {
                self.buffer.resize(length, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// The first `n` bytes of the room are of the stream.
    pub(super) fn arrived(&mut self, n: usize) {
        self.end += n;
    }

    /// Takes the stream's next bytes, `chunk[start..end]`, together with the buffer they lie in, if what is
    /// left of the old ones fits in front of them; otherwise copies them. Gives back the buffer that is not
    /// needed any more.
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

/// A stream that is read when its bytes are needed: nothing waits for more of it than that.
pub(super) struct WhenNeeded<'p, R> {
    pub(super) stream: R,
    /// Told after each read.
    pub(super) progress: &'p mut dyn FnMut(),
}

impl<R: Read> Source for WhenNeeded<'_, R> {
    fn more(&mut self, at_hand: &mut AtHand) -> io::Result<()> {
        let got = read(&mut self.stream, at_hand.room(CHUNK / 2))?;
        at_hand.arrived(got);
        (self.progress)();
        Ok(())
    }
}

/// One read that was not interrupted by a signal.
pub(super) fn read(stream: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(out) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
