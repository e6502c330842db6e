//! What programs read from a device that a kernel would have computed: it is counted, with the line of the program.

use crate::machine::machine;
use crate::python;
use crate::state::{Counter, Noticed};

/// A program reads what a kernel would have computed.
pub(super) fn notice(is_value: bool) {
    machine().count(if is_value { Counter::ValuesRead } else { Counter::ResultsRead });
    if let Some(line) = python::calling_line() {
        machine().notice_line(Noticed::Read, &line);
    }
}
