//! The holders of live allocations in a program.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use vramscope::profiler::LiveHolder;
use vramscope::report::{Shown, bytes, counted, fit};

use super::super::model::Program;

/// The shown part of a stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stacks {
    /// Only the allocating line.
    Lines,
    /// The allocating line and its callers.
    Whole,
}

pub(super) fn draw(frame: &mut Frame<'_>, program: &Program, stacks: Stacks, area: Rect) {
    let title = Shown::of(&program.hello.title);
    let heading = format!("Holders of live memory in {title}, process {}", program.hello.pid);
    let mut lines = vec![Line::from(fit(&heading, area.width.into()).bold())];
    match program.look.as_ref().map(|look| look.holders.as_deref()) {
        None => {}
        Some(None) => {
            lines.push(Line::from("  Not collected by the program: see `collect_holders` in docs/live.md"));
        }
        Some(Some([])) => lines.push(Line::from("  No live allocations since the program started to serve")),
        Some(Some(holders)) => {
            let widest = holders.iter().map(|h| counted(h.count, "block").len()).max().unwrap_or(0);
            let each = holders.iter().flat_map(|h| of_holder(h, widest, stacks, area.width.into()));
            lines.extend(each.map(Line::from));
        }
    }
    let room = usize::from(area.height);
    if lines.len() > room && room > 1 {
        let left_out = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::from(format!("  … and {}", counted(left_out as u64, "more line"))));
    }
    frame.render_widget(Text::from(lines), area);
}

/// The lines of a holder; the number of blocks is padded to `widest` columns.
fn of_holder(holder: &LiveHolder, widest: usize, stacks: Stacks, width: usize) -> Vec<String> {
    let mut frames = holder.stack.iter().flatten().map(|frame| Shown::of(frame));
    let blocks = counted(holder.count, "block");
    let unknown = if holder.stack.is_some() { "unknown line" } else { "(resolving)" };
    let line = frames.next().unwrap_or_else(|| Shown::of(unknown));
    let start = format!("  {:>11} in {blocks:<widest$}  ", bytes(holder.bytes));
    let room = width.saturating_sub(start.len());
    let mut lines = vec![start.clone() + &fit(&line, room)];
    if stacks == Stacks::Whole {
        lines.extend(frames.map(|frame| " ".repeat(start.len()) + &fit(&frame, room)));
    }
    lines
}
