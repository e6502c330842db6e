//! Recognizes stacks by their bytes.
//!
//! A recording repeats few stacks very often, each time with the same bytes: a batch of references to memoized frames. So a batch is
//! looked up by its bytes, and its frames are decoded only once. A training loop also repeats the order of its stacks. The two batches
//! that followed the last three batches before are tried first: one comparison of bytes instead of a hundred opcodes. A wrong guess
//! costs the comparison up to the first difference.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::ids::StackId;

/// Maximum bytes of batches kept for comparison. Further batches are decoded each time.
const MOST_BYTES: usize = 16 << 20;

/// Maximum number of batches kept; a recording has some hundreds.
const MOST_SPANS: usize = 1 << 16;

/// Number of slots for guesses, indexed by the last three batches.
const CONTEXTS: usize = 1 << 12;

pub(super) struct Spans {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Numbers of spans by their bytes.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// For each context, the numbers of the span that came last and of another one before. The bytes are compared before a guess is
    /// used.
    guesses: Vec<[u32; 2]>,
    /// Numbers of the last three spans, oldest first.
    last: [u32; 3],
}

/// `bytes[start..end]` are references to the frames of `stack`, including the final `APPENDS`.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    stack: StackId,
}

impl Spans {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            spans: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            guesses: vec![[u32::MAX; 2]; CONTEXTS],
            last: [0; 3],
        }
    }

    /// Returns the batches that may come next, most likely first, each with its number.
    pub(super) fn guesses(&self) -> [Option<(u32, &[u8])>; 2] {
        self.guesses[self.context()]
            .map(|number| Some((number, self.bytes_of(self.spans.get(number as usize)?))))
    }

    /// Records that batch `number` came. Returns its stack.
    pub(super) fn came(&mut self, number: u32) -> StackId {
        let context = self.context();
        let [last, before] = &mut self.guesses[context];
        if *last != number {
            (*last, *before) = (number, *last);
        }
        self.last = [self.last[1], self.last[2], number];
        self.spans[number as usize].stack
    }

    /// Returns the number of the batch with these bytes.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        let is_it = |&number: &u32| self.bytes_of(&self.spans[number as usize]) == bytes;
        self.index.find(self.hasher.hash_one(bytes), is_it).copied()
    }

    /// Stores the bytes of a decoded stack, which [`find`](Self::find) did not find.
    pub(super) fn keep(&mut self, stack: StackId, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > MOST_BYTES || self.spans.len() == MOST_SPANS {
            return;
        }
        // Both are far below 2^32.
        let [start, end] = [self.bytes.len(), self.bytes.len() + bytes.len()].map(|i| i as u32);
        let number = self.spans.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.spans.push(Span { start, end, stack });
        let Self { bytes: all, spans, index, hasher, .. } = self;
        let hash_of = |&number: &u32| {
            let Span { start, end, .. } = spans[number as usize];
            hasher.hash_one(&all[start as usize..end as usize])
        };
        index.insert_unique(hasher.hash_one(bytes), number, hash_of);
        self.came(number);
    }

    /// Forgets all batches after a frame's memo index was overwritten: the same bytes may now mean another stack.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        // This may happen after every stack. Clearing a table that was once large would cost its capacity each time.
        self.index = HashTable::new();
    }

    fn bytes_of(&self, span: &Span) -> &[u8] {
        &self.bytes[span.start as usize..span.end as usize]
    }

    fn context(&self) -> usize {
        let mixed = self.last.iter().fold(0, |mixed: u64, &number| {
            // The golden ratio, as in Fibonacci hashing.
            (mixed ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        (mixed >> 20) as usize % CONTEXTS
    }
}

/// Whether `bytes` begin with `start`. Most of a file is compared this way. Without a C library, as in a browser, `starts_with` of
/// slices compares one byte at a time.
pub(super) fn begins_with(bytes: &[u8], start: &[u8]) -> bool {
    const AT_ONCE: usize = 32;
    let Some(bytes) = bytes.get(..start.len()) else { return false };
    let ((a, a_rest), (b, b_rest)) = (bytes.as_chunks::<AT_ONCE>(), start.as_chunks::<AT_ONCE>());
    let is_same = |(a, b): (&[u8; AT_ONCE], &[u8; AT_ONCE])| {
        let words = |bytes: &[u8; AT_ONCE]| {
            let words = bytes.as_chunks::<8>().0;
            [words[0], words[1], words[2], words[3]].map(u64::from_le_bytes)
        };
        let (a, b) = (words(a), words(b));
        (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) == 0
    };
    a.iter().zip(b).all(is_same) && a_rest == b_rest
}

#[cfg(test)]
mod tests;
