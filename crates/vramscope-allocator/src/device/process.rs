//! The process that an object belongs to. A forked process has a copy of all memory, but not the threads that would release its locks or
//! write it to a file. A GPU context does not work in a forked process either.
#![allow(unsafe_code, reason = "registers a fork handler with the C library")]

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between this process and the process that first used this crate. The C library's fork handler counts in the child.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that created an object. A forked process uses it to detect that it has only a copy: its locks may never be released, and the
/// original's threads are missing.
///
/// Forks through the C library on Unix are detected; bare system calls are not. A process that `std::process::Command` starts does not
/// count as a fork, because it calls `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    forks: u32,
}

impl Process {
    /// Returns the calling process. Forks are detected from the first call on.
    pub fn this() -> Self {
        count_forks();
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is the calling process. If not, the calling process was forked from it. This reads a number in memory: reading the
    /// process id costs a system call, which takes longer than an allocation.
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

/// Registers the fork handler once.
#[cfg(unix)]
fn count_forks() {
    use std::sync::atomic::AtomicBool;

    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only adds to an atomic number, which is allowed in a child between fork and exec, and the function lives as
        // long as the program. If registering fails for lack of memory, forks are not detected.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    }
}

#[cfg(not(unix))]
fn count_forks() {}
