//! Rows of holders: bytes, share, bar, name.

use super::page::{BAR, DIM, Page};
use unicode_width::UnicodeWidthStr as _;
use vramscope_analysis::Holder;
use vramscope_basics::units::{bytes, count, counted, share};
use vramscope_trace::StackId;

use crate::fit::fit;

/// Width of a bar in columns.
const BAR_WIDTH: usize = 16;

impl Page<'_> {
    /// Columns left for the label of a row.
    pub(crate) fn room(&self, indent: usize, blocks: u64) -> usize {
        let used = 2 + 11 + 1 + 7 + 1 + BAR_WIDTH + 1 + indent + 2 + counted(blocks, "block").width();
        self.options.width.saturating_sub(used).max(16)
    }

    pub(crate) fn row(&mut self, amount: u64, total: u64, indent: usize, label: &str, blocks: u64) {
        let whole = (BAR_WIDTH * 8) as u128;
        let eighths = if total == 0 { 0 } else { (u128::from(amount) * whole / u128::from(total)) as usize };
        let mut bar = "█".repeat(eighths / 8);
        if eighths % 8 > 0 {
            bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
        }
        let pad = " ".repeat(BAR_WIDTH.saturating_sub(bar.width()));
        let label = fit(label, self.room(indent, blocks));
        self.line(format!(
            "  {:>11} {:>7} {BAR}{bar}{BAR:#}{pad} {:indent$}{label}  {DIM}{}{DIM:#}",
            bytes(amount),
            share(amount, total),
            "",
            counted(blocks, "block")
        ));
    }

    /// All frames of a stack, innermost first, if the user asked for them. Rows are not shortened, for searching and copying.
    pub(crate) fn full_stack(&mut self, stack: Option<StackId>) {
        let Some(stack) = stack.filter(|_| self.options.full_stacks) else { return };
        // Real stacks have some hundred frames; infinite recursion can record a million.
        const MOST_FRAMES: usize = 1000;
        let frames = self.names.trace.stacks.get(stack);
        for &frame in frames.iter().take(MOST_FRAMES) {
            let text = self.names.full_frame(frame);
            self.line(format!("{:15}{DIM}{text}{DIM:#}", ""));
        }
        if let Some(more) = frames.len().checked_sub(MOST_FRAMES).filter(|&more| more > 0) {
            self.line(format!("{:15}{DIM}... {} more{DIM:#}", "", count(more as u64)));
        }
    }

    pub(crate) fn holder_rows(&mut self, holders: &[Holder], total: u64, top: usize) {
        for h in holders.iter().take(top) {
            let label = self.names.holder(h);
            self.row(h.bytes, total, 0, &label, h.count);
            self.full_stack(h.stack);
        }
        let rest = holders.get(top..).unwrap_or_default();
        if !rest.is_empty() {
            let label = format!("... {} more", count(rest.len() as u64));
            self.row(
                rest.iter().map(|h| h.bytes).sum(),
                total,
                0,
                &label,
                rest.iter().map(|h| h.count).sum(),
            );
        }
    }
}
