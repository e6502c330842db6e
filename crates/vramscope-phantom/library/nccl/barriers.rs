//! Barriers: PyTorch makes them of a reduction of one element, after which a rank waits for its device. Such a reduction is over
//! when all ranks have come to it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::messages::Mailbox;
use crate::machine::lock;

/// An operation that may be a barrier.
pub(crate) struct Barrier {
    mailbox: Arc<Mailbox>,
    number: u64,
    stream: usize,
    /// An event was recorded behind it.
    has_event: AtomicBool,
    is_over: AtomicBool,
}

/// Those that nobody waited for yet, and how many they are.
static OUTSTANDING: Mutex<Vec<Arc<Barrier>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes an operation of all ranks on a stream. Pretended ones are there at once.
pub(super) fn remember(mailbox: &Arc<Mailbox>, number: u64, stream: usize) {
    if !mailbox.is_pretended() {
        let new = Barrier {
            mailbox: Arc::clone(mailbox),
            number,
            stream,
            has_event: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        };
        let mut outstanding = lock(&OUTSTANDING);
        outstanding.push(Arc::new(new));
        COUNT.store(outstanding.len(), Ordering::Release);
    }
}

/// Waits until all ranks have come to every barrier, or will not.
pub(crate) fn wait_for_barriers() {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let outstanding = std::mem::take(&mut *lock(&OUTSTANDING));
    COUNT.store(0, Ordering::Release);
    for barrier in outstanding {
        barrier.mailbox.wait_for_all(barrier.number);
        barrier.is_over.store(true, Ordering::Release);
    }
}

/// The barrier that the first event behind it tells the end of.
pub(crate) fn barrier_before_event(stream: usize) -> Option<Arc<Barrier>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let outstanding = lock(&OUTSTANDING);
    let last = outstanding.iter().rfind(|barrier| barrier.stream == stream)?;
    (!last.has_event.swap(true, Ordering::AcqRel)).then(|| Arc::clone(last))
}

impl Barrier {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.mailbox.have_all_come(self.number)
    }
}
