//! Threads that look, so that who does not answer holds nobody up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use ratatui::crossterm::event::Event;
use vramscope::profiler::live::{Connection, Look, discover_except};
use vramscope::profiler::{NvmlDevice, SourceError, nvml_devices};

use super::HOLDERS;

/// What reaches the screen.
pub(super) enum News {
    /// A key, or another size.
    Terminal(Event),
    /// The command is asked to end.
    End,
    /// The GPUs.
    Gpus(Result<Vec<NvmlDevice>, SourceError>),
    /// Programs that serve and were not known.
    Found(Vec<(PathBuf, Connection)>),
    /// What the program at that socket has.
    Looked(PathBuf, Box<Result<Look, SourceError>>),
}

/// A thread that does one thing when it is asked.
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

    /// Asks, unless the last answer is still due.
    fn ask(&mut self, question: Q) {
        if !self.busy {
            self.busy = self.ask.send(question).is_ok();
        }
    }
}

/// All of them.
pub(super) struct Watchers {
    news: Sender<News>,
    gpus: Worker<()>,
    search: Worker<BTreeSet<PathBuf>>,
    programs: BTreeMap<PathBuf, Worker<()>>,
}

impl Watchers {
    /// Tells `news`. Programs are looked for at `named` sockets beside those of the user's folder.
    pub(super) fn start(news: &Sender<News>, named: Vec<PathBuf>) -> io::Result<Self> {
        let gpus = Worker::start(news, |()| News::Gpus(nvml_devices()))?;
        let search = Worker::start(news, move |mut known: BTreeSet<PathBuf>| {
            let missing: Vec<&PathBuf> = named.iter().filter(|path| !known.contains(*path)).collect();
            let open = |path: &&PathBuf| Some(((*path).clone(), Connection::open(path).ok()?));
            let mut found: Vec<_> = missing.iter().filter_map(open).collect();
            known.extend(named.iter().cloned());
            // The folder was in order when the command began.
            found.extend(discover_except(&known).unwrap_or_default());
            News::Found(found)
        })?;
        Ok(Self { news: news.clone(), gpus, search, programs: BTreeMap::new() })
    }

    /// Asks everyone who is not still busy.
    pub(super) fn look(&mut self) {
        self.gpus.ask(());
        self.search.ask(self.programs.keys().cloned().collect());
        self.programs.values_mut().for_each(|program| program.ask(()));
    }

    /// Watches one program more, from now on.
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

    pub(super) fn program_answered(&mut self, path: &Path, look: &Result<Look, SourceError>) {
        if matches!(look, Err(SourceError::Gone(_))) {
            self.programs.remove(path);
        } else if let Some(program) = self.programs.get_mut(path) {
            program.busy = false;
        }
    }
}
