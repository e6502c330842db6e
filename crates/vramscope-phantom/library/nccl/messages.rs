//! Messages between ranks: host bytes, transferred through files in the run's folder.
//!
//! All ranks number the operations of a communicator alike, so the sending rank, the receiver and the operation number identify
//! a message. An operation without a message still counts, so no rank waits for a missing message. Ranks wait only when the
//! program reads a message, or synchronizes after an operation that may be a barrier.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine::{is_running, machine, map_words, no_follow, say, state_path};
use crate::signals;

/// PyTorch's default timeout for NCCL collectives.
const PATIENCE: Duration = Duration::from_mins(10);

/// The shortest and the longest pause between two checks.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);

/// The receiver of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Everyone,
    Rank(usize),
}

/// A rank's view of a communicator.
pub(super) struct Mailbox {
    /// The communicator's name, unique and the same on all ranks.
    pub(super) name: String,
    pub(super) ranks: usize,
    pub(super) rank: usize,
    /// Memory shared by the ranks: each rank's process id, its number of messages to everyone, and its number of messages to
    /// each other rank. `None` if sharing fails or if the other ranks are pretended.
    shared: Option<(PathBuf, &'static [AtomicU64])>,
    /// The number of operations of all ranks so far.
    operations: AtomicU64,
    /// The number of messages requested from each rank.
    received: Vec<AtomicU64>,
}

impl Mailbox {
    pub(super) fn new(name: String, ranks: usize, rank: usize) -> Self {
        let shared = if machine().state.is_pretended() { None } else { Self::share(&name, ranks) };
        if let Some((_, words)) = shared {
            words[rank].store(std::process::id().into(), Ordering::Release);
        }
        let received = (0..ranks).map(|_| AtomicU64::new(0)).collect();
        Self { name, ranks, rank, shared, operations: AtomicU64::new(0), received }
    }

    fn share(name: &str, ranks: usize) -> Option<(PathBuf, &'static [AtomicU64])> {
        let folder = Path::new(&state_path()?).parent()?.join("nccl");
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            // Another rank created it. Links are not accepted.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::symlink_metadata(&folder).ok().filter(fs::Metadata::is_dir)?;
            }
            made => made.ok()?,
        }
        let path = folder.join(name);
        let words = 2 * ranks + ranks * ranks;
        let file = no_follow().read(true).write(true).create(true).truncate(false).open(&path).ok()?;
        file.set_len(8 * words as u64).ok()?;
        Some((path, map_words(&file, words)?))
    }

    /// Whether the other ranks are pretended: each repeats this rank's messages.
    pub(super) fn is_pretended(&self) -> bool {
        machine().state.is_pretended()
    }

    /// The number of the next operation of all ranks.
    pub(super) fn next(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed)
    }

    fn posted(&self, rank: usize, to: For) -> Option<&'static AtomicU64> {
        let words = self.shared.as_ref()?.1;
        Some(match to {
            For::Everyone => &words[self.ranks + rank],
            For::Rank(other) => &words[2 * self.ranks + rank * self.ranks + other],
        })
    }

    fn path(&self, rank: usize, to: For, number: u64) -> Option<PathBuf> {
        let mut path = self.shared.as_ref()?.0.clone().into_os_string();
        path.push(match to {
            For::Everyone => format!(".{rank}.{number}"),
            For::Rank(other) => format!(".{rank}-{other}.{number}"),
        });
        Some(path.into())
    }

    /// Posts this rank's message in operation `number` of all ranks. Most operations have none.
    pub(super) fn post(&self, number: u64, message: Option<&[u8]>) {
        self.post_to(For::Everyone, number, message);
    }

    /// Posts a message for one other rank.
    pub(super) fn send(&self, to: usize, message: Option<&[u8]>) {
        let number = self.posted(self.rank, For::Rank(to)).map_or(0, |posted| posted.load(Ordering::Relaxed));
        self.post_to(For::Rank(to), number, message);
    }

    fn post_to(&self, to: For, number: u64, message: Option<&[u8]>) {
        let (Some(path), Some(posted)) = (self.path(self.rank, to, number), self.posted(self.rank, to))
        else {
            return;
        };
        if let Some(message) = message
            && let Err(why) = no_follow()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .and_then(|mut file| file.write_all(message))
        {
            say(&format!("{}: {why}; the other ranks read zeros", path.display()));
        }
        posted.fetch_max(number + 1, Ordering::Release);
    }

    /// A rank's message in operation `number` of all ranks. Waits until the rank reaches it.
    pub(super) fn read(&self, rank: usize, number: u64) -> Option<Vec<u8>> {
        self.read_from(rank, For::Everyone, number)
    }

    /// The number of the next message from another rank to this one.
    pub(super) fn next_from(&self, rank: usize) -> u64 {
        self.received[rank].fetch_add(1, Ordering::Relaxed)
    }

    /// A message from another rank to this one. Waits for it.
    pub(super) fn receive(&self, rank: usize, number: u64) -> Option<Vec<u8>> {
        self.read_from(rank, For::Rank(self.rank), number)
    }

    fn read_from(&self, rank: usize, to: For, number: u64) -> Option<Vec<u8>> {
        if !self.wait(rank, to, number) {
            return None;
        }
        let mut message = Vec::new();
        let mut file = no_follow().read(true).open(self.path(rank, to, number)?).ok()?;
        file.read_to_end(&mut message).ok()?;
        Some(message)
    }

    /// Waits until all ranks reached an operation or cannot reach it.
    pub(super) fn wait_for_all(&self, number: u64) {
        for rank in 0..self.ranks {
            self.wait(rank, For::Everyone, number);
        }
    }

    /// Waits until a rank posted a message. False if it does not arrive.
    fn wait(&self, rank: usize, to: For, number: u64) -> bool {
        let Some(posted) = self.posted(rank, to) else { return false };
        let process = self.shared.as_ref().map(|(_, words)| &words[rank]);
        let has_come = || posted.load(Ordering::Acquire) > number;
        let (began, mut pause) = (Instant::now(), SHORTEST);
        while !has_come() {
            let id = process.map_or(0, |process| process.load(Ordering::Acquire));
            // A process that ended may have posted just before.
            if id != 0 && pause == LONGEST && !is_running(id) {
                return has_come();
            }
            if signals::asked_to_end() {
                return false;
            }
            if began.elapsed() > PATIENCE {
                say(&format!(
                    "rank {rank} did not reach a collective within 10 minutes; its data reads as zeros"
                ));
                return false;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
        }
        true
    }

    /// Sends `own` to all ranks and waits for their messages. Returns the operation's number and the messages by rank: empty
    /// for missing ranks, and `own` for pretended ranks.
    pub(super) fn tell_all(&self, own: &[u8]) -> (u64, Vec<Vec<u8>>) {
        let number = self.next();
        if self.is_pretended() {
            return (number, vec![own.to_vec(); self.ranks]);
        }
        self.post(number, Some(own));
        (number, (0..self.ranks).map(|rank| self.read(rank, number).unwrap_or_default()).collect())
    }
}
