//! The state of the screen as plain data.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vramscope::profiler::live::{Hello, LiveResponse};
use vramscope::profiler::{NvmlDevice, Reading, SourceError};

/// Number of updates for which an ended program stays on the screen.
const ENDED_LOOKS: u32 = 5;
/// Number of updates in a program's history; more than the width of a screen.
const HISTORY: usize = 512;

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    /// Time between two updates.
    pub(super) interval: Duration,
    /// `None` until the first answer.
    pub(super) gpus: Option<Result<Vec<NvmlDevice>, SourceError>>,
    pub(super) programs: Vec<Program>,
    /// Index of the selected program.
    pub(super) selected: usize,
    /// Whether only the selected program is shown.
    pub(super) details: bool,
    pub(super) help: bool,
    pub(super) paused: bool,
}

/// A program that serves its memory use.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) socket: PathBuf,
    pub(super) hello: Hello,
    pub(super) state: State,
    /// The latest answer.
    pub(super) look: Option<LiveResponse>,
    /// The peak of each update, latest last; `None` if there was no answer.
    pub(super) history: VecDeque<Option<u64>>,
}

/// The state of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// The last request was answered.
    Answers,
    /// The last request failed.
    Trouble(String),
    /// The program ended this number of updates ago.
    Ended(u32),
}

impl Program {
    /// The name of the quantity in `history`: allocated bytes if the source knows them.
    pub(super) fn charted(&self) -> &'static str {
        self.look.as_ref().and_then(|look| charted(&look.tick.high)).map_or("", |(what, _)| what)
    }
}

/// The most useful quantity of a source, and its bytes.
fn charted(high: &Reading) -> Option<(&'static str, u64)> {
    let known = [
        ("allocated", high.allocated),
        ("process", high.process_used),
        ("device", high.device_used),
        ("host", high.cpu),
    ];
    known.into_iter().find_map(|(what, bytes)| Some((what, bytes?)))
}

impl Model {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            gpus: None,
            programs: Vec::new(),
            selected: 0,
            details: false,
            help: false,
            paused: false,
        }
    }

    /// Starts another update.
    pub(super) fn next_look(&mut self) {
        for program in &mut self.programs {
            if let State::Ended(looks) = &mut program.state {
                *looks += 1;
            }
        }
        let stays = |program: &Program| !matches!(program.state, State::Ended(looks) if looks > ENDED_LOOKS);
        let before = self.programs.iter().take(self.selected).filter(|p| stays(p)).count();
        self.programs.retain(stays);
        self.selected = before.min(self.programs.len().saturating_sub(1));
    }

    /// Adds a program that serves at `socket`; replaces an earlier program at the same socket.
    pub(super) fn found(&mut self, socket: PathBuf, hello: Hello) {
        let program = Program { socket, hello, state: State::Answers, look: None, history: VecDeque::new() };
        match self.programs.iter_mut().find(|p| p.socket == program.socket) {
            Some(before) => *before = program,
            None => self.programs.push(program),
        }
    }

    /// Stores the answer of the program at `socket`.
    pub(super) fn looked(&mut self, socket: &Path, look: Result<LiveResponse, SourceError>) {
        let Some(program) = self.programs.iter_mut().find(|p| p.socket == socket) else { return };
        let mut highest = None;
        program.state = match look {
            Ok(look) => {
                highest = charted(&look.tick.high).map(|(_, bytes)| bytes);
                program.look = Some(look);
                State::Answers
            }
            Err(SourceError::Gone(_)) => State::Ended(0),
            Err(SourceError::Answer { why, .. }) => State::Trouble(why),
            Err(e) => State::Trouble(e.to_string()),
        };
        program.history.push_back(highest);
        if program.history.len() > HISTORY {
            program.history.pop_front();
        }
    }

    pub(super) fn select_before(&mut self) {
        self.selected = self.selected.saturating_sub(1);
    }

    pub(super) fn select_next(&mut self) {
        self.selected = (self.selected + 1).min(self.programs.len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use vramscope::profiler::Tick;

    use super::*;

    fn hello(title: &str, pid: u32) -> Hello {
        Hello {
            protocol: 1,
            pid,
            title: title.to_owned(),
            source_name: "pool on device 0".to_owned(),
            device_id: Some(0),
            collects_holders: true,
        }
    }

    fn model(titles: &[&str]) -> Model {
        let mut model = Model::new(Duration::from_secs(1));
        for (pid, title) in titles.iter().enumerate() {
            model.found(title.into(), hello(title, pid as u32));
        }
        model
    }

    fn look(high: Reading) -> LiveResponse {
        let tick = Tick { now: Reading::default(), high, high_is_exact: true };
        LiveResponse {
            time_us: 0,
            tick,
            inactive_split_bytes: None,
            releasable_bytes: None,
            holders: None,
            layers: None,
        }
    }

    fn gone() -> Result<LiveResponse, SourceError> {
        Err(SourceError::Gone(String::new()))
    }

    #[test]
    fn a_program_that_ended_stays_for_a_few_looks() {
        let mut model = model(&["a", "b", "c"]);
        model.select_next();
        model.select_next();
        model.looked(Path::new("a"), gone());
        for look in 1..=ENDED_LOOKS {
            model.next_look();
            assert_eq!((model.programs[0].state.clone(), model.selected), (State::Ended(look), 2));
        }
        model.next_look();
        assert_eq!((model.programs.len(), model.selected), (2, 1));
        assert_eq!(model.programs[model.selected].hello.title, "c");
        model.looked(Path::new("c"), gone());
        (0..=ENDED_LOOKS).for_each(|_| model.next_look());
        assert_eq!((model.programs.len(), model.selected), (1, 0));
    }

    #[test]
    fn a_new_program_at_the_same_socket_starts_without_history() {
        let mut model = model(&["a"]);
        let allocated = Reading { allocated: Some(7), ..Reading::default() };
        model.looked(Path::new("a"), Ok(look(allocated)));
        model.looked(Path::new("a"), gone());
        model.found("a".into(), hello("another", 9));
        assert_eq!((model.programs.len(), model.programs[0].history.len()), (1, 0));
        assert_eq!(model.programs[0].state, State::Answers);
    }

    #[test]
    fn history_is_of_what_the_source_knows_and_bounded() {
        let mut model = model(&["a"]);
        let cpu = Reading { cpu: Some(5), ..Reading::default() };
        for _ in 0..2 * HISTORY {
            model.looked(Path::new("a"), Ok(look(cpu)));
        }
        model.looked(Path::new("a"), Err(SourceError::Nvml("busy".to_owned())));
        let program = &model.programs[0];
        assert_eq!((program.history.len(), program.charted()), (HISTORY, "host"));
        assert_eq!(program.state, State::Trouble("busy".to_owned()));
        let last: Vec<_> = program.history.iter().rev().take(2).copied().collect();
        assert_eq!(last, [None, Some(5)]);
        // An unknown socket.
        model.looked(Path::new("b"), gone());
    }

    #[test]
    fn selection_stays_among_the_programs() {
        let mut model = model(&["a", "b"]);
        model.select_before();
        assert_eq!(model.selected, 0);
        (0..5).for_each(|_| model.select_next());
        assert_eq!(model.selected, 1);
        let mut none = Model::new(Duration::from_secs(1));
        none.select_next();
        assert_eq!(none.selected, 0);
    }
}
