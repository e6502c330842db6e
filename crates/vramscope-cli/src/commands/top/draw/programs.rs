//! The programs, one row each.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use vramscope::profiler::Reading;
use vramscope::report::{Shown, fit, fit_end};

use super::super::model::{Model, Program, State};
use super::spark::spark;
use super::{highest, known};

/// Columns of `1023.99 MiB`.
const BYTES: u16 = 11;
/// Columns of a size with the mark `≥`.
const HIGH: u16 = BYTES + 2;
/// Columns of a process ID.
const PROCESS: u16 = 8;
/// Columns of the selection mark before a name.
const MARK: u16 = 2;

/// A kind of bytes.
type Kind = (&'static str, fn(&Reading) -> Option<u64>);

/// The kinds of bytes that fit into the width.
fn kinds(width: u16) -> &'static [Kind] {
    const ALLOCATED: Kind = ("allocated", |r| r.allocated);
    const ACTIVE: Kind = ("active", |r| r.active);
    const RESERVED: Kind = ("reserved", |r| r.reserved);
    const DEVICE: Kind = ("device", |r| r.device_used);
    match width {
        0..70 => &[ALLOCATED],
        70..82 => &[ALLOCATED, RESERVED],
        82..94 => &[ALLOCATED, RESERVED, DEVICE],
        _ => &[ALLOCATED, ACTIVE, RESERVED, DEVICE],
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, area: Rect) {
    let kinds = kinds(area.width);
    let fixed = MARK + PROCESS + HIGH + 3 + kinds.len() as u16 * (BYTES + 1);
    let rest = area.width.saturating_sub(fixed);
    let name = (rest / 2).clamp(4, 24);
    let trend = rest.saturating_sub(name);
    let columns = [Constraint::Length(MARK + name), Constraint::Length(PROCESS)]
        .into_iter()
        .chain(kinds.iter().map(|_| Constraint::Length(BYTES)))
        .chain([Constraint::Length(HIGH), Constraint::Length(trend)]);
    let right = |text: &str| Cell::from(Line::from(text.to_owned()).right_aligned());
    let header = [Cell::from("Programs"), right("process")]
        .into_iter()
        .chain(kinds.iter().map(|(title, _)| right(title)))
        .chain([right("peak"), Cell::from("trend")]);
    let rows = model.programs.iter().enumerate().map(|(i, program)| {
        let is_selected = i == model.selected;
        let title = fit(&Shown::of(&program.hello.title), name.into());
        let now = program.look.as_ref().map(|look| look.tick.now).unwrap_or_default();
        let high =
            program.look.as_ref().map(|look| highest(look.tick.high.allocated, look.tick.high_is_exact));
        let cells = [
            Cell::from(format!("{} {title}", if is_selected { ">" } else { " " })),
            right(&program.hello.pid.to_string()),
        ];
        let cells = cells.into_iter().chain(kinds.iter().map(|(_, of)| right(&known(of(&now))))).chain([
            right(&high.unwrap_or_else(|| "-".to_owned())),
            Cell::from(state(program, trend.into())),
        ]);
        Row::new(cells).style(if is_selected { Style::new().reversed() } else { Style::new() })
    });
    // The selected row is always visible.
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let rows = rows.skip((model.selected + 1).saturating_sub(room)).take(room);
    let table = Table::new(rows, columns).header(Row::new(header).bold()).column_spacing(1);
    frame.render_widget(table, area);
}

/// The last column: the trend, or why there is none.
fn state(program: &Program, width: usize) -> String {
    match &program.state {
        State::Ended(_) => "ended".to_owned(),
        State::Trouble(why) => fit_end(&Shown::of(why), width),
        State::Answers => match program.charted() {
            "" | "allocated" => spark(&program.history, width),
            what => format!("{what} {}", spark(&program.history, width.saturating_sub(what.len() + 1))),
        },
    }
}
