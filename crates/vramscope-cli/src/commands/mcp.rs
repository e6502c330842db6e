//! `vramscope mcp`: serves the answers of the other commands to assistants over the Model Context Protocol.

use std::path::PathBuf;

use clap::Args;
use vramscope::mcp::{McpOptions, serve};
use vramscope::session::values::size;

use crate::args::ReadArgs;
use crate::say::protocol_streams;

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
    let options = McpOptions {
        allowed: args.allow.clone(),
        max_memory: args.max_memory,
        reading: args.reading.options(),
    };
    Ok(serve(&options, protocol_streams())?)
}
