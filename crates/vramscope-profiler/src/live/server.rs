//! The side of the program that is looked at.

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

use super::names::Names;
use super::protocol::{
    Hello, Look, MOST_ANSWERED, MOST_ASKED, MOST_HOLDERS, PROTOCOL, Question, Refusal, line,
};
use super::{LiveError, folder, socket};
use crate::holders::LiveStacks;
use crate::snapshot::now_us;
use crate::source::{MemorySource, SourceError, Ticker};

/// Connections at a time.
const MOST_CONNECTIONS: usize = 16;
/// A connection that has asked nothing for so long leaves for a new one where all places are taken; one that has never asked
/// leaves before it.
const IDLE: Duration = Duration::from_secs(60);
/// How long a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long no connection is accepted where the system has none to give.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the end of the thread is waited for.
const FAREWELL: Duration = Duration::from_millis(100);
/// Sockets of one process.
const MOST_SOCKETS: u32 = 1000;
/// Characters of a title.
const MOST_TITLE: usize = 200;

/// What a server does beside the least.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LiveOptions {
    /// The socket; `PID.sock` in [`directory`](super::directory) where it is `None`, or `PID-2.sock` and so on
    /// where that is taken.
    pub path: Option<PathBuf>,
    /// Collect who holds what is live, where the source sees allocations. A malloc costs about a microsecond more.
    pub collect_holders: bool,
    /// What the program calls itself; its file's name where it is `None`.
    pub title: Option<String>,
}

/// Serves a source on a local socket until it is dropped.
///
/// One thread answers all connections, another looks up what stacks mean. Neither keeps the program waiting, except
/// as any look at its source does.
#[must_use = "the server ends when this is dropped"]
pub struct LiveServer {
    path: PathBuf,
    /// The file that was made, and by which process: a copy of this in a forked one is not the server.
    made: (u64, u64, u32),
    /// Shut down to stop the thread.
    running: UnixStream,
    ended: Receiver<()>,
}

impl LiveServer {
    /// Begins to serve `source`.
    ///
    /// # Errors
    /// Where the socket cannot be made: [`LiveError`] says why and what to do.
    pub fn start(source: Arc<dyn MemorySource>, options: LiveOptions) -> Result<Self, LiveError> {
        let (listener, path) = match options.path {
            Some(path) => (socket::listen(&path)?, path),
            None => listen_anywhere()?,
        };
        let serve = || {
            let metadata = fs::symlink_metadata(&path).map_err(LiveError::io(&path))?;
            let (running, stop) = UnixStream::pair().map_err(LiveError::io(&path))?;
            let live = if options.collect_holders { LiveStacks::of(source.as_ref()) } else { None };
            let names = live.map(Names::start).transpose().map_err(LiveError::Thread)?;
            let info = source.info();
            let hello = Hello {
                protocol: PROTOCOL,
                pid: process::id(),
                title: title(options.title),
                source_name: info.name.clone(),
                device_id: info.device_id,
                collects_holders: names.is_some(),
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

    /// Where the socket is.
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
        // An answer that is being made may need what this thread holds, so its end is not waited for for ever.
        self.ended.recv_timeout(FAREWELL).ok();
    }
}

/// A socket in the user's folder.
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

/// What the program is called.
fn title(given: Option<String>) -> String {
    let of_program = || Some(std::env::current_exe().ok()?.file_name()?.to_string_lossy().into_owned());
    let title = given.or_else(of_program).unwrap_or_else(|| "a program".to_owned());
    title.chars().take(MOST_TITLE).collect()
}

/// What the thread has.
struct Server {
    answers: Answers,
    listener: UnixListener,
    /// Readable once the server is dropped.
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
            // A little later, so that it has passed then.
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

    /// Takes one connection on.
    fn accept(&self, clients: &mut Vec<Client>) -> io::Result<()> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let mut stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            // Whoever called has gone.
            Err(e) if matches!(e.kind(), ConnectionAborted | Interrupted | WouldBlock) => return Ok(()),
            Err(e) => return Err(e),
        };
        stream.set_nonblocking(true)?;
        if clients.len() >= MOST_CONNECTIONS {
            let now = Instant::now();
            let is_idle =
                |c: &Client| c.heard.is_none_or(|heard| now.saturating_duration_since(heard) > IDLE);
            // Of those that have never asked the first that came: their times are the earliest of all.
            let idle = clients.iter().enumerate().filter(|(_, c)| is_idle(c)).min_by_key(|(_, c)| c.heard);
            if let Some((longest, _)) = idle {
                clients.remove(longest);
            }
        }
        if clients.len() < MOST_CONNECTIONS {
            let ticker = catch_unwind(AssertUnwindSafe(|| Arc::clone(&self.answers.source).ticker()));
            // Whoever called is let go where the source panics.
            clients.extend(ticker.ok().map(|ticker| Client::new(stream, ticker)));
        } else {
            let refusal = Refusal::new(format_args!("{MOST_CONNECTIONS} connections are open; close one"));
            // A new connection has room for it.
            stream.write_all(&line(&refusal)).ok();
        }
        Ok(())
    }
}

/// Knows the answers.
struct Answers {
    hello: Hello,
    source: Arc<dyn MemorySource>,
    names: Option<Names>,
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
                r#"not understood: {e}; ask {{"ask":"hello"}} or {{"ask":"tick","holders":10}}"#
            ))),
        }
    }

    fn look(&self, ticker: &mut dyn Ticker, holders: usize) -> Result<Vec<u8>, SourceError> {
        // The next look at a source that panicked may be better; without this thread there would be none.
        let looked = catch_unwind(AssertUnwindSafe(|| {
            Ok((ticker.tick()?, self.source.inactive_split_bytes(), self.source.releasable_bytes()))
        }));
        let panicked = |_| Err(SourceError::Panicked(self.hello.source_name.clone()));
        let (tick, inactive_split_bytes, releasable_bytes) = looked.unwrap_or_else(panicked)?;
        let mut look = Look {
            time_us: now_us(),
            tick,
            inactive_split_bytes,
            releasable_bytes,
            holders: self.names.as_ref().map(|names| names.holders(holders.min(MOST_HOLDERS))),
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

/// A connection. Nothing is read before the answer is sent.
struct Client {
    stream: UnixStream,
    ticker: Box<dyn Ticker>,
    /// Read, and not answered yet.
    asked: Vec<u8>,
    /// Not sent yet.
    answer: Vec<u8>,
    /// When the answer must have been sent.
    until: Option<Instant>,
    /// Nothing more is read.
    closing: bool,
    /// When it last asked something that could be answered.
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

    /// Sends, answers and reads, as far as nothing has to be waited for.
    ///
    /// # Errors
    /// Where the connection is over.
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
                    // Once, so that others have their turn.
                    if has_read || !self.receive()? {
                        return Ok(());
                    }
                    has_read = true;
                }
                _ => {
                    self.closing = true;
                    let refusal = Refusal::new(format_args!("a question has at most {MOST_ASKED} bytes"));
                    self.answer(line(&refusal));
                }
            }
        }
    }

    fn answer(&mut self, line: Vec<u8>) {
        self.answer = line;
        self.until = Some(Instant::now() + PATIENCE);
    }

    /// Whether all is sent.
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

    /// Whether there was something to read.
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
