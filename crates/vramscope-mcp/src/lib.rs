//! Serves recordings to assistants over the Model Context Protocol.
//!
//! ```text
//!   server.rs: requests, waiting and cancellation         tools.rs, prompt.rs: descriptions for assistants
//!      |                    |
//!   transport.rs         questions.rs: one question for each tool, answered with the command's JSON
//!   (lines, bounded)        |            |                 |               |
//!                     arguments.rs   recordings.rs     folders.rs      bounded.rs
//!                                    (a few open)      (access)        (cuts, and reports it)
//! ```
//!
//! The SDK (`rmcp`) implements the protocol. Each question runs on its own thread. Answers are `vramscope-report`'s JSON, written once and
//! read back only as far as it is sent, so omitted parts take no memory. Schemas of arguments come from their types; those of answers name
//! the keys that are always present.
//!
//! # Modules
//! - `server`: the protocol. `transport`: its messages. `work`: progress and cancellation of a question.
//! - `tools`, `prompt`, `advice`: what assistants are told.
//! - `questions`: the answers. `arguments`: what they are asked with. `bounded`: their size.
//! - `recordings`: the open recordings. `folders`: where they may be.

mod advice;
mod arguments;
mod bounded;
mod folders;
mod prompt;
mod questions;
mod recordings;
mod server;
mod tools;
mod transport;
mod work;

use std::path::PathBuf;

use anyhow::Context as _;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use vramscope_report::Shown;
use vramscope_trace::formats::ReadOptions;

use folders::Folders;
use questions::Desk;
use recordings::Recordings;
use server::Server;
use transport::Lines;

/// Why the server could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct McpError(#[from] anyhow::Error);

/// What a client may read.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// The folders with recordings, including their subfolders; the current folder if there are none.
    pub allowed: Vec<PathBuf>,
    /// Approximate limit on the memory of all open recordings together, in bytes.
    pub max_memory: u64,
    /// Limits on reading a recording.
    pub reading: ReadOptions,
}

/// Serves the client on `streams`, its output and its input, until it closes its output.
///
/// # Errors
/// A folder does not exist, the client does not follow the protocol, or the system starts no thread.
pub fn serve<R, W>(options: &McpOptions, streams: (R, W)) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let here = [PathBuf::from(".")];
    let allowed = if options.allowed.is_empty() { &here[..] } else { &options.allowed };
    let desk = Desk {
        folders: Folders::new(allowed)?,
        recordings: Recordings::new(options.max_memory),
        reading: options.reading,
    };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let threads = threads.context("cannot start a thread for answers")?;
    let served = threads.block_on(answer(Server::new(desk), streams));
    // Does not wait for cancelled questions.
    threads.shutdown_background();
    Ok(served?)
}

async fn answer<R, W>(server: Server, streams: (R, W)) -> anyhow::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let service = match server.serve(Lines::new(streams)).await {
        Ok(service) => service,
        // The client closed its input without a request.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(e) => {
            return Err(e).context("the client did not initialize the connection as the protocol requires");
        }
    };
    service.waiting().await.context("the server stopped")?;
    Ok(())
}

/// The start of external text, made safe to print, for errors that repeat it.
fn shown(word: &str) -> Shown {
    const LONGEST: usize = 200;
    Shown::at_most(word, LONGEST)
}

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
