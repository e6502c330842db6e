//! A recording written while the program runs: records are only ever added, and what has reached the file
//! stays readable, even where the program is killed in the next moment.
//!
//! ```text
//!   file     magic (8 bytes), version (4 bytes), chunk, chunk ...
//!   chunk    bytes of the payload (4 bytes), CRC-32 of the payload (4 bytes), payload
//!   payload  whole records
//!   record   tag (1 byte), fields
//! ```
//!
//! Numbers outside of payloads are little-endian. In a payload, fields stand in the order in which
//! [`LogWriter`] writes them:
//!
//! - a number is unsigned LEB128, and zigzag where it may be negative
//! - an address is eight bytes, little-endian; as LEB128 it would be seven
//! - a choice is one byte: the position in the list of what can be chosen
//! - a text is the number of its bytes, and UTF-8
//! - strings, sites and stacks are numbered from 0 in the order of their records and referred to by that
//!   number; where there may be none, 0 is none and all others are 1 more
//! - what else may be absent follows a byte that is 1, or 0 where it is absent
//! - a time is the difference from the one before in the chunk; the first is the difference from 0
//!
//! A site is a code address. Its symbols may be found long after its first use, so a record may replace them,
//! and the reader puts stacks together at the end.

mod fields;
mod held;
mod reader;
mod writer;

pub(super) use reader::read;
pub use writer::{LogBlock, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter};

use crate::annotations::Stage;
use crate::end_state::{BlockState, SegmentKind};

/// The first bytes of a file; text, pickles and compressed files begin otherwise.
pub(super) const MAGIC: [u8; 8] = *b"\x93vramscp";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Bytes of a chunk's length and checksum.
const CHUNK_HEADER: usize = 8;

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

// What a choice is made from. Actions are those of `Action::KNOWN`.
const BOOLS: [bool; 2] = [false, true];
const KINDS: [SegmentKind; 3] = [SegmentKind::Small, SegmentKind::Large, SegmentKind::Unknown];
const STATES: [BlockState; 3] =
    [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive];
const STAGES: [Stage; 2] = [Stage::Start, Stage::End];
