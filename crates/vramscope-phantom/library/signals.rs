//! Whether somebody asked the program to end while it waits here: what it does about it comes after the wait.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys::{self, SignalAction};

/// Set once somebody asked.
static ASKED: AtomicBool = AtomicBool::new(false);

/// SIGINT and SIGTERM, with the handler that the program has for each.
static WATCHED: [(c_int, AtomicUsize); 2] = [(2, AtomicUsize::new(0)), (15, AtomicUsize::new(0))];

/// Notes the signal and does what the program does about it.
extern "C" fn note(number: c_int, information: *mut c_void, context: *mut c_void) {
    ASKED.store(true, Ordering::Relaxed);
    for (watched, theirs) in &WATCHED {
        let theirs = theirs.load(Ordering::Acquire);
        if *watched == number && theirs != 0 {
            // SAFETY: the address is that of the program's own handler; one that wants fewer arguments does not look at these.
            let theirs: extern "C" fn(c_int, *mut c_void, *mut c_void) =
                unsafe { std::mem::transmute(theirs) };
            theirs(number, information, context);
        }
    }
}

/// Whether the program was asked to end since it first waited. Signals that end it at once are left to do so.
pub(crate) fn asked_to_end() -> bool {
    const WITH_INFORMATION: c_int = 4;
    let own = note as extern "C" fn(c_int, *mut c_void, *mut c_void) as usize;
    for (number, theirs) in &WATCHED {
        let mut now = SignalAction::default();
        // SAFETY: asks for the program's handler.
        let asked = unsafe { sys::sigaction(*number, std::ptr::null(), &raw mut now) };
        // 0 and 1 are no handlers: the system's own way, and nothing at all.
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
