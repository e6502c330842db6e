//! A recording written while the program runs: records are only ever added, and what has reached the file
//! stays readable, even where the program is killed in the next moment.
//!
//! ```text
//!   file     magic (8 bytes), version (4 bytes), run (8 bytes), chunk, chunk ...
//!   chunk    bytes of the payload (4 bytes), CRC-32 of what follows (4 bytes), run (8 bytes), number (4 bytes),
//!            payload
//!   payload  whole records
//!   record   tag (1 byte), fields
//! ```
//!
//! Numbers outside of payloads are little-endian. In a payload, fields stand in the order in which
//! [`LogWriter`] writes them:
//!
//! - a number is unsigned LEB128, and zigzag where it may be negative
//! - an address is eight bytes, little-endian; as LEB128 it would be seven
//! - an action, a kind of segment, a state of a block and a stage are the number of the string that names them
//! - a text is the number of its bytes, and UTF-8
//! - strings, sites and stacks are numbered from 0 in the order of their records and referred to by that
//!   number; where there may be none, 0 is none and all others are 1 more
//! - a setting is the number of the string that is its key, its type, and its value
//! - what else may be absent follows a byte that is 1, or 0 where it is absent
//! - a time is the difference from the one before in the chunk; the first is the difference from 0
//!
//! A run is a random number of one recording. Chunks are numbered from 0, so that chunks of other runs, and what is
//! missing because another run wrote over it, are noticed. A chunk has a byte of payload at least.
//!
//! Version 1 has no runs and no numbers: a chunk is its length, the CRC-32 of the payload, and the payload. Actions,
//! kinds, states and stages are one byte in it, the position in a list (`names.rs`). In versions 1 and 2 settings stand
//! in a fixed order, without their keys (`settings.rs`).
//!
//! A site is a code address. Its symbols may be found long after its first use, so a record may replace them,
//! and the reader puts stacks together at the end.

mod fields;
mod held;
mod names;
mod reader;
mod settings;
mod writer;

pub use writer::{LogBlock, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter};

use super::{Contents, FormatReader, Window};
use crate::error::ReadError;

/// The reader of logs.
#[derive(Debug)]
pub(super) struct Log;

impl FormatReader for Log {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        reader::read(stream)
    }
}

/// The first bytes of a file; text, pickles and compressed files begin otherwise.
const MAGIC: [u8; 8] = *b"\x93vramscp";

/// The version that is written. It is read, and so are those before it.
const VERSION: u32 = 3;

/// Bytes before a chunk's payload: its length, its checksum, its run and its number.
const CHUNK_HEADER: usize = 20;

/// Bytes before what a chunk's checksum is of: the length and the checksum.
const CHUNK_SEAL: usize = 8;

/// Bytes of the longest string that is written or believed.
const LONGEST_STRING: usize = 1 << 20;

/// Sites of the deepest stack, and frames of the most inlined site, that are written.
const DEEPEST: usize = 1 << 16;

// Tags of records. The fields follow in `writer.rs`.
const STRING: u8 = 1;
const SITE: u8 = 2;
const SYMBOLS: u8 = 3;
const STACK: u8 = 4;
const SETTINGS: u8 = 5;
const DEVICE: u8 = 6;
const SEGMENT: u8 = 7;
const BLOCK: u8 = 8;
const EVENT: u8 = 9;
const ANNOTATION: u8 = 10;
const END: u8 = 11;

// What a truth value is one byte of.
const BOOLS: [bool; 2] = [false, true];
