//! Zstandard in pure Rust, for targets without the C library. Decodes one frame after the other.

use std::io::{self, BufRead, Read};

use structured_zstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use structured_zstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Maximum window size in bytes, as in the C library: `zstd --long` and `--ultra -22` write no larger ones.
const LARGEST_WINDOW: u64 = 1 << 27;

/// Decompresses a stream of frames.
pub(super) struct Frames<R> {
    stream: R,
    frame: FrameDecoder,
    /// Whether a frame has begun and is not completely decoded.
    is_open: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(stream: R) -> io::Result<Self> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(LARGEST_WINDOW).map_err(io::Error::other)?;
        Ok(Self { stream, frame, is_open: false })
    }

    /// Moves to the next frame with content. Returns false at the end of the stream.
    fn open(&mut self) -> io::Result<bool> {
        while !self.stream.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.stream) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.stream).take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(false)
    }

    /// Compares the frame's checksum, if it has one, with the decoded content.
    fn check(&self) -> io::Result<()> {
        let (told, is) = (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum());
        if told.is_some() && told != is {
            return Err(io::Error::other("the checksum of a frame is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_open {
                if !self.open()? {
                    return Ok(0);
                }
                self.is_open = true;
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.stream, some).map_err(io::Error::other)?;
            }
            let n = self.frame.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            self.check()?;
            self.is_open = false;
        }
    }
}

#[cfg(test)]
mod tests;
