//! A question under way: how far it has come, and whether anybody still waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope::analysis::Cancel;

/// What a question shares with who waits for its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Work(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancel: Cancel,
    done: AtomicU64,
    /// Of how much; 0 where that is not known.
    total: AtomicU64,
}

impl Work {
    /// Tells whether the answer is still wanted.
    pub(super) fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// There is so much to do.
    pub(super) fn expect(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// So much is done.
    pub(super) fn done(&self, done: u64) {
        self.0.done.store(done, Ordering::Relaxed);
    }

    /// One more step is done.
    pub(super) fn step(&self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How much is done, and of how much, where that is known.
    pub(super) fn progress(&self) -> (u64, Option<u64>) {
        let [done, total] = [&self.0.done, &self.0.total].map(|number| number.load(Ordering::Relaxed));
        (done, Some(total).filter(|&total| total > 0))
    }
}
