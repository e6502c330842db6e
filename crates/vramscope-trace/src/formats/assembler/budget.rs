//! Memory limit while a file is read.

use super::{Assembler, History, RawBlock, RawSegment, Root, Value};
use crate::annotations::Annotation;
use crate::error::ReadError;
use crate::events::{Events, PoolId};
use crate::settings::PowerOfTwoDivisions;

/// Bytes of memory that any recording may take.
const FREE: u64 = 32 << 20;

/// Bytes of memory that a recording may take for each byte read. Recordings of known recorders take less than four: an event is 33
/// bytes in memory and more in a file, and events share their stacks and texts.
const PER_BYTE: u64 = 8;

impl Assembler {
    /// Fails if the records of the first `read` bytes take more memory than a file of this size may take, or than the reader's caller
    /// allows. `waiting` is the memory, in bytes, of values that no record uses yet.
    ///
    /// A reader calls this after each chunk of the file, because many small dictionaries may add up.
    pub(in crate::formats) fn check_memory(&self, waiting: usize, read: u64) -> Result<(), ReadError> {
        let memory = (self.memory() + waiting) as u64;
        if memory > self.most_memory {
            return Err(ReadError::Memory { most: self.most_memory });
        }
        if memory <= FREE + PER_BYTE * read {
            return Ok(());
        }
        let what = format!(
            "the bytes read so far would take more than {PER_BYTE} times as much memory; no recording does"
        );
        Err(ReadError::Damaged { offset: read, what })
    }

    /// Approximate memory use of the records in bytes, now and while they become a trace.
    fn memory(&self) -> usize {
        // Map entries take about twice their size.
        self.trace.memory()
            + self.events.len() * 2 * Events::BYTES_PER_EVENT
            + self.blocks.len() * 2 * size_of::<RawBlock>()
            + self.segments.len() * 3 * size_of::<RawSegment>()
            + self.annotations.len() * 2 * size_of::<Annotation>()
            + self.histories.len() * size_of::<History>()
            + self.settings.len() * size_of::<super::RawSettings>()
            + self.divisions.len() * size_of::<PowerOfTwoDivisions>()
            + self.pools.len() * 4 * size_of::<PoolId>()
            + self.roots.len() * size_of::<Root>()
            + self.elements.len() * size_of::<Value>()
            + self.list_ends.len() * size_of::<usize>()
            + (self.list_problems.len() + self.string_lists.len()) * 4 * size_of::<u32>()
    }
}
