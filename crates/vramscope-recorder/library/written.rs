//! What the ring already has, so that it is written once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::process::ring_number;

/// Hashes of what the ring already has, in a table of fixed size. What was forgotten is written again.
pub(crate) struct Written<const SIZE: usize> {
    hashes: [AtomicU64; SIZE],
    /// The ring that has them.
    ring: AtomicU32,
}

impl<const SIZE: usize> Written<SIZE> {
    pub(crate) const fn new() -> Self {
        Self { hashes: [const { AtomicU64::new(0) }; SIZE], ring: AtomicU32::new(0) }
    }

    /// Neighbouring places in which a hash may be.
    const PLACES: usize = 4;

    #[inline]
    fn places(&self, hash: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = (hash >> 20) as usize;
        (0..Self::PLACES).map(move |i| &self.hashes[(first + i) % SIZE])
    }

    /// Whether the ring has it.
    #[inline]
    pub(crate) fn has(&self, hash: u64) -> bool {
        if self.ring.load(Ordering::Relaxed) != ring_number() {
            self.clear();
        }
        self.places(hash).any(|place| place.load(Ordering::Relaxed) == hash)
    }

    /// Notes that the ring has it. The record must be written before.
    pub(crate) fn add(&self, hash: u64) {
        let free = self.places(hash).find(|place| place.load(Ordering::Relaxed) == 0);
        // Any place may be given up; this takes another one for each hash.
        let place = free
            .unwrap_or(&self.hashes[((hash >> 20) as usize + (hash >> 60) as usize % Self::PLACES) % SIZE]);
        place.store(hash, Ordering::Relaxed);
    }

    /// Forgets all hashes: a new ring is empty.
    #[cold]
    fn clear(&self) {
        self.hashes.iter().for_each(|place| place.store(0, Ordering::Relaxed));
        self.ring.store(ring_number(), Ordering::Relaxed);
    }
}
