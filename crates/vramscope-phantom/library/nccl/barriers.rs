//! Barriers. PyTorch implements a barrier as a reduction of one element, after which a rank waits for its device. Such a
//! reduction completes when all ranks reached it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::messages::Mailbox;
use crate::machine::lock;

/// An operation that may be a barrier.
pub(crate) struct Barrier {
    mailbox: Arc<Mailbox>,
    number: u64,
    stream: usize,
    /// Whether an event was recorded after it.
    has_event: AtomicBool,
}

/// Barriers that the process did not wait for yet, and their number.
static OUTSTANDING: Mutex<Vec<Arc<Barrier>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Records an operation of all ranks on a stream. Pretended ranks reach it at once, so it needs no record.
pub(super) fn remember(mailbox: &Arc<Mailbox>, number: u64, stream: usize) {
    if !mailbox.is_pretended() {
        let new = Barrier { mailbox: Arc::clone(mailbox), number, stream, has_event: AtomicBool::new(false) };
        let mut outstanding = lock(&OUTSTANDING);
        outstanding.push(Arc::new(new));
        COUNT.store(outstanding.len(), Ordering::Release);
    }
}

/// Waits at every outstanding barrier until all ranks reached it or cannot reach it.
pub(crate) fn wait_for_barriers() {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let outstanding = std::mem::take(&mut *lock(&OUTSTANDING));
    COUNT.store(0, Ordering::Release);
    for barrier in outstanding {
        barrier.mailbox.wait_for_all(barrier.number);
    }
}

/// The last barrier on a stream, for the first event that is recorded after it.
pub(crate) fn barrier_before_event(stream: usize) -> Option<Arc<Barrier>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let outstanding = lock(&OUTSTANDING);
    let last = outstanding.iter().rfind(|barrier| barrier.stream == stream)?;
    (!last.has_event.swap(true, Ordering::AcqRel)).then(|| Arc::clone(last))
}
