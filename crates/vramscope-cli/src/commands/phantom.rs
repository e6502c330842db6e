//! `vramscope phantom`: the library `vramscope-fit` with a terminal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use vramscope::fit::{self, Control, Ends, RunRequest};
use vramscope::recorder::RecordedProcess;

use super::run::say_what_is_missing;
use super::{print_json, print_text};
use crate::Found;
use crate::args::snapshot_or_log;
use crate::say::say;

/// Run a program on phantom GPUs: does it fit, on which GPU, and which change would make it fit?
#[derive(Debug, Args)]
pub(crate) struct PhantomArgs {
    #[command(subcommand)]
    pub(crate) command: PhantomCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PhantomCommand {
    Run(Box<PhantomRunArgs>),
    List(PhantomListArgs),
}

/// Run an unchanged program, with the installed PyTorch, on phantom GPUs and report whether it fits
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  vramscope phantom run -- python train.py
  vramscope phantom run --gpu rtx4090 --record run.pickle -- python train.py --batch-size 64
  vramscope phantom run --gpu a100-40gb --gpus 8 -- torchrun --nproc-per-node 8 train.py
  vramscope phantom run --world-size 64 --rank 3 -- python train.py
  vramscope phantom run --sweep-gpus -- python train.py

Kernels compute nothing: allocation sizes are those of PyTorch, values are zeros. Exit code 1: the program does not fit, or barely fits. 3: it is unknown whether it fits.")]
#[command(mut_arg("record", |record| record.value_parser(PathBufValueParser::new().try_map(snapshot_or_log))))]
pub(crate) struct PhantomRunArgs {
    #[command(flatten)]
    request: RunRequest,
    /// Print JSON; the program's standard output goes to stderr
    #[arg(long)]
    json: bool,
}

/// List the GPUs that have profiles
#[derive(Debug, Args)]
pub(crate) struct PhantomListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PhantomArgs) -> anyhow::Result<Found> {
    match &args.command {
        PhantomCommand::Run(args) => run_program(args),
        PhantomCommand::List(args) => list(args).map(|()| Found::Nothing),
    }
}

fn run_program(args: &PhantomRunArgs) -> anyhow::Result<Found> {
    let request = RunRequest { stdout_to_stderr: args.json, ..args.request.clone() };
    let answer = fit::run(&request, &Terminal::new(Arc::default())?)?;
    if args.json {
        print_json(&answer.json())?;
    } else {
        print_text(&answer.text())?;
    }
    if let Some(failure) = answer.failure() {
        bail!("{failure}");
    }
    Ok(match () {
        () if answer.is_unknown() => Found::Unknown,
        () if answer.fits() => Found::Nothing,
        () => Found::Something,
    })
}

fn list(args: &PhantomListArgs) -> anyhow::Result<()> {
    let gpus = fit::listed_gpus();
    if args.json { print_json(&gpus) } else { print_text(&fit::list_text(&gpus)) }
}

/// The terminal and the signals of runs.
pub(super) struct Terminal {
    stop: Arc<AtomicBool>,
}

impl Terminal {
    /// `stop` becomes true when a search is to end.
    pub(super) fn new(stop: Arc<AtomicBool>) -> anyhow::Result<Self> {
        // A recording above the file size limit fails with an error, instead of ending the command.
        flag::register(SIGXFSZ, Arc::default()).context("cannot watch signals")?;
        Ok(Self { stop })
    }
}

impl Control for Terminal {
    fn say(&self, line: &str) {
        say(line);
    }

    fn recorded(&self, logs: &[RecordedProcess]) {
        say_what_is_missing(logs);
    }

    fn ends(&self) -> io::Result<Ends> {
        // Ctrl-C also reaches the program, which handles it; this command continues, to report the results.
        flag::register(SIGINT, Arc::default())?;
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Box::new(move || asked.load(Ordering::Relaxed)))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
