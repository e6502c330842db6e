//! What programs read from a device that a kernel would have computed: it is counted, with the line of the program.

use crate::machine::machine;
use crate::python;
use crate::state::{Counter, NAME_BYTES, Noticed};

/// A program reads what a kernel would have computed.
pub(super) fn notice(is_value: bool) {
    machine().count(if is_value { Counter::ValuesRead } else { Counter::ResultsRead });
    if let Some(line) = python::calling_line() {
        machine().notice(Noticed::Read, last_of(&line));
    }
}

/// The end of a line's name, from a folder on, where all of it has no room.
fn last_of(line: &str) -> &str {
    if line.len() <= NAME_BYTES {
        return line;
    }
    let end = line.len() - NAME_BYTES;
    let tail = line.get(line.ceil_char_boundary(end)..).unwrap_or_default();
    tail.split_once('/').map_or(tail, |(_, rest)| rest)
}
