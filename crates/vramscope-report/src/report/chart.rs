//! Charts of bytes over time, drawn with characters.

use std::fmt::Write as _;

use vramscope_analysis::{Counters, Summary};
use vramscope_basics::units::{bytes, counted, duration};

use crate::text::lines::{BAD, BAR, DIM, Lines};
use crate::text::page::Page;

const ROWS: usize = 6;

/// A column of a chart, heights in bytes; 0 draws nothing.
pub(crate) struct ChartColumn {
    /// Height of the filled column.
    pub(crate) filled: u64,
    /// Height of the solid line.
    pub(crate) line: u64,
    /// Height of the dotted line.
    pub(crate) dotted: u64,
}

impl Lines<'_> {
    /// Draws columns of at most `top` bytes.
    pub(crate) fn draw(&mut self, columns: impl Iterator<Item = ChartColumn>, top: u64) {
        const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let level = |v: u64| (v as u128 * (ROWS * 8) as u128).div_ceil(u128::from(top.max(1))) as usize;
        let columns: Vec<[usize; 3]> = columns.map(|c| [c.filled, c.line, c.dotted].map(level)).collect();
        self.out.push('\n');
        for row in (0..ROWS).rev() {
            let label = if row == ROWS - 1 { bytes(top) } else { String::new() };
            let mut text = format!("{label:>11} ");
            let _ = write!(text, "{BAR}");
            for &[filled, line, dotted] in &columns {
                let filled = filled.saturating_sub(row * 8).min(8);
                let is_here = |level: usize| filled == 0 && level > 0 && (level - 1) / 8 == row;
                text.push(match () {
                    () if is_here(line) => '─',
                    () if is_here(dotted) => '┈',
                    () => EIGHTHS[filled],
                });
            }
            let _ = write!(text, "{BAR:#}");
            self.line(text);
        }
    }

    /// Draws marks below a chart, and the legend.
    pub(crate) fn below_chart(&mut self, marks: &[char], legend: &str) {
        let marks: String = marks.iter().collect();
        if !marks.trim_end().is_empty() {
            self.line(format!("{:12}{BAD}{}{BAD:#}", "", marks.trim_end()));
        }
        self.line(format!("{:12}{DIM}{legend}{DIM:#}", ""));
    }
}

impl Page<'_> {
    /// Draws allocated bytes over the run as filled columns, and reserved bytes as a line.
    pub(crate) fn chart(&mut self, s: &Summary) {
        let top = s.peaks.reserved.bytes.max(s.peaks.allocated.bytes);
        let width = self.options.width.saturating_sub(16).min(s.timeline.len()).min(100);
        if s.events < 2 || top == 0 || width < 8 {
            return;
        }
        let column = |i: usize| {
            let n = s.timeline.len();
            let part = &s.timeline[i * n / width..((i + 1) * n / width).max(i * n / width + 1)];
            let highest = |of: fn(&Counters) -> u64| part.iter().map(of).max().unwrap_or(0);
            ChartColumn { filled: highest(|c| c.allocated), line: highest(|c| c.reserved), dotted: 0 }
        };
        self.lines().draw((0..width).map(column), top);
        let mut marks = vec![' '; width];
        for oom in &s.ooms {
            marks[oom.event * width / s.events] = '▲';
        }
        let span = s.time_us.map(|(a, b)| format!(", {}", duration(b.saturating_sub(a)))).unwrap_or_default();
        let oom = if s.ooms.is_empty() { "" } else { "  ▲ out of memory" };
        let legend = format!("█ allocated  ─ reserved{oom}   {}{span}", counted(s.events as u64, "event"));
        self.lines().below_chart(&marks, &legend);
    }
}
