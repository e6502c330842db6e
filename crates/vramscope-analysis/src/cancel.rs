//! Questions that nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells a question that its answer is no longer wanted.
///
/// Clones share one state: cancelling one cancels all. Questions that may take seconds look at it every few thousand steps,
/// and end without an answer once it is cancelled.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// How many steps a long loop takes between two looks at a [`Cancel`]: well below a millisecond of them.
pub(crate) const STEPS_BETWEEN_LOOKS: usize = 4096;

impl Cancel {
    /// The answer is no longer wanted.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the answer is no longer wanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// As [`is_cancelled`](Self::is_cancelled), asked at step number `step` of a long loop; false at most of them.
    pub(crate) fn is_cancelled_at(&self, step: usize) -> bool {
        step.is_multiple_of(STEPS_BETWEEN_LOOKS) && self.is_cancelled()
    }
}
