//! Counts a program's reads of device memory that a kernel would have computed, with the program's line.

use crate::machine::machine;
use crate::python;
use crate::state::{Counter, Noticed};

/// Counts one read. `is_value` distinguishes single values from larger results.
pub(super) fn notice(is_value: bool) {
    machine().count(if is_value { Counter::ValuesRead } else { Counter::ResultsRead });
    if let Some(line) = python::calling_line() {
        machine().notice_line(Noticed::Read, &line);
    }
}
