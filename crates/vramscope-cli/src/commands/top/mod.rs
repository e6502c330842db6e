//! `vramscope top`
//!
//! `watch` has one thread for each program, one for the GPUs and one that searches for sockets, so a slow source delays no other. They
//! share one channel with keys and signals. `model` is the contents of the screen as plain data; `draw` renders it. `terminal` restores
//! the terminal. `once` is `--json`.

pub(crate) mod args;
mod draw;
mod model;
pub(crate) mod once;
mod terminal;
mod watch;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use vramscope::profiler::SourceError;
use vramscope::profiler::live::{self, Connection};

use crate::commands::top::args::TopArgs;
use model::Model;
use terminal::Terminal;
use watch::{News, Watchers};

/// Default time between two updates.
const INTERVAL: Duration = Duration::from_secs(1);

/// Limit on the holders requested from a program.
const HOLDERS: usize = 20;

pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    if !args.json && !super::stdout().is_terminal() {
        bail!("standard output is not a terminal; use --json to print one sample");
    }
    // Errors are printed before the screen is opened.
    live::sockets()?;
    let mut named = args.socket.iter().map(|path| connect(path)).collect::<anyhow::Result<Vec<_>>>()?;
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    named.dedup_by(|(a, _), (b, _)| a == b);
    if args.json {
        super::print_json(&once::look(named, args.interval)?)
    } else {
        watch(args.interval.unwrap_or(INTERVAL), named)
    }
}

/// Connects to a socket that the user named.
fn connect(path: &Path) -> anyhow::Result<(PathBuf, Connection)> {
    let name = path.display();
    // Canonical, as in the search for sockets.
    let path = path.canonicalize().with_context(|| name.to_string())?;
    match Connection::open(&path) {
        Ok(connection) => Ok((path, connection)),
        Err(SourceError::Gone(_)) => Err(anyhow!("{name}: no program serves at this socket")),
        Err(SourceError::Answer { why, .. }) => Err(anyhow!("{name}: {why}")),
        Err(e) => Err(e).context(name.to_string()),
    }
}

/// Shows the screen until the user quits.
fn watch(interval: Duration, named: Vec<(PathBuf, Connection)>) -> anyhow::Result<()> {
    let (news, incoming) = channel();
    let mut watchers = Watchers::start(&news, named.iter().map(|(path, _)| path.clone()).collect())?;
    let mut model = Model::new(interval);
    let mut terminal = Terminal::open(&news).context("the terminal")?;
    found(named, &mut model, &mut watchers)?;
    let mut next = Instant::now();
    loop {
        if !model.paused && next <= Instant::now() {
            model.next_look();
            watchers.look();
            next += interval;
            next = next.max(Instant::now());
        }
        terminal.draw(&model)?;
        let wait = if model.paused { Duration::MAX } else { next.saturating_duration_since(Instant::now()) };
        let first = match incoming.recv_timeout(wait) {
            Ok(news) => news,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        for news in std::iter::once(first).chain(incoming.try_iter()) {
            match news {
                News::Terminal(Event::Key(key)) => match press(&mut model, key) {
                    Pressed::Quit => return Ok(()),
                    Pressed::Look => next = Instant::now(),
                    Pressed::Nothing => {}
                },
                // Every event redraws the screen.
                News::Terminal(_) => {}
                News::End => return Ok(()),
                News::Gpus(gpus) => {
                    watchers.gpus_answered();
                    model.gpus = Some(gpus);
                }
                News::Found(programs) => {
                    watchers.search_answered();
                    found(programs, &mut model, &mut watchers)?;
                }
                News::Looked(path, look) => {
                    watchers.program_answered(&path, &look);
                    model.looked(&path, *look);
                }
            }
        }
    }
}

fn found(
    programs: Vec<(PathBuf, Connection)>,
    model: &mut Model,
    watchers: &mut Watchers,
) -> anyhow::Result<()> {
    for (path, connection) in programs {
        model.found(path.clone(), connection.hello().clone());
        watchers.add(path, connection)?;
    }
    Ok(())
}

/// The effect of a key, in addition to a redraw.
enum Pressed {
    Nothing,
    Look,
    Quit,
}

fn press(model: &mut Model, key: KeyEvent) -> Pressed {
    if !key.is_press() && !key.is_repeat() {
        return Pressed::Nothing;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Pressed::Quit,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Pressed::Quit,
        KeyCode::Up | KeyCode::Char('k') => model.select_before(),
        KeyCode::Down | KeyCode::Char('j') => model.select_next(),
        KeyCode::Tab | KeyCode::Enter => model.details = !model.details,
        KeyCode::Char('?') => model.help = !model.help,
        KeyCode::Char(' ') => {
            model.paused = !model.paused;
            if !model.paused {
                return Pressed::Look;
            }
        }
        _ => {}
    }
    Pressed::Nothing
}
