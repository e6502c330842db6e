//! A stack while it is captured.

use std::mem::MaybeUninit;

/// Maximum number of sites in a stack; the innermost are kept.
const MOST_SITES: usize = 512;

/// A stack while it is captured: its id, then its sites, as in the record.
pub(crate) struct Captured {
    /// The first `length` words have values.
    words: [MaybeUninit<u64>; MOST_SITES + 1],
    length: usize,
}

impl Captured {
    /// A stack without sites.
    pub(crate) fn new() -> Self {
        let mut words = [const { MaybeUninit::uninit() }; MOST_SITES + 1];
        words[0].write(0);
        Self { words, length: 1 }
    }

    /// Adds a site. Returns false if the stack is full.
    #[inline]
    pub(crate) fn push(&mut self, site: u64) -> bool {
        if self.length >= self.words.len() {
            return false;
        }
        self.words[self.length].write(site);
        self.length += 1;
        true
    }

    /// The sites.
    pub(crate) fn sites(&self) -> &[u64] {
        &self.words()[1..]
    }

    /// The id, and the sites: the body of a record.
    pub(crate) fn with_id(&mut self, id: u64) -> &[u64] {
        self.words[0].write(id);
        self.words()
    }

    fn words(&self) -> &[u64] {
        // SAFETY: these words have values, and a word with a value has the layout of a word.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }
}

/// Combines a hash with another word. Zero is no hash: it means that there is none.
#[inline]
pub(crate) fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word.rotate_left(32)) * 0x9e37_79b9_7f4a_7c15;
    (product as u64) ^ ((product >> 64) as u64) ^ word
}
