//! Counts a program's reads of device memory that a kernel would have computed, with the program's line, and lets the follower of values
//! (`follow.py` of the command) answer them.

use std::cell::Cell;
use std::ffi::c_int;

use crate::launches::launches;
use crate::machine::machine;
use crate::python;
use crate::state::{Counter, Noticed, VALUE_BYTES};

thread_local! {
    /// What this thread reads now, if the follower knows it: the value, and the size of the largest read that returns it.
    static ANSWER: Cell<Option<(u64, usize)>> = const { Cell::new(None) };
    /// The reads that this thread was counted for.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts one read. `is_value` distinguishes single values from larger results.
pub(super) fn notice(is_value: bool) {
    COUNTED.set(COUNTED.get() + 1);
    machine().count(if is_value { Counter::ValuesRead } else { Counter::ResultsRead });
    if let Some(line) = python::calling_line() {
        machine().notice_line(Noticed::Read, &line);
    }
}

/// The value that a read of `size` bytes by this thread returns now, if the follower knows it.
pub(super) fn answer(size: u64) -> Option<u64> {
    ANSWER.get().map(|(value, most)| if size as usize <= most { value } else { 0 })
}

/// Called by the follower: until the next call, reads of this thread are not counted. They return `value` up to 8 bytes (`kind` 1) or only
/// of 1 byte (`kind` 2), and zeros otherwise. `kind` 0 ends this.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_answer(kind: c_int, value: u64) {
    ANSWER.set(match kind {
        0 => None,
        1 => Some((value, VALUE_BYTES)),
        _ => Some((value, 1)),
    });
}

/// Called by the follower: the reads that this thread was counted for.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_reads() -> u64 {
    COUNTED.get()
}

/// Called by the follower: the launches by this process.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_launches() -> u64 {
    launches()
}
