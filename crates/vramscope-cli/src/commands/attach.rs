//! `vramscope attach`

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use vramscope::recorder::{AttachedProcess, RecordedProcess, RecorderRun, is_running};
use vramscope::report::count;

use super::run::live::Servers;
use super::run::{check_logs, checked_output, options, say_what_is_missing};
use super::stop_flag;
use crate::args::AttachArgs;
use crate::say::{print_json_line, say};

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
    let out = checked_output(&args.record)?;
    if args.from_within {
        return follow(args, &out);
    }
    let stop = stop_flag()?;
    let process = AttachedProcess::attach(args.process, &out, options(args.stacks))?;
    say(&format!("recording process {}; Ctrl-C ends the recording", args.process));
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
    for log in logs.iter().filter(|log| log.error.is_none()) {
        say(&format!("recorded {} events to {}", count(log.events), log.path.display()));
    }
    error.map_or(Ok(()), |error| Err(error).context("the process was not detached"))?;
    check_logs(&logs)
}

/// Writes the log of a process that loads the library without a debugger.
fn follow(args: &AttachArgs, out: &Path) -> anyhow::Result<()> {
    let recorder = RecorderRun::start(out, options(args.stacks))?;
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
