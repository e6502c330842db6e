//! The progress and cancellation of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vramscope_analysis::Cancel;

/// State shared between a call and its waiting client.
#[derive(Debug, Clone, Default)]
pub(super) struct Work(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancel: Cancel,
    done: AtomicU64,
    /// The total amount; 0 if it is unknown.
    total: AtomicU64,
}

impl Work {
    /// The cancellation flag of the call.
    pub(super) fn cancel(&self) -> &Cancel {
        &self.0.cancel
    }

    /// Sets the total amount.
    pub(super) fn expect(&self, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// Sets the amount done.
    pub(super) fn done(&self, done: u64) {
        self.0.done.store(done, Ordering::Relaxed);
    }

    /// Adds one to the amount done.
    pub(super) fn step(&self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The amount done, and the total if it is known.
    pub(super) fn progress(&self) -> (u64, Option<u64>) {
        let [done, total] = [&self.0.done, &self.0.total].map(|number| number.load(Ordering::Relaxed));
        (done, Some(total).filter(|&total| total > 0))
    }
}
