//! Serves a program's source to other processes on a local socket. No program does so unless it starts a [`LiveServer`].
//!
//! ```
//! use vramscope_allocator::{MemoryPool, Policy};
//! use vramscope_profiler::live::{LiveOptions, LiveServer, RemoteSource};
//! use vramscope_profiler::{MemorySource, PoolSource};
//!
//! let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
//! # let folder = tempfile::tempdir()?;
//! # let path = Some(folder.path().join("live.sock"));
//! let options = LiveOptions { path, ..LiveOptions::default() };
//! let server = LiveServer::start(PoolSource::new(&pool, 0)?, options)?;
//!
//! // In another process.
//! let source = RemoteSource::connect(server.path())?;
//! let mut ticker = source.ticker();
//! drop(pool.malloc(4096)?);
//! let tick = ticker.tick()?;
//! assert_eq!((tick.now.allocated, tick.high.allocated), (Some(0), Some(4096)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Only processes of the same user are answered: the folder of the sockets and each socket are theirs alone. The
//! bytes are described in `docs/live.md`.

mod client;
mod folder;
mod names;
mod protocol;
mod server;
mod socket;

pub use client::{Connection, RemoteSource, discover, discover_except};
pub use folder::{directory, sockets};
pub use protocol::{Hello, Holder, Look, PROTOCOL};
pub use server::{LiveOptions, LiveServer};

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a source is not served, or sockets are not looked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The folder belongs to another user, who could answer in a program's place.
    #[error("{}: belongs to user {owner}; sockets are safe in a folder of your own alone", path.display())]
    OthersFolder {
        /// The folder.
        path: PathBuf,
        /// The number of the user.
        owner: u32,
    },
    /// Other users may enter the folder, and could reach the sockets.
    #[error(
        "{}: is open to other users (mode {mode:o}); run `chmod 700 {}`",
        path.display(),
        path.display()
    )]
    OpenFolder {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The path is that of a file or a link.
    #[error("{}: is not a folder; sockets of programs go there", .0.display())]
    NotAFolder(PathBuf),
    /// Another program serves on that path, or something that is no socket lies there.
    #[error("{}: is taken; name another path, or remove what lies there", .0.display())]
    Taken(PathBuf),
    /// The system's own error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The system gave no thread.
    #[error("no thread to serve on: {0}")]
    Thread(#[source] io::Error),
}

impl LiveError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}
