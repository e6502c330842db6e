//! The `vramscope` command: parses arguments, calls the analysis, prints the result and returns the exit code.
//!
//! It is a library, so that the Python package can run the command as well; `main.rs` only calls it.
//!
//! # Modules
//! - `cli`: the command line. `commands`: one file or folder for each subcommand, which begins with its arguments. `args`: arguments that
//!   several share, and those of commands that run programs or watch processes.
//! - `say`: the only module that prints. Notes and errors become `Shown`, pages pass a filter that keeps line ends and styles, JSON is
//!   written by `write_json`, and a protocol gets stdout to itself. The crate's `clippy.toml` forbids stdout and stderr elsewhere.
//! - `output`: the only module that writes files. It writes beside the named file and renames at the end. `part` removes files that an
//!   error or a signal leaves unfinished.
//! - `advice`: option names of the command, for advice in reports.
//! - `console`: the SQL engine behind the page's console.
//! - `input`: opens the user's input files, with a progress bar for slow reads.
//! - `part_folder`: temporary folders for outputs, inside the folder of the final contents.
//! - `progress`: progress bars for slow reads and writes on a terminal.
//! - `ranks`: finds the recordings for paths, on this machine and in stores, and their ranks.
//! - `schemas`: writes the JSON schemas of the outputs of `--json`, and the Python types of the answers, from the structs that are serialized.

mod advice;
mod args;
mod cli;
mod commands;
mod console;
mod input;
mod output;
mod part;
mod part_folder;
mod progress;
mod ranks;
mod say;
#[cfg(test)]
mod schemas;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command};
use say::{print_text, say};
use vramscope::report::Shown;

pub use args::names_another_format;

/// Runs the command with these arguments (the first is the program name) and returns its exit code: 0 for success, 1 for a finding that
/// the user asked to check, 2 for an error, 3 if it is unknown whether there is a finding. An invalid command line and a request for help exit the process.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> u8 {
    let cli = Cli::try_parse_from(&arguments).unwrap_or_else(|e| refuse(&e, &arguments));
    let result = match cli.command {
        Command::Report(args) => commands::report::run(&args).map(|()| Found::Nothing),
        Command::Check(args) => commands::check::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Plan(args) => commands::plan::run(&args).map(|()| Found::Nothing),
        Command::View(args) => commands::view::run(&args).map(|()| Found::Nothing),
        Command::Export(args) => commands::export::run(&args).map(|()| Found::Nothing),
        Command::Convert(args) => commands::export::convert::run(&args).map(|()| Found::Nothing),
        Command::Split(args) => commands::split::run(&args).map(|()| Found::Nothing),
        Command::Query(args) => commands::query::run(&args).map(|()| Found::Nothing),
        Command::FleetExecutor(args) => commands::cluster::run_executor(&args).map(|()| Found::Nothing),
        Command::FleetScheduler(args) => commands::cluster::run_scheduler(&args).map(|()| Found::Nothing),
        Command::Fleet(args) => commands::fleet::run(&args),
        #[cfg(unix)]
        Command::Monitor(args) => commands::monitor::run(&args),
        #[cfg(not(unix))]
        Command::Monitor(_) => Err(anyhow::anyhow!("`vramscope monitor` is available only on Unix")),
        #[cfg(unix)]
        Command::Top(args) => commands::top::run(&args).map(|()| Found::Nothing),
        #[cfg(not(unix))]
        Command::Top(_) => Err(anyhow::anyhow!("`vramscope top` is available only on Unix")),
        #[cfg(unix)]
        Command::Phantom(args) => commands::phantom::run(&args),
        #[cfg(not(unix))]
        Command::Phantom(_) => Err(anyhow::anyhow!("`vramscope phantom` is available only on Linux")),
        #[cfg(unix)]
        Command::Fit(args) => commands::fit::run(&args),
        #[cfg(not(unix))]
        Command::Fit(_) => Err(anyhow::anyhow!("`vramscope fit` is available only on Linux")),
        #[cfg(unix)]
        Command::Run(args) => match commands::run::run(&args) {
            Ok(code) => return code,
            Err(e) => Err(e),
        },
        #[cfg(not(unix))]
        Command::Run(_) => Err(anyhow::anyhow!("`vramscope run` is available only on Unix")),
        #[cfg(target_os = "linux")]
        Command::Attach(args) => commands::attach::run(&args).map(|()| Found::Nothing),
        #[cfg(not(target_os = "linux"))]
        Command::Attach(_) => Err(anyhow::anyhow!("`vramscope attach` is available only on Linux")),
        #[cfg(target_os = "linux")]
        Command::Dump(args) => commands::dump::run(&args).map(|()| Found::Nothing),
        #[cfg(not(target_os = "linux"))]
        Command::Dump(_) => Err(anyhow::anyhow!("`vramscope dump` is available only on Linux")),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Info(args) => commands::info::run(&args).map(|()| Found::Nothing),
        Command::Mcp(args) => commands::mcp::run(&args).map(|()| Found::Nothing),
        Command::Completions(args) => {
            commands::completions::run(&args, Cli::command()).map(|()| Found::Nothing)
        }
    };
    match result {
        Ok(Found::Nothing) => 0,
        Ok(Found::Something) => 1,
        Ok(Found::Unknown) => 3,
        Err(e) => {
            say(&format!("error: {e:#}"));
            2
        }
    }
}

/// Whether a check found something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Something,
    /// A missing part of a recording could change the answer.
    Unknown,
}

/// Prints the error or the help of the argument parser, and exits. The parser's messages repeat arguments unchanged, so arguments with
/// control characters are parsed again in escaped form.
fn refuse(e: &clap::Error, arguments: &[OsString]) -> ! {
    let given: Vec<String> =
        arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let shown: Vec<String> = given.iter().map(|arg| Shown::of(arg).into()).collect();
    if given == shown {
        answer(e);
    }
    match Cli::try_parse_from(shown) {
        Err(e) => answer(&e),
        Ok(_) => {
            say("error: an argument contains control characters that are not allowed in it");
            std::process::exit(2);
        }
    }
}

/// Prints a message of the argument parser, and exits. Help and version are answers on standard output.
fn answer(e: &clap::Error) -> ! {
    if e.use_stderr() {
        e.exit();
    }
    let printed = print_text(&e.render().ansi().to_string());
    std::process::exit(match printed {
        Ok(()) => e.exit_code(),
        Err(e) => {
            say(&format!("error: {e:#}"));
            2
        }
    });
}
