//! The `vramscope` command: parse, call, render, exit code.

mod advice;
mod args;
mod commands;
mod input;
mod output;
mod part;
mod progress;
mod say;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use say::say;
use vramscope::report::Shown;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|e| refuse(&e));
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
        #[cfg(unix)]
        Command::Phantom(args) => commands::phantom::run(&args),
        #[cfg(not(unix))]
        Command::Phantom(_) => Err(anyhow::anyhow!("phantom GPUs are for Linux")),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Info(args) => commands::info::run(&args).map(|()| Found::Nothing),
        Command::Completions(args) => commands::completions::run(&args).map(|()| Found::Nothing),
    };
    match result {
        Ok(Found::Nothing) => ExitCode::SUCCESS,
        Ok(Found::Something) => ExitCode::from(1),
        Err(e) => {
            say(&format!("error: {e:#}"));
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

/// Says what is wrong with the command line, or helps, and ends. What the library says repeats arguments as they are:
/// where one could steer the terminal, it is told of them as they are shown.
fn refuse(e: &clap::Error) -> ! {
    let given: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let shown: Vec<String> = given.iter().map(|arg| Shown::of(arg).into()).collect();
    if given == shown {
        e.exit();
    }
    match Cli::try_parse_from(shown) {
        Err(e) => e.exit(),
        Ok(_) => {
            say("error: an argument holds control characters, where it may not");
            std::process::exit(2);
        }
    }
}
