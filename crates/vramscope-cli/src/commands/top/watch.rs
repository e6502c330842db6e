//! Threads that query programs and GPUs, so that a slow answer does not block the screen.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use ratatui::crossterm::event::Event;
use vramscope::profiler::live::{Connection, LiveResponse, discover_except};
use vramscope::profiler::{NvmlDevice, SourceError, nvml_devices};

use super::HOLDERS;

/// Messages to the screen.
pub(super) enum News {
    /// A key, or a resize.
    Terminal(Event),
    /// A signal to end the command.
    End,
    /// The state of the GPUs.
    Gpus(Result<Vec<NvmlDevice>, SourceError>),
    /// New programs.
    Found(Vec<(PathBuf, Connection)>),
    /// The answer of the program at this socket.
    Looked(PathBuf, Box<Result<LiveResponse, SourceError>>),
}

/// A thread that answers requests of one kind.
struct Worker<Q> {
    ask: Sender<Q>,
    busy: bool,
}

impl<Q: Send + 'static> Worker<Q> {
    fn start(news: &Sender<News>, mut work: impl FnMut(Q) -> News + Send + 'static) -> io::Result<Self> {
        let (ask, asked) = channel();
        let news = news.clone();
        std::thread::Builder::new().spawn(move || {
            for question in asked {
                if news.send(work(question)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { ask, busy: false })
    }

    /// Sends a request, unless an answer is pending.
    fn ask(&mut self, question: Q) {
        if !self.busy {
            self.busy = self.ask.send(question).is_ok();
        }
    }
}

/// The threads for GPUs, the search for programs, and each program.
pub(super) struct Watchers {
    news: Sender<News>,
    gpus: Worker<()>,
    search: Worker<BTreeSet<PathBuf>>,
    programs: BTreeMap<PathBuf, Worker<()>>,
}

impl Watchers {
    /// Starts the threads, which send to `news`. Programs are searched at the `named` sockets and in the user's socket folder.
    pub(super) fn start(news: &Sender<News>, named: Vec<PathBuf>) -> io::Result<Self> {
        let gpus = Worker::start(news, |()| News::Gpus(nvml_devices()))?;
        let search = Worker::start(news, move |mut known: BTreeSet<PathBuf>| {
            let missing: Vec<&PathBuf> = named.iter().filter(|path| !known.contains(*path)).collect();
            let open = |path: &&PathBuf| Some(((*path).clone(), Connection::open(path).ok()?));
            let mut found: Vec<_> = missing.iter().filter_map(open).collect();
            known.extend(named.iter().cloned());
            // Errors of the folder were reported when the command started.
            found.extend(discover_except(&known).unwrap_or_default());
            News::Found(found)
        })?;
        Ok(Self { news: news.clone(), gpus, search, programs: BTreeMap::new() })
    }

    /// Sends a request to every idle thread.
    pub(super) fn look(&mut self) {
        self.gpus.ask(());
        self.search.ask(self.programs.keys().cloned().collect());
        self.programs.values_mut().for_each(|program| program.ask(()));
    }

    /// Starts a thread for one more program.
    pub(super) fn add(&mut self, path: PathBuf, mut connection: Connection) -> io::Result<()> {
        let socket = path.clone();
        let look = move |()| News::Looked(socket.clone(), Box::new(connection.look(HOLDERS)));
        let mut worker = Worker::start(&self.news, look)?;
        worker.ask(());
        self.programs.insert(path, worker);
        Ok(())
    }

    pub(super) fn gpus_answered(&mut self) {
        self.gpus.busy = false;
    }

    pub(super) fn search_answered(&mut self) {
        self.search.busy = false;
    }

    pub(super) fn program_answered(&mut self, path: &Path, look: &Result<LiveResponse, SourceError>) {
        if matches!(look, Err(SourceError::Gone(_))) {
            self.programs.remove(path);
        } else if let Some(program) = self.programs.get_mut(path) {
            program.busy = false;
        }
    }
}
