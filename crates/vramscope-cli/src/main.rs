//! The `vramscope` command: parse, call, render, exit code.

mod args;
mod commands;
mod input;
mod output;
mod progress;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Report(args) => commands::report::run(&args).map(|()| Found::Nothing),
        Command::Check(args) => commands::check::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::View(args) => commands::view::run(&args).map(|()| Found::Nothing),
        Command::Export(args) => commands::export::run(&args).map(|()| Found::Nothing),
        #[cfg(unix)]
        Command::Monitor(args) => commands::monitor::run(&args),
        #[cfg(not(unix))]
        Command::Monitor(_) => Err(anyhow::anyhow!("programs can be watched on Unix alone")),
        #[cfg(unix)]
        Command::Top(args) => commands::top::run(&args).map(|()| Found::Nothing),
        #[cfg(not(unix))]
        Command::Top(_) => Err(anyhow::anyhow!("programs can be watched on Unix alone")),
        Command::Info(args) => commands::info::run(&args).map(|()| Found::Nothing),
        Command::Completions(args) => commands::completions::run(&args).map(|()| Found::Nothing),
    };
    match result {
        Ok(Found::Nothing) => ExitCode::SUCCESS,
        Ok(Found::Something) => ExitCode::from(1),
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            // Nobody is left to tell where this fails.
            writeln!(anstream::stderr(), "error: {e:#}").ok();
            ExitCode::from(2)
        }
    }
}

/// Whether the user asked to be told of something, and it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|c| c.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}
