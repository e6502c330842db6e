//! `vramscope completions`

use clap::{Args, Command};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  vramscope completions bash > ~/.local/share/bash-completion/completions/vramscope")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "vramscope", &mut script);
    super::print_text(&String::from_utf8(script)?)
}
