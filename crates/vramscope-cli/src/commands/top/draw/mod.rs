//! The screen as the model has it. Nothing is told by colour alone.

mod details;
mod gpus;
mod holders;
mod programs;
mod spark;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use vramscope::report::bytes;

use super::model::Model;

/// Less than this says nothing.
const SMALLEST: (u16, u16) = (40, 8);

/// Rows that do not hold everything.
const FEW: u16 = 24;

const KEYS: &str = "q quit  ↑↓ select  Tab details  space pause  ? help";

/// Fits into 60 columns.
const HELP: &str = "\
q, Esc, Ctrl-C quit        ↑ ↓ k j select
Tab, Enter details         space pause, then look at once
?  close this
high   the most allocated since the look before, exactly;
       ≥ where only moments were seen, and it may be more
trend  the high of each look, the last at the right; where
       allocated bytes are not known, of what it names
ended  it serves no more, and goes after some looks
-      what the program does not know";

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        frame.render_widget(Line::from(format!("needs {width}x{height}; q quits")), area);
        return;
    }
    let footer = if model.help { Text::from(HELP) } else { Text::from(KEYS) };
    // Where there is little room, one program has all of it.
    let room = if model.details && area.height < FEW { 0 } else { area.height / 3 };
    let mut gpus = gpus::lines(model.gpus.as_ref(), area.width.into(), room.into());
    gpus.truncate(room.into());
    let [head, above, _, body, below] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(gpus.len() as u16),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length((footer.height() as u16).min(area.height / 2)),
    ])
    .areas(area);
    let state = if model.paused { "paused".to_owned() } else { every(model) };
    frame.render_widget(Line::from("vramscope top".bold()), head);
    frame.render_widget(Line::from(state).right_aligned(), head);
    frame.render_widget(Text::from(gpus), above);
    frame.render_widget(footer.dim(), below);
    match model.programs.get(model.selected) {
        None => frame.render_widget("No program serves what it holds: see docs/live.md", body),
        Some(program) if model.details => details::draw(frame, program, body),
        Some(program) => draw_list(frame, model, program, body),
    }
}

fn every(model: &Model) -> String {
    format!("every {} s", model.interval.as_secs_f64())
}

/// All programs, and beneath them who holds what of the selected one, where there is room.
fn draw_list(frame: &mut Frame<'_>, model: &Model, selected: &super::model::Program, area: Rect) {
    let rows = (model.programs.len() + 1).min(usize::from(area.height));
    let room = area.height >= 8;
    let list = if room { rows.min(usize::from(area.height * 2 / 3)) } else { rows } as u16;
    let [list, _, pane] =
        Layout::vertical([Constraint::Length(list), Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    programs::draw(frame, model, list);
    if room {
        holders::draw(frame, selected, holders::Stacks::Lines, pane);
    }
}

/// Bytes for people; `-` where they are not known.
fn known(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), bytes)
}

/// The highest bytes; marked where there may have been more.
fn highest(n: Option<u64>, is_exact: bool) -> String {
    match n {
        Some(n) if !is_exact => format!("≥ {}", bytes(n)),
        n => known(n),
    }
}
