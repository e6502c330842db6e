//! Cancellation of long computations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that cancels a computation whose result is no longer wanted.
///
/// Clones share one state: cancelling one cancels all. Computations that may take seconds check the handle
/// every few thousand steps and end without a result once it is cancelled.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// How many steps a long loop takes between two checks of a [`Cancel`]; they take well below a millisecond.
const STEPS_BETWEEN_LOOKS: usize = 4096;

impl Cancel {
    /// Cancels the computation.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the computation was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Like [`is_cancelled`](Self::is_cancelled), but checks only at every 4096th `step` of a long loop; returns false at all other
    /// steps.
    #[must_use]
    pub fn is_cancelled_at(&self, step: usize) -> bool {
        step.is_multiple_of(STEPS_BETWEEN_LOOKS) && self.is_cancelled()
    }
}
