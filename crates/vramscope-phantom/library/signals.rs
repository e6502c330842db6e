//! Detects a request to end the program while it waits in this library. The program's own handler runs after the wait.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use vramscope_bare::sys::{self, SignalAction};

/// Set when a signal arrives.
static ASKED: AtomicBool = AtomicBool::new(false);

/// SIGINT and SIGTERM, with the program's handler for each.
static WATCHED: [(c_int, AtomicUsize); 2] = [(2, AtomicUsize::new(0)), (15, AtomicUsize::new(0))];

/// Records the signal and calls the program's handler.
extern "C" fn note(number: c_int, information: *mut c_void, context: *mut c_void) {
    ASKED.store(true, Ordering::Relaxed);
    for (watched, theirs) in &WATCHED {
        let theirs = theirs.load(Ordering::Acquire);
        if *watched == number && theirs != 0 {
            // SAFETY: this is the address of the program's handler; a handler with fewer parameters ignores the additional
            // arguments.
            let theirs: extern "C" fn(c_int, *mut c_void, *mut c_void) =
                unsafe { std::mem::transmute(theirs) };
            theirs(number, information, context);
        }
    }
}

/// Whether a signal asked the program to end since its first wait. Signals without a handler end the program as usual.
pub(crate) fn asked_to_end() -> bool {
    const WITH_INFORMATION: c_int = 4;
    let own = note as extern "C" fn(c_int, *mut c_void, *mut c_void) as usize;
    for (number, theirs) in &WATCHED {
        let mut now = SignalAction::default();
        // SAFETY: only reads the program's handler.
        let asked = unsafe { sys::sigaction(*number, std::ptr::null(), &raw mut now) };
        // 0 and 1 are not handlers: the system's default action, and ignore.
        if asked != 0 || now.handler <= 1 || now.handler == own {
            continue;
        }
        theirs.store(now.handler, Ordering::Release);
        now.handler = own;
        now.flags |= WITH_INFORMATION;
        // SAFETY: a handler that calls the program's own, with the program's own flags.
        unsafe { sys::sigaction(*number, &raw const now, std::ptr::null_mut()) };
    }
    ASKED.load(Ordering::Relaxed)
}
