//! Counts of steps, by which tests bound the work of a question. Times differ between machines and runs; steps do not.

use std::sync::atomic::{AtomicU64, Ordering};

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Counts steps of work: visited blocks, allocations, rows, lines. Builds without debug assertions count nothing.
#[inline(always)]
pub fn count_steps(steps: usize) {
    if cfg!(debug_assertions) {
        STEPS.fetch_add(steps as u64, Ordering::Relaxed);
    }
}

/// Returns the number of steps that all threads of this process have counted; 0 in builds without debug assertions.
#[must_use]
pub fn counted_steps() -> u64 {
    STEPS.load(Ordering::Relaxed)
}
