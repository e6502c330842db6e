//! Numbers for threads.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static NUMBER: NonZeroU64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX)
    };
}

/// The calling thread's number: no other in this process has it, now or later. The last of all where the
/// thread is ending.
pub(crate) fn this_thread() -> NonZeroU64 {
    NUMBER.try_with(|&number| number).unwrap_or(NonZeroU64::MAX)
}
