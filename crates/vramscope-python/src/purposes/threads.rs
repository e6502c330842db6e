//! What each thread of a program is in.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::modules::ModuleId;

/// A thread of the process, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadId(u32);

/// What begins the text of a thread in PyTorch's events.
const MARK: &str = "vramscope:thread=";

impl ThreadId {
    /// What events of this thread say where several threads work at once.
    pub(crate) fn mark(self) -> String {
        format!("{MARK}{}", self.0)
    }

    /// The thread that an event names.
    pub(crate) fn of_mark(text: &str) -> Option<Self> {
        text.strip_prefix(MARK)?.parse().ok().map(Self)
    }
}

/// What a thread is in.
pub(crate) struct Thread {
    pub(crate) id: ThreadId,
    recording: u64,
    /// The modules whose forward runs, by object.
    pub(crate) stack: Vec<(usize, ModuleId)>,
    pub(crate) module: ModuleId,
    /// In a backward pass, the module whose node runs.
    pub(crate) node: ModuleId,
    /// The backward pass whose end is waited for.
    pub(crate) pass: i64,
    /// The number of the last node that has saved a tensor, and the module that made it.
    pub(crate) saved: (u64, ModuleId),
    /// Nodes below this number have been looked at.
    pub(crate) looked_at: u64,
    /// PyTorch's events name this thread.
    pub(crate) is_marked: bool,
    /// The hooks for saved tensors are lent to this thread while it is in a module.
    pub(crate) has_lent_hooks: bool,
    /// Its own hooks for saved tensors were taken off while hooks rest.
    pub(crate) has_resting_hooks: bool,
}

impl Thread {
    fn new(id: ThreadId, recording: u64) -> Self {
        Self {
            id,
            recording,
            stack: Vec::new(),
            module: ModuleId::NONE,
            node: ModuleId::NONE,
            pass: -1,
            saved: (0, ModuleId::NONE),
            looked_at: 0,
            is_marked: false,
            has_lent_hooks: false,
            has_resting_hooks: false,
        }
    }
}

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

static THREADS: AtomicU32 = AtomicU32::new(1);

/// Works on what is known of this thread in a recording. Python is never called in `then`.
pub(crate) fn with_thread<R>(recording: u64, then: impl FnOnce(&mut Thread) -> R) -> R {
    THREAD.with_borrow_mut(|known| {
        let id = match known {
            Some(thread) => thread.id,
            None => ThreadId(THREADS.fetch_add(1, Ordering::Relaxed)),
        };
        let thread = match known {
            Some(thread) if thread.recording == recording => thread,
            _ => known.insert(Thread::new(id, recording)),
        };
        then(thread)
    })
}
