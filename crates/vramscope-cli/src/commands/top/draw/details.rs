//! The view of one program with all its numbers.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Stylize as _;
use ratatui::text::{Line, Text};
use ratatui::widgets::Sparkline;
use vramscope::profiler::live::LiveResponse;
use vramscope::report::{Shown, bytes, count, fit_end};

use super::super::model::{Program, State};
use super::{highest, holders, known};

/// Rows of the chart, including its title.
const CHART: u16 = 5;
/// Rows of the terminal from which the chart is shown.
const ROOM: u16 = 22;

pub(super) fn draw(frame: &mut Frame<'_>, program: &Program, area: Rect) {
    let mut figures = figures(program, area.width.into());
    // At least a third of the rows is for the holders.
    figures.truncate(usize::from(area.height * 2 / 3).max(3));
    let chart = if area.height >= ROOM { CHART } else { 0 };
    let [above, middle, _, below] = Layout::vertical([
        Constraint::Length(figures.len() as u16),
        Constraint::Length(chart),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(Text::from(figures), above);
    if chart > 0 {
        draw_chart(frame, program, middle);
    }
    holders::draw(frame, program, holders::Stacks::Whole, below);
}

fn figures(program: &Program, width: usize) -> Vec<Line<'static>> {
    let hello = &program.hello;
    let is = match &program.state {
        State::Answers => Shown::of(&hello.source_name),
        State::Ended(_) => Shown::of("ended"),
        State::Trouble(why) => Shown::of(why),
    };
    let socket = Shown::of(&program.socket.display().to_string());
    let heading = format!("{}, process {}: {is}", Shown::of(&hello.title), hello.pid);
    let mut lines = vec![Line::from(fit_end(&heading, width).bold()), Line::from(fit_end(&socket, width))];
    if let Some(look) = &program.look {
        lines.extend(of_look(look).into_iter().map(|line| Line::from(fit_end(&line, width))));
    }
    lines
}

/// The known numbers, one per line.
fn of_look(look: &LiveResponse) -> Vec<String> {
    let (now, high) = (&look.tick.now, &look.tick.high);
    // Only a pool's counters include peaks between two samples.
    let exact = look.tick.high_is_exact;
    let kinds = [
        ("requested", now.requested, high.requested, exact),
        ("allocated", now.allocated, high.allocated, exact),
        ("active", now.active, high.active, exact),
        ("reserved", now.reserved, high.reserved, exact),
        ("device", now.device_used, high.device_used, false),
        ("process", now.process_used, high.process_used, false),
        ("host", now.cpu, high.cpu, false),
    ];
    let mut lines = vec![format!("{:<10}{:>14}{:>16}", "", "now", "peak")];
    for (what, now, high, exact) in kinds.into_iter().filter(|(_, now, high, _)| now.or(*high).is_some()) {
        lines.push(format!("{what:<10}{:>14}{:>16}", known(now), highest(high, exact)));
    }
    let others = [("device total", now.device_total), ("free in split segments", look.inactive_split_bytes)];
    let others = others.into_iter().filter_map(|(what, n)| Some(format!("{what} {}", bytes(n?))));
    let others = others.collect::<Vec<_>>().join(", ");
    lines.extend(Some(others).filter(|line| !line.is_empty()));
    lines.extend(now.counts.map(|c| {
        let [mallocs, frees] = [c.num_allocations, c.num_frees].map(count);
        let [retries, ooms] = [c.num_alloc_retries, c.num_ooms].map(count);
        format!("allocations {mallocs}, frees {frees}, retries {retries}, out of memory {ooms}")
    }));
    lines
}

fn draw_chart(frame: &mut Frame<'_>, program: &Program, area: Rect) {
    let shown = program.history.len().saturating_sub(area.width.into());
    let values = program.history.range(shown..);
    let most = values.clone().flatten().max().copied().unwrap_or(0);
    let title = format!("{}: peak of each update, at most {}", program.charted(), bytes(most));
    let [_, above, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::from(title.bold()), above);
    frame.render_widget(Sparkline::default().data(values.copied()), below);
}
