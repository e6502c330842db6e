//! Who holds what is live in a program.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use vramscope::profiler::live::Holder;
use vramscope::report::{Shown, bytes, counted, fit};

use super::super::model::Program;

/// How much of a stack is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stacks {
    /// The line that allocated.
    Lines,
    /// And who called.
    Whole,
}

pub(super) fn draw(frame: &mut Frame<'_>, program: &Program, stacks: Stacks, area: Rect) {
    let title = Shown::of(&program.hello.title);
    let heading = format!("Who holds what is live in {title}, process {}", program.hello.pid);
    let mut lines = vec![Line::from(fit(&heading, area.width.into()).bold())];
    match program.look.as_ref().map(|look| look.holders.as_deref()) {
        None => {}
        Some(None) => {
            lines.push(Line::from("  It does not collect that: see `collect_holders` in docs/live.md"));
        }
        Some(Some([])) => lines.push(Line::from("  Nothing that was allocated since it began to serve")),
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

/// Its lines; the number of blocks takes `widest` columns.
fn of_holder(holder: &Holder, widest: usize, stacks: Stacks, width: usize) -> Vec<String> {
    let mut frames = holder.stack.iter().flatten().map(|frame| Shown::of(frame));
    let blocks = counted(holder.count, "block");
    let unknown = if holder.stack.is_some() { "an unknown line" } else { "(being looked up)" };
    let line = frames.next().unwrap_or_else(|| Shown::of(unknown));
    let start = format!("  {:>11} in {blocks:<widest$}  ", bytes(holder.bytes));
    let room = width.saturating_sub(start.len());
    let mut lines = vec![start.clone() + &fit(&line, room)];
    if stacks == Stacks::Whole {
        lines.extend(frames.map(|frame| " ".repeat(start.len()) + &fit(&frame, room)));
    }
    lines
}
