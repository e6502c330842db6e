//! Arenas by pool and stream, found without a lock.

use std::sync::{Arc, OnceLock};

use crate::arena::Arena;
use crate::arena_key::ArenaKey;
use crate::observer::Observer;

/// Places tried in one level before the next, larger one.
const PROBES: usize = 8;

/// A hash table that only grows. A slot is written once, so that it is read without a lock, and an arena never moves. The number of
/// slots in a level is a power of two, four times that of the level before. A key is looked for in the next level where all the
/// slots that it may have in this one are taken.
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

    /// The arena of `key`, made with `make` on first use.
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

    /// Every arena. Arenas that are there keep their order; new ones may come between them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Arena<O>>> {
        std::iter::successors(Some(&self.first), |level| level.next.get().map(Box::as_ref))
            .flat_map(|level| level.slots.iter().filter_map(OnceLock::get))
    }
}
