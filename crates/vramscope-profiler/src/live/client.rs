//! The client of a live server: connections, the remote source, and the search for sockets.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use vramscope_report::Shown;

use super::protocol::{Hello, Look, MOST_ANSWERED, PROTOCOL, Question, Refusal, line};
use super::{LiveError, folder, socket};
use crate::source::{MemorySource, Reading, SourceError, SourceInfo, Tick, Ticker};
use vramscope_basics::lock;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A connection to a program that serves its source.
#[derive(Debug)]
pub struct Connection {
    lines: Lines,
    hello: Hello,
    /// Whether an answer did not come in time and is still to be received.
    due: bool,
    /// An answer that came late, whose highest values nobody has seen yet.
    late: Option<Look>,
}

impl Connection {
    /// Connects to the socket `path`.
    ///
    /// # Errors
    /// [`SourceError::Gone`] where nobody listens there; others where what answers is not understood.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let stream = socket::connect(path, PATIENCE).map_err(|e| trouble(&name, &e))?;
        let mut lines = Lines { stream, name, received: Vec::new() };
        lines.send(Question::Hello)?;
        let hello: Hello = parse(&lines.receive()?, &lines.name)?;
        if hello.protocol != PROTOCOL {
            let why = format!("speaks version {} of the protocol; known is {PROTOCOL}", hello.protocol);
            return Err(SourceError::Answer { source_name: lines.name, why });
        }
        lines.name = format!("{} (process {})", Shown::of(&hello.title), hello.pid);
        Ok(Self { lines, hello, due: false, late: None })
    }

    /// The server's description of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks what is in use now. The highest values are those since this connection asked last, or since it was opened. `holders`
    /// is how many stacks are wanted, most bytes first; at most 100 are sent, and fewer where their texts are very long.
    ///
    /// # Errors
    /// [`SourceError::Gone`] where the program has ended. After any other error the call may be repeated: the highest values of
    /// an answer that came too late are part of the next one.
    pub fn look(&mut self, holders: usize) -> Result<Look, SourceError> {
        if self.due {
            let late = self.answer()?;
            self.late = Some(later(self.late.take(), late));
        }
        self.lines.send(Question::Tick { holders })?;
        self.due = true;
        let look = self.answer()?;
        Ok(later(self.late.take(), look))
    }

    fn answer(&mut self) -> Result<Look, SourceError> {
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
    /// Bytes that were received and not yet returned as a line.
    received: Vec<u8>,
}

impl Lines {
    fn send(&mut self, question: Question) -> Result<(), SourceError> {
        match self.stream.write_all(&line(&question)) {
            // The connection is closed; but a refusal that says why may have been received before, and is read next.
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
                // Where the next answer begins can no longer be told, so the connection is of no use.
                self.stream.shutdown(std::net::Shutdown::Both).ok();
                let why = "its answer is larger than 1 MiB".to_owned();
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

/// Parses a line that the server `name` answered.
fn parse<T: DeserializeOwned>(line: &[u8], name: &str) -> Result<T, SourceError> {
    let source_name = name.to_owned();
    match serde_json::from_slice(line) {
        Ok(Refusal { gone: true, .. }) => Err(SourceError::Gone(source_name)),
        Ok(Refusal { error, .. }) => Err(SourceError::Answer { source_name, why: Shown::of(&error).into() }),
        Err(_) => serde_json::from_slice(line).map_err(|e| {
            // The parser's message repeats part of the answer, which must be made fit to print.
            let why = Shown::of(&format!("its answer makes no sense: {e}")).into();
            SourceError::Answer { source_name, why }
        }),
    }
}

/// `look` with the highest values of an earlier answer that nobody has seen.
fn later(before: Option<Look>, mut look: Look) -> Look {
    if let Some(Look { tick: Tick { high, high_is_exact, .. }, .. }) = before {
        look.tick.high = high.max(look.tick.high);
        look.tick.high_is_exact &= high_is_exact;
    }
    look
}

/// The source error for an error of the socket.
fn trouble(name: &str, error: &io::Error) -> SourceError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected, NotFound, TimedOut, WouldBlock,
    };
    let why = match error.kind() {
        BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected | NotFound => {
            return SourceError::Gone(name.to_owned());
        }
        TimedOut | WouldBlock => format!("gives no answer within {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    };
    SourceError::Answer { source_name: name.to_owned(), why }
}

/// The source of another program, which [serves](super::LiveServer) it.
///
/// Each ticker has a connection of its own, and so highest values of its own; they are exact where those of the served source
/// are. Where the program has ended, the error is [`SourceError::Gone`].
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
    /// As [`Connection::open`].
    pub fn connect(path: impl AsRef<Path>) -> Result<Arc<Self>, SourceError> {
        let connection = Connection::open(path.as_ref())?;
        let hello = connection.hello().clone();
        // The name goes into logs, errors and metrics. `Shown` bounds its length, whatever the program calls itself.
        let [title, source] = [&hello.title, &hello.source_name].map(|name| Shown::of(name));
        let name = format!("{title} (process {}): {source}", hello.pid);
        let info = SourceInfo { name, device_id: hello.device_id };
        Ok(Arc::new(Self { path: path.as_ref().to_owned(), hello, info, connection: Mutex::new(connection) }))
    }

    /// The server's description of itself.
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
                // What happened before this connection was opened, nobody saw.
                Ok(Tick { high_is_exact: false, ..tick })
            }
        }
    }
}

/// The sockets of this user's programs that answer, each with a connection to it. Sockets left behind by programs that were
/// killed are removed.
///
/// # Errors
/// Where the folder of the sockets belongs to another user, or is open to others.
pub fn discover() -> Result<Vec<(PathBuf, Connection)>, LiveError> {
    discover_except(&BTreeSet::new())
}

/// As [`discover`], without the sockets in `known`, which are neither asked nor removed.
///
/// # Errors
/// As [`discover`].
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
