//! Bytes over the run, drawn in characters.

use std::fmt::Write as _;

use vramscope_analysis::{Counters, Summary};

use super::page::{BAD, BAR, DIM, Page};
use vramscope_basics::units::{bytes, counted, duration};

impl Page<'_> {
    /// Allocated bytes over the run as filled columns, with reserved bytes drawn over them.
    pub(super) fn chart(&mut self, s: &Summary) {
        const ROWS: usize = 6;
        const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let top = s.peaks.reserved.bytes.max(s.peaks.allocated.bytes);
        let width = self.options.width.saturating_sub(16).min(s.timeline.len()).min(100);
        if s.events < 2 || top == 0 || width < 8 {
            return;
        }
        let column = |i: usize| {
            let n = s.timeline.len();
            let part = &s.timeline[i * n / width..((i + 1) * n / width).max(i * n / width + 1)];
            let highest = |of: fn(&Counters) -> u64| part.iter().map(of).max().unwrap_or(0);
            (highest(|c| c.allocated), highest(|c| c.reserved))
        };
        let level = |v: u64| (v as u128 * (ROWS * 8) as u128).div_ceil(top as u128) as usize;
        let columns: Vec<(usize, usize)> =
            (0..width).map(column).map(|(a, r)| (level(a), level(r))).collect();
        self.out.push('\n');
        for row in (0..ROWS).rev() {
            let label = if row == ROWS - 1 { bytes(top) } else { String::new() };
            let mut text = format!("{label:>11} ");
            let _ = write!(text, "{BAR}");
            for &(allocated, reserved) in &columns {
                let filled = allocated.saturating_sub(row * 8).min(8);
                let is_top_of_reserved = reserved > 0 && (reserved - 1) / 8 == row;
                text.push(if filled == 0 && is_top_of_reserved { '─' } else { EIGHTHS[filled] });
            }
            let _ = write!(text, "{BAR:#}");
            self.line(text);
        }
        if !s.ooms.is_empty() {
            let mut marks = vec![' '; width];
            for oom in &s.ooms {
                marks[oom.event * width / s.events] = '▲';
            }
            let marks: String = marks.into_iter().collect();
            self.line(format!("{:12}{BAD}{}{BAD:#}", "", marks.trim_end()));
        }
        let span = s.time_us.map(|(a, b)| format!(", {}", duration(b.saturating_sub(a)))).unwrap_or_default();
        let oom = if s.ooms.is_empty() { "" } else { "  ▲ out of memory" };
        let legend = format!("█ allocated  ─ reserved{oom}   {}{span}", counted(s.events as u64, "event"));
        self.line(format!("{:12}{DIM}{legend}{DIM:#}", ""));
    }
}
