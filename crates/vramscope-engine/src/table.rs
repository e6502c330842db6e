//! Lock-free lookup of arenas by pool and stream.

use std::sync::{Arc, OnceLock};

use crate::arena::Arena;
use crate::arena_key::ArenaKey;
use crate::observer::Observer;

/// Number of slots to probe in one level before the next, larger level.
const PROBES: usize = 8;

/// A hash table that only grows. A slot is written once, so reads need no lock, and an arena never moves. The number of slots in a
/// level is a power of two, four times that of the previous level. If all slots that a key may have in one level are taken, the search
/// continues in the next level.
pub(crate) struct ArenaTable<O: Observer> {
    first: Level<O>,
}

struct Level<O: Observer> {
    slots: Box<[OnceLock<Arc<Arena<O>>>]>,
    next: OnceLock<Box<Level<O>>>,
}

impl<O: Observer> Level<O> {
    fn with_slots(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| OnceLock::new()).collect(), next: OnceLock::new() }
    }
}

impl<O: Observer> ArenaTable<O> {
    pub(crate) fn new() -> Self {
        Self { first: Level::with_slots(2 * PROBES) }
    }

    /// Returns the arena of `key`. The first use creates it with `make`.
    #[inline]
    pub(crate) fn get(&self, key: ArenaKey, make: impl Fn() -> Arc<Arena<O>>) -> &Arc<Arena<O>> {
        let hash = (key.hash() >> 8) as usize;
        let mut level = &self.first;
        loop {
            for probe in 0..PROBES {
                let slot = &level.slots[(hash + probe) & (level.slots.len() - 1)];
                let arena = slot.get_or_init(&make);
                if arena.key() == key {
                    return arena;
                }
            }
            level = level.next.get_or_init(|| Box::new(Level::with_slots(4 * level.slots.len())));
        }
    }

    /// Returns all arenas. Existing arenas keep their order; new ones may appear between them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Arena<O>>> {
        std::iter::successors(Some(&self.first), |level| level.next.get().map(Box::as_ref))
            .flat_map(|level| level.slots.iter().filter_map(OnceLock::get))
    }
}
