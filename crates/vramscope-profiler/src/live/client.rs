//! The client of a live server: connections, the remote source, and discovery of sockets.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use vramscope_report::Shown;

use super::protocol::{Hello, LiveResponse, MOST_ANSWERED, PROTOCOL, Question, Refusal, line};
use super::{LiveError, folder, socket};
use crate::source::{MemorySource, Reading, SourceError, SourceInfo, Tick, Ticker};
use vramscope_basics::lock;

/// Timeout of a response.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a program that serves its source.
#[derive(Debug)]
pub struct Connection {
    lines: Lines,
    hello: Hello,
    /// Whether a response timed out and may still arrive.
    due: bool,
    /// A late response whose peaks were not returned yet.
    late: Option<LiveResponse>,
}

impl Connection {
    /// Connects to the socket `path`.
    ///
    /// # Errors
    /// [`SourceError::Gone`] if no process listens there; another error if the response is invalid.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let stream = socket::connect(path, PATIENCE).map_err(|e| trouble(&name, &e))?;
        let mut lines = Lines { stream, name, received: Vec::new() };
        lines.send(Question::Hello)?;
        let hello: Hello = parse(&lines.receive()?, &lines.name)?;
        if hello.protocol != PROTOCOL {
            let why =
                format!("uses protocol version {}; this program supports version {PROTOCOL}", hello.protocol);
            return Err(SourceError::Answer { source_name: lines.name, why });
        }
        lines.name = format!("{} (process {})", Shown::of(&hello.title), hello.pid);
        Ok(Self { lines, hello, due: false, late: None })
    }

    /// Returns the server's description of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Requests the current memory use. The peaks cover the time since this connection's previous request, or since it was opened.
    /// `holders` is the number of requested stacks, most bytes first. At most 100 are sent, and fewer if their texts are very long.
    ///
    /// # Errors
    /// [`SourceError::Gone`] if the program has ended. After any other error the call may be repeated: the next response includes the peaks
    /// of a late response.
    pub fn look(&mut self, holders: usize) -> Result<LiveResponse, SourceError> {
        if self.due {
            let late = self.answer()?;
            self.late = Some(later(self.late.take(), late));
        }
        self.lines.send(Question::Tick { holders })?;
        self.due = true;
        let look = self.answer()?;
        Ok(later(self.late.take(), look))
    }

    fn answer(&mut self) -> Result<LiveResponse, SourceError> {
        let line = self.lines.receive()?;
        self.due = false;
        parse(&line, &self.lines.name)
    }
}

/// A stream of lines.
#[derive(Debug)]
struct Lines {
    stream: UnixStream,
    /// The server's name, for errors.
    name: String,
    /// Received bytes that were not returned as a line yet.
    received: Vec<u8>,
}

impl Lines {
    fn send(&mut self, question: Question) -> Result<(), SourceError> {
        match self.stream.write_all(&line(&question)) {
            // The connection is closed, but a refusal with the reason may have been received before, and is read next.
            Err(e) if matches!(trouble("", &e), SourceError::Gone(_)) => Ok(()),
            sent => sent.map_err(|e| trouble(&self.name, &e)),
        }
    }

    fn receive(&mut self) -> Result<Vec<u8>, SourceError> {
        let until = Instant::now() + PATIENCE;
        let mut buffer = [0; 16 << 10];
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|&b| b == b'\n') {
                return Ok(self.received.drain(..=searched + end).collect());
            }
            searched = self.received.len();
            if searched > MOST_ANSWERED {
                // The start of the next response is unknown, so the connection is unusable.
                self.stream.shutdown(std::net::Shutdown::Both).ok();
                let why = "its response is larger than 1 MiB".to_owned();
                return Err(SourceError::Answer { source_name: self.name.clone(), why });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(trouble(&self.name, &io::ErrorKind::TimedOut.into()));
            }
            match self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut buffer)) {
                Ok(0) => return Err(SourceError::Gone(self.name.clone())),
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(trouble(&self.name, &e)),
            }
        }
    }
}

/// Parses a response line of the server `name`.
fn parse<T: DeserializeOwned>(line: &[u8], name: &str) -> Result<T, SourceError> {
    let source_name = name.to_owned();
    match serde_json::from_slice(line) {
        Ok(Refusal { gone: true, .. }) => Err(SourceError::Gone(source_name)),
        Ok(Refusal { error, .. }) => Err(SourceError::Answer { source_name, why: Shown::of(&error).into() }),
        Err(_) => serde_json::from_slice(line).map_err(|e| {
            // The parser's message quotes part of the response, which must be made printable.
            let why = Shown::of(&format!("invalid response: {e}")).into();
            SourceError::Answer { source_name, why }
        }),
    }
}

/// Returns `look` including the peaks of an earlier response that were not returned yet.
fn later(before: Option<LiveResponse>, mut look: LiveResponse) -> LiveResponse {
    if let Some(LiveResponse { tick: Tick { high, high_is_exact, .. }, .. }) = before {
        look.tick.high = high.max(look.tick.high);
        look.tick.high_is_exact &= high_is_exact;
    }
    look
}

/// Converts an error of the socket to a source error.
fn trouble(name: &str, error: &io::Error) -> SourceError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected, NotFound, TimedOut, WouldBlock,
    };
    let why = match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected | NotFound => {
            return SourceError::Gone(name.to_owned());
        }
        TimedOut | WouldBlock => format!("no response within {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    };
    SourceError::Answer { source_name: name.to_owned(), why }
}

/// The source of another program that [serves](super::LiveServer) it.
///
/// Each ticker has its own connection, and so its own peaks. They are exact if the peaks of the served source are exact. If the program has
/// ended, the error is [`SourceError::Gone`].
pub struct RemoteSource {
    path: PathBuf,
    hello: Hello,
    info: SourceInfo,
    connection: Mutex<Connection>,
}

impl RemoteSource {
    /// Connects to the socket `path`.
    ///
    /// # Errors
    /// Like [`Connection::open`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Arc<Self>, SourceError> {
        let connection = Connection::open(path.as_ref())?;
        let hello = connection.hello().clone();
        // The name appears in logs, errors and metrics. `Shown` limits its length, whatever title the program sets.
        let [title, source] = [&hello.title, &hello.source_name].map(|name| Shown::of(name));
        let name = format!("{title} (process {}): {source}", hello.pid);
        let info = SourceInfo { name, device_id: hello.device_id };
        Ok(Arc::new(Self { path: path.as_ref().to_owned(), hello, info, connection: Mutex::new(connection) }))
    }

    /// Returns the server's description of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }
}

impl MemorySource for RemoteSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        Ok(lock(&self.connection).look(0)?.tick.now)
    }

    fn is_of_this_process(&self) -> bool {
        false
    }

    fn inactive_split_bytes(&self) -> Option<u64> {
        lock(&self.connection).look(0).ok()?.inactive_split_bytes
    }

    fn releasable_bytes(&self) -> Option<u64> {
        lock(&self.connection).look(0).ok()?.releasable_bytes
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(RemoteTicker { connection: Connection::open(&self.path), path: self.path.clone() })
    }
}

struct RemoteTicker {
    connection: Result<Connection, SourceError>,
    path: PathBuf,
}

impl Ticker for RemoteTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        match &mut self.connection {
            Ok(connection) => Ok(connection.look(0)?.tick),
            Err(gone @ SourceError::Gone(_)) => Err(gone.clone()),
            Err(_) => {
                self.connection = Connection::open(&self.path);
                let tick = self.connection.as_mut().map_err(|e| e.clone())?.look(0)?.tick;
                // Peaks from before this connection are unknown.
                Ok(Tick { high_is_exact: false, ..tick })
            }
        }
    }
}

/// Connects to the sockets of this user's programs, and returns those that respond. Removes the sockets of killed programs.
///
/// # Errors
/// The folder of the sockets belongs to another user, or is open to other users.
pub fn discover() -> Result<Vec<(PathBuf, Connection)>, LiveError> {
    discover_except(&BTreeSet::new())
}

/// Like [`discover`], without the sockets in `known`, which are neither contacted nor removed.
///
/// # Errors
/// Like [`discover`].
pub fn discover_except(known: &BTreeSet<PathBuf>) -> Result<Vec<(PathBuf, Connection)>, LiveError> {
    let answer = |path: PathBuf| match Connection::open(&path) {
        Ok(connection) => Some((path, connection)),
        Err(e) => {
            if matches!(e, SourceError::Gone(_)) && socket::is_dead(&path) {
                std::fs::remove_file(&path).ok();
            }
            None
        }
    };
    Ok(folder::sockets()?.into_iter().filter(|path| !known.contains(path)).filter_map(answer).collect())
}
