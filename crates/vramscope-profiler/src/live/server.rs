//! The live server: a program's source on a local socket.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::names::StackNames;
use super::protocol::{
    Hello, LiveResponse, MOST_ANSWERED, MOST_ASKED, MOST_HOLDERS, MOST_LIBRARIES, PROTOCOL, Question,
    Refusal, line,
};
use super::{LiveError, folder, socket};
use crate::holders::LiveStacks;
use crate::snapshot::now_us;
use crate::source::{MemorySource, SourceError, Ticker};

/// Maximum number of connections at a time.
const MOST_CONNECTIONS: usize = 16;
/// When all connections are in use, a new connection replaces one without a request for this long. A connection that never sent a request
/// is replaced first.
const IDLE: Duration = Duration::from_secs(60);
/// Time limit for a client to read a response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay before the next connection is accepted after the system refused one.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum time that dropping the server waits for its thread to end.
const FAREWELL: Duration = Duration::from_millis(100);
/// Maximum number of sockets of one process in the user's folder.
const MOST_SOCKETS: u32 = 1000;
/// Maximum number of characters of a title.
const MOST_TITLE: usize = 200;

/// The socket of a server, and the served data.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LiveOptions {
    /// The path of the socket. `None` is `PID.sock` in [`directory`](super::directory), or `PID-2.sock` and so on if that exists.
    pub path: Option<PathBuf>,
    /// Reports the stacks of live blocks. They come from the [source](MemorySource::live_holders), or, if the source only reports
    /// allocations, are counted from now on. A malloc then takes about a microsecond longer.
    pub collect_holders: bool,
    /// The program's title; `None` is the name of its file.
    pub title: Option<String>,
    /// The process of the source; `None` is this process.
    pub process: Option<u32>,
}

/// Serves a source on a local socket until it is dropped.
///
/// One thread responds to all connections, and another resolves the symbols of stacks. The program waits for neither thread. It may wait
/// for a lock while its source is read.
#[must_use = "the server ends when this is dropped"]
pub struct LiveServer {
    path: PathBuf,
    /// The device and inode of the socket, and the id of the process that created it. In a forked child, this value is a copy and not the
    /// server.
    made: (u64, u64, u32),
    /// Shut down to stop the thread.
    running: UnixStream,
    ended: Receiver<()>,
}

impl LiveServer {
    /// Starts serving `source`.
    ///
    /// # Errors
    /// The socket cannot be created: [`LiveError`] has the reason and the remedy.
    pub fn start(source: Arc<dyn MemorySource>, options: LiveOptions) -> Result<Self, LiveError> {
        let (listener, path) = match options.path {
            Some(path) => (socket::listen(&path)?, path),
            None => listen_anywhere()?,
        };
        let serve = || {
            let metadata = fs::symlink_metadata(&path).map_err(LiveError::io(&path))?;
            let (running, stop) = UnixStream::pair().map_err(LiveError::io(&path))?;
            let live = if options.collect_holders { LiveStacks::of(source.as_ref()) } else { None };
            let names = live.map(StackNames::start).transpose().map_err(LiveError::Thread)?;
            let info = source.info();
            let knows_holders = options.collect_holders && source.live_holders(0).is_some();
            let hello = Hello {
                protocol: PROTOCOL,
                pid: options.process.unwrap_or_else(process::id),
                title: title(options.title),
                source_name: info.name.clone(),
                device_id: info.device_id,
                collects_holders: knows_holders || names.is_some(),
            };
            let (end, ended) = channel();
            let server = Server { answers: Answers { hello, source, names }, listener, stop };
            std::thread::Builder::new()
                .name("vramscope-live".to_owned())
                .spawn(move || {
                    server.run();
                    drop(end);
                })
                .map_err(LiveError::Thread)?;
            let made = (metadata.dev(), metadata.ino(), process::id());
            Ok((made, running, ended))
        };
        match serve() {
            Ok((made, running, ended)) => Ok(Self { path, made, running, ended }),
            Err(e) => {
                fs::remove_file(&path).ok();
                Err(e)
            }
        }
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        let (dev, ino, pid) = self.made;
        if pid != process::id() {
            return;
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == (dev, ino)) {
            fs::remove_file(&self.path).ok();
        }
        self.running.shutdown(std::net::Shutdown::Both).ok();
        // The server's thread may be preparing a response, and may need a lock that this thread holds, so the wait is limited.
        self.ended.recv_timeout(FAREWELL).ok();
    }
}

/// Listens on a socket in the user's folder.
fn listen_anywhere() -> Result<(UnixListener, PathBuf), LiveError> {
    let (folder, pid) = (folder::directory()?, process::id());
    let first = folder.join(format!("{pid}.sock"));
    let others = (2..=MOST_SOCKETS).map(|n| folder.join(format!("{pid}-{n}.sock")));
    for path in std::iter::once(first.clone()).chain(others) {
        match socket::listen(&path) {
            Err(LiveError::Taken(_)) => {}
            listening => return Ok((listening?, path)),
        }
    }
    Err(LiveError::Taken(first))
}

/// Returns the program's title, or else the name of its file, cut to [`MOST_TITLE`] characters.
fn title(given: Option<String>) -> String {
    let of_program = || Some(std::env::current_exe().ok()?.file_name()?.to_string_lossy().into_owned());
    let title = given.or_else(of_program).unwrap_or_else(|| "a program".to_owned());
    title.chars().take(MOST_TITLE).collect()
}

/// The state of the server's thread.
struct Server {
    answers: Answers,
    listener: UnixListener,
    /// Readable after the server is dropped.
    stop: UnixStream,
}

impl Server {
    fn run(self) {
        let mut clients: Vec<Client> = Vec::new();
        let mut accepts_from = None;
        loop {
            let now = Instant::now();
            accepts_from = accepts_from.filter(|&from| from > now);
            let deadlines = clients.iter().filter_map(|c| c.until).chain(accepts_from);
            // Add a millisecond, so that the deadline has passed when `poll` returns.
            let until = deadlines.min().map(|d| d.saturating_duration_since(now) + Duration::from_millis(1));
            let timeout = until.and_then(|until| Timespec::try_from(until).ok());
            let accepting = if accepts_from.is_none() { PollFlags::IN } else { PollFlags::empty() };
            let mut waiting =
                vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.listener, accepting)];
            waiting.extend(clients.iter().map(|c| PollFd::new(&c.stream, c.waits_for())));
            match poll(&mut waiting, timeout.as_ref()) {
                Err(Errno::INTR) => continue,
                polled if polled.is_err() => return,
                _ => {}
            }
            let mut ready = waiting.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
            let (stopped, called) = (ready.next() == Some(true), ready.next() == Some(true));
            if stopped {
                return;
            }
            clients.retain_mut(|c| ready.next() != Some(true) || c.advance(&self.answers).is_ok());
            let now = Instant::now();
            clients.retain(|c| c.until.is_none_or(|until| until > now));
            if called && self.accept(&mut clients).is_err() {
                accepts_from = Some(now + PAUSE);
            }
        }
    }

    /// Accepts one connection.
    fn accept(&self, clients: &mut Vec<Client>) -> io::Result<()> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let mut stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // The client has already disconnected.
            Err(e) if matches!(e.kind(), ConnectionAborted | Interrupted | WouldBlock) => return Ok(()),
            Err(e) => return Err(e),
        };
        stream.set_nonblocking(true)?;
        if clients.len() >= MOST_CONNECTIONS {
            let now = Instant::now();
            let is_idle =
                |c: &Client| c.heard.is_none_or(|heard| now.saturating_duration_since(heard) > IDLE);
            // A client that never sent a request has no time, which sorts first; among those, the first is taken.
            let idle = clients.iter().enumerate().filter(|(_, c)| is_idle(c)).min_by_key(|(_, c)| c.heard);
            if let Some((longest, _)) = idle {
                clients.remove(longest);
            }
        }
        if clients.len() < MOST_CONNECTIONS {
            let ticker = catch_unwind(AssertUnwindSafe(|| Arc::clone(&self.answers.source).ticker()));
            // If the source panics, the connection is closed.
            clients.extend(ticker.ok().map(|ticker| Client::new(stream, ticker)));
        } else {
            let refusal = Refusal::new(format_args!("{MOST_CONNECTIONS} connections are open; close one"));
            // The buffer of a new connection is empty, so this does not block.
            stream.write_all(&line(&refusal)).ok();
        }
        Ok(())
    }
}

/// The sources of the responses.
struct Answers {
    hello: Hello,
    source: Arc<dyn MemorySource>,
    names: Option<StackNames>,
}

impl Answers {
    fn to(&self, asked: serde_json::Result<Question>, ticker: &mut dyn Ticker) -> Vec<u8> {
        match asked {
            Ok(Question::Hello) => line(&self.hello),
            Ok(Question::Tick { holders }) => self.look(ticker, holders).unwrap_or_else(|e| {
                let gone = matches!(e, SourceError::Gone(_));
                line(&Refusal { gone, ..Refusal::new(e) })
            }),
            Err(e) => line(&Refusal::new(format_args!(
                r#"invalid request: {e}; send {{"ask":"hello"}} or {{"ask":"tick","holders":10}}"#
            ))),
        }
    }

    fn look(&self, ticker: &mut dyn Ticker, holders: usize) -> Result<Vec<u8>, SourceError> {
        // A panic of the source must not end this thread: the next response may succeed.
        let top = holders.min(MOST_HOLDERS);
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let tick = ticker.tick()?;
            let own = match &self.names {
                None if self.hello.collects_holders => self.source.live_holders(top),
                _ => None,
            };
            let source = &self.source;
            Ok((tick, source.inactive_split_bytes(), source.releasable_bytes(), own, source.layers()))
        }));
        let panicked = |_| Err(SourceError::Panicked(self.hello.source_name.clone()));
        let (tick, inactive_split_bytes, releasable_bytes, own, mut layers) =
            looked.unwrap_or_else(panicked)?;
        let own = own.map(|own| own.into_iter().take(top).collect());
        if let Some(layers) = &mut layers {
            layers.libraries.truncate(MOST_LIBRARIES);
        }
        let mut look = LiveResponse {
            time_us: now_us(),
            tick,
            inactive_split_bytes,
            releasable_bytes,
            holders: self.names.as_ref().map(|names| names.holders(top)).or(own),
            layers,
        };
        loop {
            let line = line(&look);
            match &mut look.holders {
                Some(holders) if line.len() > MOST_ANSWERED && !holders.is_empty() => {
                    holders.truncate(holders.len() / 2);
                }
                _ => return Ok(line),
            }
        }
    }
}

/// A connection to a client. The next request is read only after the previous response was sent.
struct Client {
    stream: UnixStream,
    ticker: Box<dyn Ticker>,
    /// Received bytes without a response yet.
    asked: Vec<u8>,
    /// Bytes of the response that are not sent yet.
    answer: Vec<u8>,
    /// The deadline for sending the response; `None` if there is nothing to send.
    until: Option<Instant>,
    /// Whether to close the connection after the response, so that no more is read.
    closing: bool,
    /// When it last sent a valid request.
    heard: Option<Instant>,
}

impl Client {
    fn new(stream: UnixStream, ticker: Box<dyn Ticker>) -> Self {
        Self {
            stream,
            ticker,
            asked: Vec::new(),
            answer: Vec::new(),
            until: None,
            closing: false,
            heard: None,
        }
    }

    fn waits_for(&self) -> PollFlags {
        if self.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Sends, responds and reads as far as possible without waiting.
    ///
    /// # Errors
    /// The connection has ended.
    fn advance(&mut self, answers: &Answers) -> io::Result<()> {
        let mut has_read = false;
        loop {
            if !self.send()? {
                return Ok(());
            }
            if self.closing {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match self.asked.iter().position(|&b| b == b'\n') {
                Some(end) if end <= MOST_ASKED => {
                    let asked: Vec<u8> = self.asked.drain(..=end).collect();
                    let question = serde_json::from_slice(&asked);
                    if question.is_ok() {
                        self.heard = Some(Instant::now());
                    }
                    let answer = answers.to(question, self.ticker.as_mut());
                    self.answer(answer);
                }
                None if self.asked.len() <= MOST_ASKED => {
                    // Read only once, so that other clients get their turn.
                    if has_read || !self.receive()? {
                        return Ok(());
                    }
                    has_read = true;
                }
                _ => {
                    self.closing = true;
                    let refusal = Refusal::new(format_args!("a request has at most {MOST_ASKED} bytes"));
                    self.answer(line(&refusal));
                }
            }
        }
    }

    fn answer(&mut self, line: Vec<u8>) {
        self.answer = line;
        self.until = Some(Instant::now() + PATIENCE);
    }

    /// Sends as much as the client accepts without waiting. Returns whether everything is sent.
    fn send(&mut self) -> io::Result<bool> {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.answer.drain(..sent)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        self.until = None;
        Ok(true)
    }

    /// Reads once without waiting. Returns whether there was something to read.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MOST_ASKED];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.asked.extend_from_slice(&buffer[..n]);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
