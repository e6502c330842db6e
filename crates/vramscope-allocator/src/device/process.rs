//! Which process something belongs to: a forked one has a copy of all memory, but not the threads that were to unlock
//! it or write it to a file, and a GPU's context does not work in it either.
#![allow(unsafe_code, reason = "the C library tells of forks")]

use std::sync::atomic::{AtomicU32, Ordering};

/// How often the process was forked from another that used this crate, as told by [`count`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, as it is known to itself and to what is forked from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    forks: u32,
}

impl Process {
    /// The calling process. From here on its forks are counted.
    pub(crate) fn this() -> Self {
        tell_of_forks();
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// It is the calling process; else that is forked from it. This reads a number in memory: the process' id would
    /// cost a system call, more than an allocation.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::this()
    }
}

#[cfg(unix)]
fn tell_of_forks() {
    use std::sync::atomic::AtomicBool;

    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only adds to an atomic number, which a child may do between fork and exec, and stays
        // for as long as the program does. Where there is no memory for it, forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    }
}

#[cfg(not(unix))]
fn tell_of_forks() {}
