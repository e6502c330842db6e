//! The holders of live allocations in a program, or its memory by library.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use vramscope::profiler::live::LiveResponse;
use vramscope::profiler::{Layers, LiveHolder};
use vramscope::report::{Shown, bytes, counted, fit, fit_end};

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
    let layers = program.look.as_ref().and_then(|look| Some((look, look.layers.as_ref()?)));
    let what = if layers.is_some() { "Memory by library" } else { "Holders of live memory" };
    let heading = format!("{what} in {title}, process {}", program.hello.pid);
    let mut lines = vec![Line::from(fit(&heading, area.width.into()).bold())];
    if let Some((look, layers)) = layers {
        let width = area.width.into();
        lines.extend(of_layers(look, layers).iter().map(|line| Line::from(fit_end(line, width))));
    }
    match program.look.as_ref().map(|look| look.holders.as_deref()) {
        None => {}
        Some(None) if layers.is_some() => {}
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

/// The lines of a process's memory: PyTorch's allocator, other libraries, and the rest.
fn of_layers(look: &LiveResponse, layers: &Layers) -> Vec<String> {
    let row = |size: u64, text: &str| format!("  {:>11}  {text}", bytes(size));
    let mut lines = vec![row(look.tick.now.reserved.unwrap_or(0), "PyTorch's allocator (reserved)")];
    lines.extend(layers.libraries.iter().map(|library| {
        let [name, memory] = [&library.library, &library.memory].map(|text| Shown::of(text));
        row(library.bytes, &format!("{name}  {memory}, {}", counted(library.count, "allocation")))
    }));
    let rest = layers.rest_bytes.map(|rest| rest.max(0).unsigned_abs());
    lines.extend(rest.map(|rest| row(rest, "contexts, kernels and other processes, measured")));
    lines
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
