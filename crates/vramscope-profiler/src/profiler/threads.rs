//! Counts the allocations and frees of each thread during its calls.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::source::{AllocationObserver, BlockEvent};

/// Allocations and frees of a call's thread during the call, in bytes of blocks after rounding. Other threads do not count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Bytes that the thread allocated.
    pub allocated_bytes: u64,
    /// Bytes that the thread freed, including bytes that other threads allocated.
    pub freed_bytes: u64,
    /// Number of blocks that the thread allocated.
    pub num_allocations: u64,
    /// Number of blocks that the thread freed.
    pub num_frees: u64,
    /// Peak of bytes allocated minus bytes freed since the start of the call.
    pub peak_above_start_bytes: u64,
}

impl ThreadUse {
    fn allocate(&mut self, size: u64) {
        self.allocated_bytes += size;
        self.num_allocations += 1;
        let above = self.allocated_bytes.saturating_sub(self.freed_bytes);
        self.peak_above_start_bytes = self.peak_above_start_bytes.max(above);
    }

    fn free(&mut self, size: u64) {
        self.freed_bytes += size;
        self.num_frees += 1;
    }
}

/// An open call of this thread.
struct OpenCall {
    profiler: u64,
    key: u64,
    used: ThreadUse,
}

thread_local! {
    static OPEN: RefCell<Vec<OpenCall>> = const { RefCell::new(Vec::new()) };
}

/// Opens a call of a profiler on this thread, and returns the number of calls of the same profiler around it.
pub(super) fn open(profiler: u64, key: u64) -> usize {
    resume(profiler, key, ThreadUse::default())
}

/// Reopens a call, on this or another thread. `used` is its thread use when it was closed.
pub(super) fn resume(profiler: u64, key: u64, used: ThreadUse) -> usize {
    with(|open| {
        let depth = open.iter().filter(|call| call.profiler == profiler).count();
        open.push(OpenCall { profiler, key, used });
        depth
    })
    .unwrap_or(0)
}

/// Closes a call, and returns its thread use.
pub(super) fn close(key: u64) -> Option<ThreadUse> {
    // Guards may be dropped in any order.
    with(|open| open.iter().rposition(|call| call.key == key).map(|i| open.remove(i).used)).flatten()
}

/// Calls `f` with the open calls of this thread; `None` if the thread is ending.
fn with<R>(f: impl FnOnce(&mut Vec<OpenCall>) -> R) -> Option<R> {
    OPEN.try_with(|open| f(&mut open.borrow_mut())).ok()
}

/// Adds allocations to the open calls of one profiler on the allocating thread.
pub(super) struct ThreadTally {
    pub(super) profiler: u64,
}

impl ThreadTally {
    fn each(&self, count: impl Fn(&mut ThreadUse)) {
        with(|open| {
            let own = open.iter_mut().filter(|call| call.profiler == self.profiler);
            own.for_each(|call| count(&mut call.used));
        });
    }
}

impl AllocationObserver for ThreadTally {
    fn allocated(&self, block: BlockEvent) {
        self.each(|used| used.allocate(block.size));
    }

    fn freed(&self, block: BlockEvent) {
        self.each(|used| used.free(block.size));
    }
}
