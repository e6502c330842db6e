//! `vramscope attach`

use crate::args::{log, seconds, stacks};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use serde::Serialize;
use vramscope::recorder::{AttachedProcess, RecordedProcess, RecordedStacks, RecorderRun, is_running};

use crate::commands::run::live::Servers;
use crate::commands::run::{check_logs, options, say_what_is_missing, say_what_was_recorded};
use crate::commands::stop_flag;
use crate::output::new_recording;
use crate::say::{print_json_line, say};

/// Record the GPU memory of a process that already runs
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope attach 4711 --record run.vramscope
  vramscope attach 4711 --record run.vramscope --for 60 --stacks all

The recording ends with Ctrl-C, after --for, or with the process, which goes on without it. Memory from before is unknown. The process must be one of this user's, on Linux with glibc. One of its threads is stopped for a moment.")]
pub(crate) struct AttachArgs {
    /// The process ID
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) process: u32,
    /// File for the log, which ends in .vramscope; %t in the name stands for the time [default: run.vramscope; run-2.vramscope if it
    /// exists]
    #[arg(long, value_name = "OUT", value_parser = PathBufValueParser::new().try_map(log))]
    pub(crate) record: Option<PathBuf>,
    /// Replace an existing recording
    #[arg(long)]
    pub(crate) force: bool,
    /// Frames of the stacks: none, python, all (also native ones), or large:SIZE, as large:1MiB (python, only for requests of at least
    /// this size) [default: python]
    #[arg(long, value_name = "FRAMES", value_parser = stacks)]
    pub(crate) stacks: Option<RecordedStacks>,
    /// End the recording after this time
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,
    /// The process loads the recorder without a debugger, as `vramscope.torch.record` does: print what it loads, and its logs
    #[arg(long, hide = true)]
    pub(crate) from_within: bool,
}

/// Interval of checks for the end.
const LOOK: Duration = Duration::from_millis(10);

/// What a process loads to be recorded: the arguments of `dlopen` and of `vramscope_recorder_attach`.
#[derive(Serialize)]
struct Loads<'a> {
    library: &'a Path,
    folder: &'a Path,
    stacks: &'a str,
}

/// A log, once it is complete.
#[derive(Serialize)]
struct Log<'a> {
    path: &'a Path,
    process: u32,
    events: u64,
    dropped: u64,
    error: Option<String>,
}

/// Records a process until it ends or the user ends the recording.
///
/// # Errors
/// The process cannot be recorded, or the recording cannot be written.
pub(crate) fn run(args: &AttachArgs) -> anyhow::Result<()> {
    let out = new_recording(args.record.as_deref(), "run.vramscope", args.force)?;
    if args.from_within {
        return follow(args, &out);
    }
    let stop = stop_flag()?;
    let process = AttachedProcess::attach(args.process, &out, options(args.stacks, args.force))?;
    say(&format!(
        "recording process {}, which was stopped for {:.1} ms; Ctrl-C ends the recording",
        args.process,
        process.stopped().as_secs_f64() * 1000.0
    ));
    let servers = Servers::start(process.running())?;
    let begin = Instant::now();
    while process.is_recorded()
        && !stop.load(Ordering::Relaxed)
        && args.duration.is_none_or(|duration| begin.elapsed() < duration)
    {
        std::thread::sleep(LOOK);
    }
    servers.stop();
    let (logs, error) = process.finish();
    say_what_is_missing(&logs);
    say_what_was_recorded(&logs);
    error.map_or(Ok(()), |error| Err(error).context("the process was not detached"))?;
    check_logs(&logs)
}

/// Writes the log of a process that loads the library without a debugger.
fn follow(args: &AttachArgs, out: &Path) -> anyhow::Result<()> {
    let recorder = RecorderRun::start(out, options(args.stacks, args.force))?;
    print_json_line(&Loads {
        library: &recorder.library(),
        folder: recorder.rings(),
        stacks: &recorder.stacks(),
    })?;
    let servers = Servers::start(recorder.running())?;
    while !recorder.has_ended(args.process) && is_running(args.process) {
        std::thread::sleep(LOOK);
    }
    servers.stop();
    let logs = recorder.finish();
    logs.iter().try_for_each(|log| {
        let error = log.error.as_ref().map(ToString::to_string);
        let RecordedProcess { path, process, events, dropped, .. } = log;
        print_json_line(&Log { path, process: *process, events: *events, dropped: *dropped, error })
    })
}
