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
//! zero before it gives the place back, and a writer writes the header word first, so a place without a record is zero.
//!
//! This file is part of three crates: the library in the recorded process, which writes, `vramscope-recorder`, which reads, and `model/`,
//! which checks the ring with another crate's atomics.

use crate::atomics::{AtomicU64, Ordering};

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
/// When the library was attached to a process that used a GPU already, in microseconds since the Unix epoch; 0 if the ring has all events of
/// its process.
pub(crate) const AT_ATTACHED: usize = 3;
/// One more than the rank of the process among several, as `torchrun` sets it; 0 if it has none.
pub(crate) const AT_RANK: usize = 4;
/// Where the stack of the program begins, which changes with each program that the process runs; 0 if it is unknown.
pub(crate) const AT_STACK: usize = 5;
/// Number of words written so far; never decreases.
pub(crate) const AT_HEAD: usize = 8;
/// Number of words read so far.
pub(crate) const AT_TAIL: usize = 16;
/// Number of events that were dropped because the ring was full.
pub(crate) const AT_DROPPED: usize = 24;
/// Incremented by the reader whenever it looks. While this changes, a writer that finds the ring full waits.
pub(crate) const AT_LOOKS: usize = 32;
/// Set while the reader reads no more, because its disk is full.
pub(crate) const AT_REFUSES: usize = 33;
/// Set once the writer has detached: all records are complete, and none follows.
pub(crate) const AT_ENDED: usize = 40;
/// Number of words read, when a writer last looked. Only writers use it, so that they seldom wait for the cache line of [`AT_TAIL`].
const AT_SEEN_TAIL: usize = 48;

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

    /// A ring whose number of words after the header is any power of two. Only the model of the ring uses it.
    #[allow(dead_code, reason = "only the model uses it")]
    pub(crate) fn of_any_size(words: &'a [AtomicU64]) -> Self {
        Self { words }
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
        let seen = self.header(AT_SEEN_TAIL);
        let mut start = head.load(Ordering::Relaxed);
        loop {
            if start + length > seen.load(Ordering::Acquire) + self.capacity() {
                let tail = self.header(AT_TAIL).load(Ordering::Acquire);
                if start + length > tail + self.capacity() {
                    return false;
                }
                seen.store(tail, Ordering::Release);
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

    /// Number of words written so far. A reader asks for it once for many records: each look takes the word from the writer's cache.
    pub(crate) fn head(self) -> u64 {
        self.header(AT_HEAD).load(Ordering::Acquire)
    }

    /// The word that comes `words` after those written so far.
    #[allow(dead_code, reason = "only writers use it")]
    pub(crate) fn word_after(self, words: u64) -> &'a AtomicU64 {
        self.at(self.header(AT_HEAD).load(Ordering::Relaxed).wrapping_add(words))
    }

    /// Moves the body of the next record before `head` to `body` and returns its kind. `None` if the record is missing or not complete;
    /// `is_over` says that its writer has ended, so that incomplete records are skipped.
    pub(crate) fn read(self, head: u64, body: &mut Vec<u64>, is_over: bool) -> Option<u8> {
        loop {
            let start = self.header(AT_TAIL).load(Ordering::Relaxed);
            // The other process may have written anything here.
            if head.wrapping_sub(start) > self.capacity() || head <= start {
                return None;
            }
            let header = self.at(start).load(Ordering::Acquire);
            if header == 0 && is_over {
                // A thread took this place and was killed before it wrote anything.
                self.header(AT_TAIL).store(start + 1, Ordering::Release);
                continue;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<AtomicU64> {
        (0..HEADER + 4 * LONGEST).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn records_come_out_as_they_went_in_around_the_end() {
        let words = words();
        let ring = Ring::new(&words).unwrap();
        let mut body = Vec::new();
        for n in 0..5000_u64 {
            let written: Vec<u64> = (0..n % 100).map(|i| n * 1000 + i).collect();
            assert!(ring.try_write((n % 200) as u8, &written));
            assert_eq!(ring.read(ring.head(), &mut body, false), Some((n % 200) as u8));
            assert_eq!(body, written);
            assert_eq!(ring.read(ring.head(), &mut body, false), None);
        }
    }

    #[test]
    fn a_full_ring_takes_a_record_once_there_is_room() {
        let words = words();
        let ring = Ring::new(&words).unwrap();
        let record = [7; 99];
        let written = (0..).take_while(|_| ring.try_write(1, &record)).count();
        assert_eq!(written, 4 * LONGEST / 100);
        let mut body = Vec::new();
        assert_eq!(ring.read(ring.head(), &mut body, false), Some(1));
        assert!(ring.try_write(2, &record));
        assert!(!ring.try_write(2, &record));
        let kinds: Vec<u8> = std::iter::from_fn(|| ring.read(ring.head(), &mut body, false)).collect();
        assert_eq!(kinds.len(), written);
        assert_eq!(kinds.last(), Some(&2));
    }

    /// A process may be killed while it writes a record.
    #[test]
    fn an_incomplete_record_is_waited_for_and_skipped_after_its_writer_ended() {
        let words = words();
        let ring = Ring::new(&words).unwrap();
        let mut body = Vec::new();
        ring.header(AT_HEAD).store(3, Ordering::Relaxed);
        ring.at(0).store(3 | RESERVED, Ordering::Relaxed);
        assert!(ring.try_write(5, &[42]));
        assert_eq!(ring.read(ring.head(), &mut body, false), None);
        assert_eq!(ring.read(ring.head(), &mut body, true), Some(5));
        assert_eq!(body, [42]);
        // A place that was taken, and nothing written.
        ring.header(AT_HEAD).fetch_add(9, Ordering::Relaxed);
        assert!(ring.try_write(6, &[43]));
        assert_eq!(ring.read(ring.head(), &mut body, false), None);
        assert_eq!(ring.read(ring.head(), &mut body, true), Some(6));
        assert_eq!(ring.read(ring.head(), &mut body, true), None);
    }

    /// Whatever another process writes to the file, reading ends.
    #[test]
    fn damaged_ring_contents_end_the_reading() {
        let (words, mut body) = (words(), Vec::new());
        let ring = Ring::new(&words).unwrap();
        for (head, tail, first) in [
            (u64::MAX, 0, WRITTEN | RESERVED | 1),
            (0, 5, 0),
            (10, 0, WRITTEN | RESERVED),
            (10, 0, WRITTEN | RESERVED | 11),
            (5000, 0, WRITTEN | RESERVED | 4000),
            (u64::MAX, u64::MAX - 1, WRITTEN | RESERVED | u64::from(u32::MAX)),
        ] {
            ring.header(AT_HEAD).store(head, Ordering::Relaxed);
            ring.header(AT_TAIL).store(tail, Ordering::Relaxed);
            ring.at(tail).store(first, Ordering::Relaxed);
            assert_eq!(ring.read(ring.head(), &mut body, true), None, "{head} {tail} {first:#x}");
        }
        assert!(Ring::new(&words[..HEADER]).is_none());
    }

    #[test]
    fn threads_write_at_once() {
        let words = words();
        let ring = Ring::new(&words).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    for n in 0..20_000 {
                        while !ring.try_write(thread as u8, &[thread, n, n ^ thread]) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let (mut next, mut body) = ([0; 4], Vec::new());
            while next != [20_000; 4] {
                let Some(kind) = ring.read(ring.head(), &mut body, false) else {
                    std::thread::yield_now();
                    continue;
                };
                let thread = usize::from(kind);
                assert_eq!(body, [thread as u64, next[thread], next[thread] ^ thread as u64]);
                next[thread] += 1;
            }
        });
    }
}
