//! Bytes over the run, in a fixed number of cells.

use vramscope_analysis::History;

use crate::summary::{self, CELLS, Course, Over};

/// Returns the peaks in equal parts of the run: parts of its time if `times` has the time of each event, else of its events.
pub(super) fn of(history: &History, times: Option<&[i64]>) -> Course {
    let events = history.device().events.len();
    let cell = |event: usize| match times {
        Some(times) => {
            let (first, last) = (times[0], times[times.len() - 1]);
            summary::cell(times[event].abs_diff(first), last.abs_diff(first))
        }
        None => summary::cell(event as u64, events as u64 - 1),
    };
    let mut course = Course {
        over: if times.is_some() { Over::Time } else { Over::Events },
        allocated_bytes: vec![0; CELLS],
        reserved_bytes: vec![0; CELLS],
    };
    let mut see = |cell: usize, allocated: u64, reserved: u64| {
        course.allocated_bytes[cell] = course.allocated_bytes[cell].max(allocated);
        course.reserved_bytes[cell] = course.reserved_bytes[cell].max(reserved);
    };
    let mut last = 0;
    let mut now = (0, 0);
    for (moment, c) in history.walk() {
        let here = moment.event().map_or(0, cell);
        // Live allocations continue through the cells without events.
        (last + 1..=here).for_each(|cell| see(cell, now.0, now.1));
        now = (c.allocated, c.reserved);
        see(here, now.0, now.1);
        last = here;
    }
    (last + 1..CELLS).for_each(|cell| see(cell, now.0, now.1));
    course
}
