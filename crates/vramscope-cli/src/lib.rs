//! The `vramscope` command: parse, call, render, exit code.
//!
//! A library, so that the Python package is the command, too: `main.rs` is all that the program adds.

//!
//! # Modules
//! - `args`: the command line. `commands`: one file or folder for each subcommand.
//! - `say`: the only module that prints. Notes and errors become `Shown`, pages pass a filter that keeps line ends and styles, JSON is
//!   written by `write_json`, and a protocol gets stdout to itself. The crate's `clippy.toml` forbids stdout and stderr elsewhere.
//! - `output`: the only module that writes files. It writes beside the named file and renames at the end. `part` removes files that an
//!   error or a signal leaves unfinished.

mod advice;
mod args;
mod commands;
mod input;
mod output;
mod part;
mod part_folder;
mod progress;
mod ranks;
mod say;

use std::ffi::OsString;

use clap::Parser as _;

use args::{Cli, Command};
use say::say;
use vramscope::report::Shown;

/// What words on the command line mean, for programs that take the same words.
pub mod words {
    pub use crate::args::{by, gpu, names_another_format, size};
}

/// Runs the command with these arguments, the name of the program first, and returns its exit code: 0 for fine, 1 for a finding
/// that the user asked to be told of, 2 for trouble. A command line that is not understood, and a request for help, end
/// the process.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> u8 {
    let cli = Cli::try_parse_from(&arguments).unwrap_or_else(|e| refuse(&e, &arguments));
    let result = match cli.command {
        Command::Report(args) => commands::report::run(&args).map(|()| Found::Nothing),
        Command::Check(args) => commands::check::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::View(args) => commands::view::run(&args).map(|()| Found::Nothing),
        Command::Export(args) => commands::export::run(&args).map(|()| Found::Nothing),
        Command::Query(args) => commands::query::run(&args).map(|()| Found::Nothing),
        Command::FleetExecutor(args) => commands::cluster::run_executor(&args).map(|()| Found::Nothing),
        Command::FleetScheduler(args) => commands::cluster::run_scheduler(&args).map(|()| Found::Nothing),
        Command::Fleet(args) => commands::fleet::run(&args),
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
        #[cfg(unix)]
        Command::Run(args) => match commands::run::run(&args) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        #[cfg(not(unix))]
        Command::Run(_) => Err(anyhow::anyhow!("programs are recorded on Unix alone")),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Info(args) => commands::info::run(&args).map(|()| Found::Nothing),
        Command::Mcp(args) => commands::mcp::run(&args).map(|()| Found::Nothing),
        Command::Completions(args) => commands::completions::run(&args).map(|()| Found::Nothing),
    };
    match result {
        Ok(Found::Nothing) => 0,
        Ok(Found::Something) => 1,
        Err(e) => {
            say(&format!("error: {e:#}"));
            2
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
fn refuse(e: &clap::Error, arguments: &[OsString]) -> ! {
    let given: Vec<String> =
        arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
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
