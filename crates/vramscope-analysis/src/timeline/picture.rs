//! The stacked timeline of a window, as many pixels as are asked for.

use super::lifetimes::Lifetimes;
use crate::cancel::Cancel;

/// A picture of a window of the timeline.
///
/// Each pixel column shows the moment in it at which the stacked bytes were highest, so no peak is lost at any zoom.
/// Each pixel row shows what covers its middle: things too small for a pixel add to the height of the stack to the byte,
/// and where several share a row one of them is seen. Pixel columns that show the same moment share a column of runs.
///
/// ```text
///   row 3 |   c c          column 0 has the runs (a, ends at 1) (b, ends at 2)
///   row 2 |   c c d        column 1 has the runs (a, ends at 1) (b, ends at 2) (c, ends at 4)
///   row 1 | b b b d
///   row 0 | a a a a
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// Bytes at the lower edge.
    pub low: f64,
    /// Bytes at the upper edge.
    pub high: f64,
    /// The column of runs of each pixel; [`NO_COLUMN`] where the window reaches beyond the recording.
    pub column: Vec<u32>,
    /// The number of the moment that each column of runs shows.
    pub moment: Vec<u32>,
    /// Where the runs of each column begin, from the bottom up, and the end of the last.
    pub start: Vec<u32>,
    /// What each run shows: a position in `things`.
    pub thing: Vec<u32>,
    /// The first row above each run.
    pub end: Vec<u16>,
    /// The numbers of what is to be seen, in order of birth.
    pub things: Vec<u32>,
}

/// The number of a column that shows nothing, for it lies outside of the recording.
pub const NO_COLUMN: u32 = u32::MAX;

/// What is stacked: things with lifetimes and bytes.
pub(super) struct Stack<'a> {
    pub(super) lifetimes: &'a Lifetimes,
    /// Bytes by the thing's number.
    pub(super) bytes: &'a dyn Fn(u32) -> u64,
}

/// A column of runs while it is painted from the bottom up.
struct Brush {
    /// Bytes painted so far.
    bytes: u64,
    /// Rows painted so far.
    row: u16,
    /// The middle of the next row, in bytes.
    next: f64,
}

impl Picture {
    /// Paints `height` rows between `low` and `high` of what lives at each moment of `moment`, which rises.
    /// Where the picture is no longer wanted it is not whole.
    pub(super) fn paint(
        stack: &Stack<'_>,
        moment: Vec<u32>,
        low: f64,
        high: f64,
        height: u16,
        cancel: &Cancel,
    ) -> Self {
        let Self { mut thing, mut end, mut things, .. } = Self::default();
        let row_bytes = (high - low) / f64::from(height.max(1));
        let mut brushes: Vec<Brush> =
            moment.iter().map(|_| Brush { bytes: 0, row: 0, next: low + row_bytes / 2.0 }).collect();
        // Runs as they come, thing by thing: column, thing, end.
        let mut runs: Vec<(u32, u32, u16)> = Vec::new();
        let mut begin = 0;
        for (step, position) in stack.lifetimes.at_any(&moment).enumerate() {
            if cancel.is_cancelled_at(step) {
                break;
            }
            // Births only grow later.
            let (from, to) = (stack.lifetimes.from(position), stack.lifetimes.to(position));
            while moment[begin] < from {
                begin += 1;
            }
            if moment[begin] >= to {
                continue;
            }
            let id = stack.lifetimes.id(position);
            let bytes = (stack.bytes)(id);
            let mut seen = false;
            for column in begin..moment.len() {
                if moment[column] >= to {
                    break;
                }
                let brush = &mut brushes[column];
                brush.bytes += bytes;
                if brush.bytes as f64 <= brush.next || brush.row >= height {
                    continue;
                }
                let rows = ((brush.bytes as f64 - low) / row_bytes - 0.5).ceil();
                brush.row = rows.clamp(f64::from(brush.row) + 1.0, f64::from(height)) as u16;
                brush.next = low + (f64::from(brush.row) + 0.5) * row_bytes;
                runs.push((column as u32, things.len() as u32, brush.row));
                seen = true;
            }
            if seen {
                things.push(id);
            }
        }
        // By column; within a column they stay in order.
        let mut start = vec![0u32; moment.len() + 1];
        for run in &runs {
            start[run.0 as usize + 1] += 1;
        }
        for column in 0..moment.len() {
            start[column + 1] += start[column];
        }
        let mut at = start.clone();
        thing.resize(runs.len(), 0);
        end.resize(runs.len(), 0);
        for (column, what, row) in runs {
            let place = &mut at[column as usize];
            thing[*place as usize] = what;
            end[*place as usize] = row;
            *place += 1;
        }
        Self { low, high, column: Vec::new(), moment, start, thing, end, things }
    }
}
