//! `vramscope mcp`: serves the answers of the other commands to assistants over the Model Context Protocol.
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
//! The SDK (`rmcp`) implements the protocol. Each question runs on its own thread; `work.rs` shares progress and cancellation. Answers
//! are `vramscope-report`'s JSON, written once and read back only as far as it is sent (`bounded.rs`), so omitted parts take no memory.
//! Schemas of arguments come from the types in `arguments.rs`; those of answers, in `tools.rs`, name the keys that are always present.

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

use crate::args::ReadArgs;
use clap::Args;
use std::path::PathBuf;
use vramscope::session::values::size;

use anyhow::Context as _;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use vramscope::report::Shown;

use crate::say::protocol_streams;

use folders::Folders;
use questions::Desk;
use recordings::Recordings;
use server::Server;
use transport::Lines;

/// Serve recordings to an AI assistant over the Model Context Protocol
#[derive(Debug, Args)]
#[command(after_help = "An assistant starts this command. Its configuration:
  {\"mcpServers\": {\"vramscope\": {\"command\": \"vramscope\", \"args\": [\"mcp\", \"--allow\", \"runs\"]}}}

It speaks JSON-RPC on standard input and output. It reads recordings and writes no files.")]
pub(crate) struct McpArgs {
    /// A folder whose recordings may be read, including its subfolders; may be given several times [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) allow: Vec<PathBuf>,
    /// Approximate limit on the memory of all open recordings together
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4GiB")]
    pub(crate) max_memory: u64,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// Serves the client on standard input and output until it closes its input.
pub(crate) fn run(args: &McpArgs) -> anyhow::Result<()> {
    let here = [PathBuf::from(".")];
    let allowed = if args.allow.is_empty() { &here[..] } else { &args.allow };
    let desk = Desk {
        folders: Folders::new(allowed)?,
        recordings: Recordings::new(args.max_memory),
        reading: args.reading.options(),
    };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let threads = threads.context("cannot start a thread for answers")?;
    let served = threads.block_on(serve(Server::new(desk)));
    // Does not wait for cancelled questions.
    threads.shutdown_background();
    served
}

async fn serve(server: Server) -> anyhow::Result<()> {
    let service = match server.serve(Lines::new(protocol_streams())).await {
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
