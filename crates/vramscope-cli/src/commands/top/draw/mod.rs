//! Draws the screen of a model. Color is never the only carrier of a meaning.

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

/// Smallest usable terminal, in columns and rows.
const SMALLEST: (u16, u16) = (40, 8);

/// Below this number of rows, the details use the rows of the GPUs.
const FEW: u16 = 24;

const KEYS: &str = "q quit  ↑↓ select  Tab details  space pause  ? help";

/// At most 60 columns wide.
const HELP: &str = "\
q, Esc, Ctrl-C quit        ↑ ↓ k j select
Tab, Enter details         space pause or resume
?  close this help
peak   most allocated bytes since the last update, exactly;
       ≥ if only samples are known, so it may be higher
trend  peak of each update, the latest at the right; of the
       named quantity if allocated bytes are unknown
ended  serves no more; removed after some updates
-      unknown to the program";

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        frame.render_widget(Line::from(format!("needs {width}x{height}; q quits")), area);
        return;
    }
    let footer = if model.help { Text::from(HELP) } else { Text::from(KEYS) };
    // On small terminals, the details use the whole screen.
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
        None => frame.render_widget("No program serves its pool: see docs/live.md", body),
        Some(program) if model.details => details::draw(frame, program, body),
        Some(program) => draw_list(frame, model, program, body),
    }
}

fn every(model: &Model) -> String {
    format!("every {} s", model.interval.as_secs_f64())
}

/// Draws all programs, and below them the holders of the selected one if there is room.
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

/// Formats bytes; `-` if unknown.
fn known(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_owned(), bytes)
}

/// Formats a peak; marked with `≥` if it may be higher.
fn highest(n: Option<u64>, is_exact: bool) -> String {
    match n {
        Some(n) if !is_exact => format!("≥ {}", bytes(n)),
        n => known(n),
    }
}
