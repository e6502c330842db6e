//! Peaks over time, in columns of equal duration.

use vramscope_trace::samples::{Look, Values};

use super::elapsed;

/// The largest number of columns.
const MOST_COLUMNS: usize = 400;

/// Number of intervals without a sample that are not yet a gap.
const PATIENCE: u64 = 4;

/// Returns the peaks of each column of time; empty values in long gaps without samples.
pub(super) fn timeline(looks: &[Look], interval_us: u64) -> Vec<Values> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let count = looks.len().min(MOST_COLUMNS);
    let span = elapsed(first.from_us, last.to_us);
    let mut columns = vec![Values::default(); count];
    if span == 0 {
        // The times are all equal: one look after the other.
        for (place, look) in looks.iter().enumerate() {
            let column = &mut columns[place * count / looks.len()];
            *column = column.max(look.highest);
        }
        return columns;
    }
    let place = |time_us: i64| {
        let at =
            u128::from(elapsed(first.from_us, time_us).min(span)) * count as u128 / (u128::from(span) + 1);
        at as usize
    };
    for look in looks {
        // A look of several samples covers the time of all of them.
        for column in &mut columns[place(look.from_us)..=place(look.to_us).max(place(look.from_us))] {
            *column = column.max(look.highest);
        }
    }
    // Samples are not spread evenly over columns, so an empty column repeats the previous one.
    let most = (PATIENCE.saturating_mul(interval_us) as u128 * count as u128 / u128::from(span)) as usize + 1;
    let mut empty = 0;
    for column in 1..count {
        empty = if columns[column] == Values::default() { empty + 1 } else { 0 };
        if empty > 0 && empty <= most {
            columns[column] = columns[column - 1];
        }
    }
    columns
}
