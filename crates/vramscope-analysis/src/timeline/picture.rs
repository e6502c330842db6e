//! Draws the stacked timeline of a window in pixels.

use super::lifetimes::Lifetimes;
use vramscope_basics::Cancel;

/// A picture of a window of the timeline.
///
/// Each pixel column shows the moment of its peak of stacked bytes, so no peak is lost at any zoom. Each pixel row shows the item
/// that covers the middle of the row. Items smaller than a pixel still add their exact bytes to the height of the stack; if
/// several share a row, one of them is shown. Pixel columns that show the same moment share a column of runs.
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
    /// The column of runs of each pixel column; [`NO_COLUMN`] outside of the recording.
    pub column: Vec<u32>,
    /// The index of the moment that each column of runs shows.
    pub moment: Vec<u32>,
    /// The position of each column's first run, from the bottom up, followed by the end of the last column.
    pub start: Vec<u32>,
    /// The item that each run shows: an index into `things`.
    pub thing: Vec<u32>,
    /// The first row above each run.
    pub end: Vec<u16>,
    /// The numbers of the visible items, in order of begin.
    pub things: Vec<u32>,
}

/// The column index of pixel columns outside of the recording.
pub const NO_COLUMN: u32 = u32::MAX;

/// The stacked items, with their lifetimes and bytes.
pub(super) struct Stack<'a> {
    pub(super) lifetimes: &'a Lifetimes,
    /// Returns the bytes of an item by its number.
    pub(super) bytes: &'a dyn Fn(u32) -> u64,
}

/// The state of a column of runs that is painted from the bottom up.
struct Brush {
    /// Bytes painted so far.
    bytes: u64,
    /// Rows painted so far.
    row: u16,
    /// The middle of the next row, in bytes.
    next: f64,
}

impl Picture {
    /// Paints the items that are live at each of `moment` (ascending), in `height` rows between `low` and `high` bytes. After a
    /// cancellation, the picture is incomplete.
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
        // Runs item by item, as (column, item, end).
        let mut runs: Vec<(u32, u32, u16)> = Vec::new();
        let mut begin = 0;
        for (step, position) in stack.lifetimes.at_any(&moment).enumerate() {
            if cancel.is_cancelled_at(step) {
                break;
            }
            // Begins are ascending.
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
        // Sorted by column; within a column, the order is preserved.
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
