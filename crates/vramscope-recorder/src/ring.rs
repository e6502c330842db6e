//! The ring: a mapped file through which a recorded process passes records to the program that writes its log.
//!
//! The file outlives the process, so its last records are read even after SIGKILL. Its size is fixed, so the process does not grow with
//! the length of its run.
//!
//! ```text
//!   words 0 to 63      the header, see the constants below
//!   words 64 to the end   records, one after the other, wrapping around at the end
//! ```
//!
//! A record is a header word followed by its body. The header word has the record's length in words (bits 0 to 31), its kind (bits 32 to
//! 39), and two flags: [`RESERVED`] once its place is taken, [`WRITTEN`] once its body is complete. A reader sets the words of a record to
//! zero before it gives the place back, so a place without a record begins with zero.
//!
//! This file is part of two crates: the library in the recorded process, which writes, and `vramscope-recorder`, which reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// First word of a ring.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"vramring");
/// Version of the format of records. Writer and reader come from the same build, and refuse anything else.
pub(crate) const VERSION: u64 = 1;
/// Number of words of the header.
pub(crate) const HEADER: usize = 64;

// Words of the header. Those that both sides write have a cache line each.
/// [`MAGIC`].
pub(crate) const AT_MAGIC: usize = 0;
/// [`VERSION`].
pub(crate) const AT_VERSION: usize = 1;
/// Process id of the writer.
pub(crate) const AT_PROCESS: usize = 2;
/// Number of words written so far; never decreases.
pub(crate) const AT_HEAD: usize = 8;
/// Number of words read so far.
pub(crate) const AT_TAIL: usize = 16;
/// Number of events that were dropped because the ring was full.
pub(crate) const AT_DROPPED: usize = 24;
/// Incremented by the reader whenever it looks. A writer that finds the ring full waits only while this changes.
pub(crate) const AT_LOOKS: usize = 32;

/// The place of a record is taken.
pub(crate) const RESERVED: u64 = 1 << 62;
/// The record is complete.
pub(crate) const WRITTEN: u64 = 1 << 63;

/// Longest record, in words: a text of 4 KiB fits, and so does a stack of 512 sites.
pub(crate) const LONGEST: usize = 1 << 10;

/// A ring in mapped memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// A ring in these words. The number of words after the header must be a power of two, and hold some records of [`LONGEST`].
    pub(crate) fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let records = words.len().checked_sub(HEADER)?;
        (records.is_power_of_two() && records >= 4 * LONGEST).then_some(Self { words })
    }

    /// A word of the header.
    pub(crate) fn header(self, at: usize) -> &'a AtomicU64 {
        &self.words[at]
    }

    /// Number of words for records.
    pub(crate) fn capacity(self) -> u64 {
        (self.words.len() - HEADER) as u64
    }

    /// The word at a position, which counts words since the ring's creation.
    fn at(self, position: u64) -> &'a AtomicU64 {
        &self.words[HEADER + (position & (self.capacity() - 1)) as usize]
    }

    /// Writes a record. Returns false if there is no room for it now.
    pub(crate) fn try_write(self, kind: u8, body: &[u64]) -> bool {
        let length = body.len() as u64 + 1;
        debug_assert!(length <= LONGEST as u64);
        let head = self.header(AT_HEAD);
        let mut start = head.load(Ordering::Relaxed);
        loop {
            if start + length > self.header(AT_TAIL).load(Ordering::Acquire) + self.capacity() {
                return false;
            }
            match head.compare_exchange_weak(start, start + length, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => start = now,
            }
        }
        let header = length | u64::from(kind) << 32 | RESERVED;
        self.at(start).store(header, Ordering::Release);
        for (i, &word) in (1..).zip(body) {
            self.at(start + i).store(word, Ordering::Relaxed);
        }
        self.at(start).store(header | WRITTEN, Ordering::Release);
        true
    }

    /// Moves the next record's body to `body` and returns its kind. `None` if the next record is missing or not complete; `is_over` says
    /// that its writer has ended, so that incomplete records are skipped.
    pub(crate) fn read(self, body: &mut Vec<u64>, is_over: bool) -> Option<u8> {
        loop {
            let start = self.header(AT_TAIL).load(Ordering::Relaxed);
            let head = self.header(AT_HEAD).load(Ordering::Acquire);
            // The other process may have written anything here.
            if head.wrapping_sub(start) > self.capacity() || head <= start {
                return None;
            }
            let header = self.at(start).load(Ordering::Acquire);
            let length = header & 0xffff_ffff;
            if header & RESERVED == 0 || length == 0 || length > LONGEST as u64 || start + length > head {
                return None;
            }
            if header & WRITTEN == 0 && !is_over {
                return None;
            }
            body.clear();
            body.extend((1..length).map(|i| self.at(start + i).load(Ordering::Relaxed)));
            for i in 0..length {
                self.at(start + i).store(0, Ordering::Relaxed);
            }
            self.header(AT_TAIL).store(start + length, Ordering::Release);
            if header & WRITTEN != 0 {
                return Some((header >> 32) as u8);
            }
        }
    }
}
