//! The current state of each thread.

use std::cell::RefCell;
#[cfg(not(target_os = "linux"))]
use std::sync::atomic::{AtomicU32, Ordering};

use super::modules::ModuleId;

/// A thread of the process: on Linux the system's number, elsewhere counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadId(u32);

/// The prefix of a thread's mark in PyTorch's events.
const MARK: &str = "vramscope:thread=";

impl ThreadId {
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The number of this thread.
    #[cfg(target_os = "linux")]
    fn own() -> Self {
        Self(super::recorder::own_thread())
    }

    /// The number of this thread.
    #[cfg(not(target_os = "linux"))]
    fn own() -> Self {
        static THREADS: AtomicU32 = AtomicU32::new(1);
        Self(THREADS.fetch_add(1, Ordering::Relaxed))
    }

    /// The text in this thread's events when several threads work at once.
    pub(crate) fn mark(self) -> String {
        format!("{MARK}{}", self.0)
    }

    /// The thread that an event names.
    pub(crate) fn of_mark(text: &str) -> Option<Self> {
        text.strip_prefix(MARK)?.parse().ok().map(Self)
    }
}

/// A thread's current state.
pub(crate) struct Thread {
    pub(crate) id: ThreadId,
    recording: u64,
    /// The modules whose forward runs, by object address.
    pub(crate) stack: Vec<(usize, ModuleId)>,
    pub(crate) module: ModuleId,
    /// In a backward pass, the module whose node runs.
    pub(crate) node: ModuleId,
    /// The backward pass whose end callback is registered.
    pub(crate) pass: i64,
    /// The number of the last node that saved a tensor, and the module that created it. The maximum number means none.
    pub(crate) saved: (u64, ModuleId),
    /// Nodes below this number were already checked.
    pub(crate) looked_at: u64,
    /// Whether PyTorch's events name this thread.
    pub(crate) is_marked: bool,
    /// Whether the saved-tensor hooks are installed on this thread while it is in a module.
    pub(crate) has_lent_hooks: bool,
    /// Whether its own saved-tensor hooks were removed while the hooks rest.
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
            saved: (u64::MAX, ModuleId::NONE),
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

/// Runs `then` on this thread's state in a recording. `then` must not call Python.
pub(crate) fn with_thread<R>(recording: u64, then: impl FnOnce(&mut Thread) -> R) -> R {
    THREAD.with_borrow_mut(|known| {
        let id = match known {
            Some(thread) => thread.id,
            None => ThreadId::own(),
        };
        let thread = match known {
            Some(thread) if thread.recording == recording => thread,
            _ => known.insert(Thread::new(id, recording)),
        };
        then(thread)
    })
}
