//! A trace of `torch.profiler` behind the last chunk of a log, as `export_chrome_trace` writes it, compressed with gzip.

#[cfg(not(target_family = "wasm"))]
use std::io::{self, Read as _, Write as _};
#[cfg(not(target_family = "wasm"))]
use std::path::Path;
use std::sync::Arc;

use crate::error::ReadError;
use crate::formats::window::Window;

/// Magic bytes before the size of the trace. Versions of the reader that do not know them skip them and all that follows.
pub(super) const ATTACHED: [u8; 8] = *b"\x93vramsop";

/// Size in bytes of the magic bytes and of the size.
const HEADER: usize = 16;

/// The first bytes of a gzip file.
#[cfg(not(target_family = "wasm"))]
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Appends a trace of `torch.profiler` to a complete log. The trace may be compressed with gzip. Readers find it in
/// [`Trace::operators`](crate::Trace::operators).
///
/// # Errors
/// A file cannot be read or written, or `log` is not a log.
#[cfg(not(target_family = "wasm"))]
pub fn append_operators(log: &Path, trace: &Path) -> io::Result<()> {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::MAGIC;

    let mut log = vramscope_files::open_to_append(log)?;
    let mut start = Vec::new();
    (&log).take(MAGIC.len() as u64).read_to_end(&mut start)?;
    if start != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a log of vramscope"));
    }
    let mut bytes = std::fs::read(trace)?;
    if !bytes.starts_with(&GZIP) {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&bytes)?;
        bytes = packed.finish()?;
    }
    let size = (bytes.len() as u64).to_le_bytes();
    let sum = crc32fast::hash(&bytes).to_le_bytes();
    log.write_all(&[&ATTACHED[..], &size, &bytes, &sum].concat())
}

/// Reads an attached trace from its magic bytes on. `None` if the file ends within it, or its checksum is wrong.
pub(super) fn read(window: &mut Window<'_>) -> Result<Option<Arc<[u8]>>, ReadError> {
    window.fill(HEADER)?;
    let size = window.here().get(ATTACHED.len()..).and_then(<[u8]>::first_chunk);
    let Some(size) = size.copied().map(u64::from_le_bytes) else { return Ok(None) };
    let most = window.most_memory();
    if size > most {
        return Err(ReadError::Memory { most });
    }
    let end = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(HEADER);
    window.fill(end.saturating_add(4))?;
    let Some(bytes) = window.here().get(HEADER..end) else { return Ok(None) };
    if window.here().get(end..end + 4) != Some(&crc32fast::hash(bytes).to_le_bytes()) {
        return Ok(None);
    }
    let bytes = Arc::from(bytes);
    window.advance(end + 4);
    Ok(Some(bytes))
}

/// Returns the bytes of a log before its attached trace.
pub(in crate::formats) fn without_operators(log: &[u8]) -> &[u8] {
    let at = log.windows(ATTACHED.len()).rposition(|bytes| bytes == ATTACHED);
    &log[..at.unwrap_or(log.len())]
}

#[cfg(test)]
mod tests;
