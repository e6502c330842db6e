//! Serves a program's source to other processes on a local socket. A program serves only if it starts a [`LiveServer`].
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
//! Only processes of the same user get a response: only that user may enter the sockets' folder and open a socket. `docs/live.md` describes
//! the protocol.

mod client;
mod folder;
mod names;
mod protocol;
mod server;
mod socket;

pub use client::{Connection, RemoteSource, discover, discover_except};
pub use folder::{directory, sockets};
pub use protocol::{Hello, LiveResponse, PROTOCOL};
pub use server::{LiveOptions, LiveServer};

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a source is not served, or sockets are not found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The folder belongs to another user, who could respond in a program's place.
    #[error("{}: belongs to user {owner}; sockets must be in a folder that you own", path.display())]
    OthersFolder {
        /// The folder.
        path: PathBuf,
        /// The owner's user id.
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
        /// The folder's permission bits.
        mode: u32,
    },
    /// The path names a file or a link.
    #[error("{}: is not a folder; programs create their sockets there", .0.display())]
    NotAFolder(PathBuf),
    /// Another program serves on that path, or the path names something other than a socket.
    #[error("{}: already exists; choose another path, or remove it", .0.display())]
    Taken(PathBuf),
    /// The system's error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system cannot start a thread.
    #[error("cannot start the server's thread: {0}")]
    Thread(#[source] io::Error),
}

impl LiveError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }
}
