//! What ranks tell one another: bytes of the host, through files in the run's folder.
//!
//! Every rank counts the operations of a communicator alike, so that a rank, a number and the number of an operation name a
//! message. Who posts nothing still counts, and so nobody waits for what does not come. Nobody waits before a program reads
//! what it was told, or synchronizes after what barriers are made of.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine::{is_running, machine, map_words, no_follow, say, state_path};
use crate::signals;

/// So long PyTorch waits for a collective of NCCL, too, unless a program says otherwise.
const PATIENCE: Duration = Duration::from_mins(10);

/// Between two looks.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(5);

/// Whom a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Everyone,
    Rank(usize),
}

/// A rank's view of a communicator.
pub(super) struct Mailbox {
    /// What all its ranks call it, and nobody else.
    pub(super) name: String,
    pub(super) ranks: usize,
    pub(super) rank: usize,
    /// Shared by the ranks: the process of each, how many messages each posted for everyone, and for each other one. `None`
    /// where nothing can be shared, and where the other ranks are pretended.
    shared: Option<(PathBuf, &'static [AtomicU64])>,
    /// Operations of all ranks until now.
    operations: AtomicU64,
    /// Messages from each rank to this one that were asked for.
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
            // Another rank has made it. Links are no folder of this run's.
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

    /// The other ranks are pretended: each would say what this one says.
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

    /// Posts what this rank says in operation `number` of all ranks; often nothing.
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
            say(&format!("{}: {why}: the other ranks read zeros", path.display()));
        }
        posted.fetch_max(number + 1, Ordering::Release);
    }

    /// What a rank says in operation `number` of all ranks, once it has come to it.
    pub(super) fn read(&self, rank: usize, number: u64) -> Option<Vec<u8>> {
        self.read_from(rank, For::Everyone, number)
    }

    /// The number of the next message from another rank to this one.
    pub(super) fn next_from(&self, rank: usize) -> u64 {
        self.received[rank].fetch_add(1, Ordering::Relaxed)
    }

    /// What another rank sent to this one.
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

    /// Whether all ranks have come to an operation.
    pub(super) fn have_all_come(&self, number: u64) -> bool {
        let has_come = |posted: &AtomicU64| posted.load(Ordering::Acquire) > number;
        (0..self.ranks).all(|rank| self.posted(rank, For::Everyone).is_none_or(has_come))
    }

    /// Waits until all ranks have come to an operation, or will not.
    pub(super) fn wait_for_all(&self, number: u64) {
        for rank in 0..self.ranks {
            self.wait(rank, For::Everyone, number);
        }
    }

    /// Waits until a rank has posted a message. False where it does not come.
    fn wait(&self, rank: usize, to: For, number: u64) -> bool {
        let Some(posted) = self.posted(rank, to) else { return false };
        let process = self.shared.as_ref().map(|(_, words)| &words[rank]);
        let has_come = || posted.load(Ordering::Acquire) > number;
        let (began, mut pause) = (Instant::now(), SHORTEST);
        while !has_come() {
            let id = process.map_or(0, |process| process.load(Ordering::Acquire));
            // A process that is gone may have posted just before.
            if id != 0 && pause == LONGEST && !is_running(id) {
                return has_come();
            }
            if signals::asked_to_end() {
                return false;
            }
            if began.elapsed() > PATIENCE {
                say(&format!("rank {rank} did not come to a collective in 10 minutes: it reads as zeros"));
                return false;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST);
        }
        true
    }

    /// Tells all ranks something and waits for what they say; the number of this operation, and the messages by rank.
    /// Ranks that do not come say nothing; pretended ones say the same.
    pub(super) fn tell_all(&self, own: &[u8]) -> (u64, Vec<Vec<u8>>) {
        let number = self.next();
        if self.is_pretended() {
            return (number, vec![own.to_vec(); self.ranks]);
        }
        self.post(number, Some(own));
        (number, (0..self.ranks).map(|rank| self.read(rank, number).unwrap_or_default()).collect())
    }
}
