//! Decompression of streams, with a limit on the decompressed size.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ReadError;
use crate::formats::window::read;

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// `none`, `gzip` or `zstd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Limit on the decompressed size: a fixed number of bytes, plus a multiple of the compressed bytes. A recording of 300 training steps
/// expands by a factor of 42 with any compressor, because its times and addresses are unpredictable. A stream of zeros expands by a
/// factor of 1000 with gzip and 30,000 with Zstandard.
const FREE_BYTES: u64 = 16 << 20;
const MOST_TIMES: u64 = 250;

/// Number of bytes read from the file, before decompression.
#[derive(Default)]
pub(super) struct Taken(AtomicU64);

impl Taken {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts the bytes read from a stream.
pub(super) struct Counted<'t, R> {
    stream: R,
    taken: &'t Taken,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        self.taken.0.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A stream after the detection of its compression: the first bytes, and the rest.
type Whole<'t, R> = io::Chain<Cursor<Vec<u8>>, Counted<'t, R>>;

/// A decompressed stream.
pub(super) struct Expanded<'t, R> {
    stream: Decoder<'t, R>,
    taken: &'t Taken,
    /// Limit on the decompressed bytes; `None` for the default limit.
    most: Option<u64>,
    /// Decompressed bytes so far.
    expanded: u64,
}

enum Decoder<'t, R> {
    None(Whole<'t, R>),
    Gzip(Box<flate2::read::MultiGzDecoder<BufReader<Whole<'t, R>>>>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Whole<'t, R>>>),
    #[cfg(all(feature = "portable-zstd", not(feature = "zstd")))]
    Zstd(Box<vramscope_bare::zstd::Frames<BufReader<Whole<'t, R>>>>),
}

impl<'t, R: Read> Expanded<'t, R> {
    /// Detects the compression from the first four bytes of `stream`.
    pub(super) fn new(stream: R, taken: &'t Taken, most: Option<u64>) -> io::Result<Self> {
        let mut stream = Counted { stream, taken };
        let mut start = [0; 4];
        let mut length = 0;
        while length < start.len() {
            match read(&mut stream, &mut start[length..])? {
                0 => break,
                n => length += n,
            }
        }
        let whole = Cursor::new(start[..length].to_vec()).chain(stream);
        let stream = match start {
            [0x1f, 0x8b, ..] => {
                Decoder::Gzip(Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(whole))))
            }
            #[cfg(feature = "zstd")]
            [0x28, 0xb5, 0x2f, 0xfd] => Decoder::Zstd(zstd::stream::read::Decoder::new(whole)?),
            #[cfg(all(feature = "portable-zstd", not(feature = "zstd")))]
            [0x28, 0xb5, 0x2f, 0xfd] => {
                Decoder::Zstd(Box::new(vramscope_bare::zstd::Frames::new(BufReader::new(whole))))
            }
            #[cfg(not(any(feature = "portable-zstd", feature = "zstd")))]
            [0x28, 0xb5, 0x2f, 0xfd] => return Err(io::Error::other(ReadError::WithoutZstd)),
            _ => Decoder::None(whole),
        };
        Ok(Self { stream, taken, most, expanded: 0 })
    }

    pub(super) fn compression(&self) -> Compression {
        match self.stream {
            Decoder::None(_) => Compression::None,
            Decoder::Gzip(_) => Compression::Gzip,
            #[cfg(any(feature = "portable-zstd", feature = "zstd"))]
            Decoder::Zstd(_) => Compression::Zstd,
        }
    }
}

impl<R: Read> Read for Expanded<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = match &mut self.stream {
            Decoder::None(stream) => return stream.read(out),
            Decoder::Gzip(stream) => stream.read(out)?,
            #[cfg(any(feature = "portable-zstd", feature = "zstd"))]
            Decoder::Zstd(stream) => stream.read(out)?,
        };
        self.expanded += n as u64;
        let usual = FREE_BYTES + MOST_TIMES * self.taken.bytes();
        let most = self.most.unwrap_or(usual);
        if self.expanded > most {
            return Err(io::Error::other(ReadError::Expands { name: self.compression().name(), most }));
        }
        Ok(n)
    }
}

/// Converts an I/O error of a compressed stream to an error of its decompressor.
pub(super) fn in_words<T>(compression: Compression, result: Result<T, ReadError>) -> Result<T, ReadError> {
    result.map_err(|e| match (compression, e) {
        (Compression::Gzip | Compression::Zstd, ReadError::Io(e)) => {
            ReadError::Compressed { name: compression.name(), why: e.to_string() }
        }
        (_, e) => e,
    })
}
