//! Locks that a panic elsewhere does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. The data behind the crate's locks is whole at every point where foreign code (a device, a
/// hook) may panic, so a poisoned lock is as good as any other: memory is not lost for it.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
