//! The stack of the calling thread.
//!
//! A stack is a list of sites: positions in Python code. Its id is a hash of its sites. The ring gets the sites of a stack once, and later
//! only its id; likewise the names of a site.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::Inside;
use crate::python;
use crate::record::STACK;

/// Maximum number of sites in a stack; the innermost are kept.
pub(crate) const MOST_SITES: usize = 512;

/// A stack while it is captured: its id, then its sites, as in the record.
pub(crate) struct Captured {
    /// The first `length` words have values.
    words: [MaybeUninit<u64>; MOST_SITES + 1],
    length: usize,
}

impl Captured {
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

    /// The id, and the sites.
    fn words(&self) -> &[u64] {
        // SAFETY: these words have values, and a word with a value has the layout of a word.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.length) }
    }
}

/// Hashes of what the ring already has, in a table of fixed size. What was forgotten is written again.
pub(crate) struct Written<const SIZE: usize>([AtomicU64; SIZE]);

impl<const SIZE: usize> Written<SIZE> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SIZE])
    }

    /// Neighbouring places in which a hash may be.
    const PLACES: usize = 4;

    #[inline]
    fn places(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = (hash >> 20) as usize;
        (0..Self::PLACES).map(move |i| &self.0[(first + i) % SIZE])
    }

    /// Whether the ring has it.
    #[inline]
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.places(hash).any(|place| place.load(Ordering::Relaxed) == hash)
    }

    /// Notes that the ring has it. The record must be written before.
    pub(crate) fn add(&self, hash: u64) {
        let free = self.places(hash).find(|place| place.load(Ordering::Relaxed) == 0);
        // Any place may be given up; this takes another one for each hash.
        let place = free.unwrap_or(&self.0[((hash >> 20) as usize + (hash >> 60) as usize % Self::PLACES) % SIZE]);
        place.store(hash, Ordering::Relaxed);
    }

    /// Forgets all hashes.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
}

static STACKS: Written<{ 1 << 16 }> = Written::new();
pub(crate) static SITES: Written<{ 1 << 16 }> = Written::new();

/// Combines a hash with another word. Zero is no hash: it means that there is none.
#[inline]
pub(crate) fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word.rotate_left(32)) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    (product as u64) ^ ((product >> 64) as u64) ^ word
}

/// Captures the stack of this thread, and returns its id; 0 if it has no frames.
pub(crate) fn capture(inside: &Inside) -> u64 {
    let mut stack = Captured { words: [const { MaybeUninit::uninit() }; MOST_SITES + 1], length: 0 };
    // The place of the id.
    stack.push(0);
    python::capture(inside, &mut stack);
    if stack.length == 1 {
        return 0;
    }
    let id = stack.words()[1..].iter().fold(stack.length as u64, |hash, &site| mixed(hash, site)).max(1);
    if !STACKS.has(id) {
        stack.words[0].write(id);
        if inside.write(STACK, stack.words()) {
            STACKS.add(id);
        }
    }
    id
}

/// Forgets what the ring has: the ring of a forked process is empty.
pub(crate) fn forget() {
    STACKS.clear();
    SITES.clear();
}
