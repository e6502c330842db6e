//! The highest values over time, in columns of the same length.

use vramscope_trace::samples::{Look, Values};

use super::elapsed;

/// The most columns.
const MOST_COLUMNS: usize = 400;

/// How many intervals without a sample are still no silence.
const PATIENCE: u64 = 4;

/// The highest values of each column of time; where no sample was taken for long, nothing is known.
pub(super) fn timeline(looks: &[Look], interval_us: u64) -> Vec<Values> {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Vec::new() };
    let count = looks.len().min(MOST_COLUMNS);
    let span = elapsed(first.from_us, last.to_us);
    let mut columns = vec![Values::default(); count];
    if span == 0 {
        // Times tell nothing: one look behind the other.
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
        // A look of several samples is as long as they took.
        for column in &mut columns[place(look.from_us)..=place(look.to_us).max(place(look.from_us))] {
            *column = column.max(look.highest);
        }
    }
    // Samples do not fall into columns evenly: one that has none goes on like the one before.
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
