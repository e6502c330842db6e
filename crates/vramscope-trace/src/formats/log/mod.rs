//! A recording written while the program runs. Records are only appended, and everything in the file stays readable even if the program
//! is killed.
//!
//! ```text
//!   file     magic (8 bytes), version (4 bytes), run (8 bytes), chunk, chunk ..., attached trace (optional)
//!   chunk    size of the payload in bytes (4 bytes), CRC-32 of the rest (4 bytes), run (8 bytes), number (4 bytes),
//!            payload
//!   payload  whole records
//!   record   tag (1 byte), fields
//!   attached other magic (8 bytes), size of the trace in bytes (8 bytes), trace, CRC-32 of the trace (4 bytes)
//! ```
//!
//! Numbers outside payloads are little-endian. In a payload, fields are in the order in which [`LogWriter`] writes them:
//!
//! - A number is unsigned LEB128, with zigzag encoding if it may be negative.
//! - An address is eight bytes, little-endian; LEB128 would take seven.
//! - An action, a kind of segment, a state of a block and a stage are the number of the string with their name.
//! - A text is its size in bytes, followed by UTF-8.
//! - Strings, sites and stacks are numbered from 0 in the order of their records, and referenced by that number. An optional reference
//!   is 0 for none, otherwise the number plus 1.
//! - A setting is the number of the string with its key, its type and its value.
//! - Any other optional field follows a byte that is 1 if the field exists, otherwise 0.
//! - A time is the difference from the previous time in the chunk; the first is the difference from 0.
//!
//! A run is a random number that identifies one recording. Chunks are numbered from 0. So the reader notices chunks of other runs, and
//! missing chunks. A payload has at least one byte. Its first record has the numbers of its first string, site and stack: with them, a
//! reader goes on behind a damaged chunk.
//!
//! Version 1 has no runs and no chunk numbers: a chunk is its size, the CRC-32 of the payload, and the payload. Actions, kinds, states
//! and stages are one byte, the index in a list (`names.rs`). In versions 1 and 2, settings have a fixed order and no keys
//! (`settings.rs`). Versions 1 to 3 have no records of the process and its driver, versions 1 to 4 no numbers at the start of a payload.
//!
//! A site is a code address. Its symbols may be found long after its first use, so a record may replace them, and the reader resolves
//! stacks at the end.

mod attached;
mod fields;
mod held;
mod names;
mod numbered;
mod reader;
mod settings;
mod writer;

#[cfg(not(target_family = "wasm"))]
pub use attached::append_operators;
pub(super) use attached::without_operators;
pub(super) use reader::{SOUGHT, run_of_chunks};
pub use writer::{LogBlock, LogDriverEvent, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter};

use super::{Contents, FormatReader, Window};
use crate::error::ReadError;

/// The reader of logs.
#[derive(Debug)]
pub(super) struct Log;

impl FormatReader for Log {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(&MAGIC) || reader::begins(start)
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        reader::read(stream)
    }
}

/// Magic bytes at the start of a file. Text, pickles and compressed files begin differently.
const MAGIC: [u8; 8] = *b"\x93vramscp";

/// The version that is written. The reader also supports all earlier versions.
const VERSION: u32 = 5;

/// Size of a chunk's header in bytes: size, checksum, run and number.
const CHUNK_HEADER: usize = 20;

/// Number of header bytes that the checksum does not cover: size and checksum.
const CHUNK_SEAL: usize = 8;

/// Maximum length of a string in bytes.
const LONGEST_STRING: usize = 1 << 20;

/// Maximum number of sites in a stack, and of frames in an inlined site, that are written.
const DEEPEST: usize = 1 << 16;

// Tags of records. `writer.rs` has their fields.
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
const PROCESS: u8 = 12;
const DRIVER: u8 = 13;
const READING: u8 = 14;
const CUT: u8 = 15;
const HOST: u8 = 16;
const FACT: u8 = 18;
const METADATA: u8 = 20;
const ACCESSES: u8 = 32;
const LAUNCHES: u8 = 33;
const NUMBERS: u8 = 34;

/// Names of statements about a recording.
const ATTACHED_AT: &str = "attached_at";
const STACKS_FROM: &str = "stacks_from";
const NOT_FOLLOWED: &str = "not_followed";
/// First part of the name of a statement about how the process was recorded.
const RECORDING: &str = "recording:";

// A Boolean is one byte, an index of this list.
const BOOLS: [bool; 2] = [false, true];
