//! Which process something belongs to: a forked one has a copy of all memory, but not the threads that were to unlock
//! it or write it to a file, and a GPU's context does not work in it either.
#![allow(unsafe_code, reason = "the C library tells of forks")]

use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that first used this crate. The C library's fork handler counts them
/// in the child.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Names the process that made something, so that a process forked from it can tell that it has only a copy: with locks
/// that nobody there may ever give back, and without the threads of the original.
///
/// Forks through the C library are noticed, on Unix; bare system calls are not. A process that `std::process::Command`
/// starts is none: it calls `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    forks: u32,
}

impl Process {
    /// The calling process. Forks are noticed from the first call on.
    pub fn this() -> Self {
        count_forks();
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is the calling process; if not, the calling one was forked from it. This reads a number in memory. The
    /// process' id would cost a system call, which takes longer than an allocation.
    #[inline]
    pub fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::this()
    }
}

/// Registers the fork handler, once.
#[cfg(unix)]
fn count_forks() {
    use std::sync::atomic::AtomicBool;

    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only adds to an atomic number, which a child may do between fork and exec, and stays
        // for as long as the program does. Where there is no memory for it, forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    }
}

#[cfg(not(unix))]
fn count_forks() {}
