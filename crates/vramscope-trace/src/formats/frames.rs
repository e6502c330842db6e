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
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Frames::new(bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn packed_at(level: i32, bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), level).unwrap();
        encoder.include_checksum(true).unwrap();
        io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        packed_at(3, bytes)
    }

    /// Returns the bytes that are neither random nor constant.
    fn some(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * i / 7 % 251) as u8).collect()
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let (first, second) = (some(1_000_000), some(300));
        let skipped = [&0x184d_2a53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"notes"].concat();
        let all = [&packed(&first)[..], &skipped, &packed(b""), &packed(&second)].concat();
        assert_eq!(unpacked(&all).unwrap(), [first, second].concat());
        assert_eq!(unpacked(b"").unwrap(), b"");
    }

    #[test]
    fn windows_of_all_levels_of_zstd_are_read() {
        let packed = |log: u32| {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(log).unwrap();
            encoder.long_distance_matching(true).unwrap();
            io::Write::write_all(&mut encoder, &some(3_000_000)).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpacked(&packed(27)).unwrap(), some(3_000_000));
        unpacked(&packed(28)).unwrap_err();
    }

    proptest! {
        /// The C library is the reference: this decoder accepts valid and modified data only if the C library accepts it, with the same
        /// result.
        #[test]
        fn the_library_of_c_reads_the_same(
            seed in any::<[u8; 32]>(),
            length in 0..50_000usize,
            level in 1..20i32,
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let bytes: Vec<u8> = (0..length).map(|i| seed[i * i / 7 % 32] ^ (i / 999) as u8).collect();
            let mut packed = packed_at(level, &bytes);
            prop_assert_eq!(unpacked(&packed).unwrap(), bytes);
            for (at, with) in changes {
                let at = at.index(packed.len());
                packed[at] ^= with;
            }
            if let Ok(ours) = unpacked(&packed) {
                prop_assert!(ours == zstd::decode_all(&packed[..]).unwrap());
            }
        }
    }

    #[test]
    fn cut_and_changed_frames_are_errors() {
        let whole = packed(&some(100_000));
        for length in (1..whole.len()).step_by(997) {
            unpacked(&whole[..length]).unwrap_err();
        }
        for at in (0..whole.len()).step_by(991) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(unpacked(&changed).is_err_and(|e| !e.to_string().is_empty()), "byte {at}");
        }
    }
}
