//! `vramscope run`

mod also_pickle;
pub(crate) mod args;
pub(super) mod explain;
pub(super) mod live;
mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use vramscope::recorder::{IMPORTS, RecordedProcess, RecordedStacks, RecorderOptions, RecorderRun};
use vramscope::report::count;
use vramscope::units::bytes;
use vramscope_files::{PrivateFolder, with_first};

use crate::args::names_log;
use crate::commands::run::args::RunArgs;
use crate::output::new_recording;
use crate::say::say;

/// Starts the recording in each process that uses GPUs.
const RECORDER: &str = include_str!("sitecustomize.py");

/// Runs a program with recording, and returns its exit code.
///
/// # Errors
/// The program cannot be started, or the folder of the recording does not exist.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let [name, arguments @ ..] = &args.command[..] else { bail!("there is no program to run") };
    let is_history = args.history || args.max_entries.is_some() || args.every.is_some();
    let default =
        if is_history || !RecorderRun::is_supported() { "vramscope.pickle" } else { "run.vramscope" };
    let out = new_recording(args.record.as_deref(), default, args.force)?;
    if names_log(&out) {
        return record_log(args, name, arguments, &out);
    }
    for (option, is_given) in [
        ("--stacks", args.stacks.is_some()),
        ("--keep", args.keep.is_some()),
        ("--at", args.at.is_some()),
        ("--sync", args.sync.is_some()),
        ("--also-pickle", args.also_pickle.is_some()),
        ("--categories", args.categories),
    ] {
        if is_given {
            bail!("{option} is for logs: name one, as --record run.vramscope");
        }
    }
    let python = python_folder()?;
    let environment = environment(args, &out, &python);
    let status = program::run(Command::new(name).args(arguments).envs(environment))
        .with_context(|| name.to_string_lossy().into_owned())?;
    Ok(program::end_as(status))
}

/// Runs a program and writes the logs of its processes while they run.
fn record_log(args: &RunArgs, name: &OsStr, arguments: &[OsString], out: &Path) -> anyhow::Result<u8> {
    for (option, is_given) in [
        ("--history", args.history),
        ("--max-entries", args.max_entries.is_some()),
        ("--every", args.every.is_some()),
    ] {
        if is_given {
            bail!("{option} is for pickles: a log has all events, and is written while the program runs");
        }
    }
    let mut options = options(args.stacks, args.force);
    options.keep = args.keep;
    options.copy_at = args.at;
    options.sync = args.sync;
    if args.keep.is_some_and(|keep| keep < RecorderOptions::LEAST_KEPT) {
        bail!("--keep: a log needs at least {}", bytes(RecorderOptions::LEAST_KEPT));
    }
    if let Some(pickle) = &args.also_pickle {
        also_pickle::check(pickle)?;
    }
    let python = args.categories.then(python_folder).transpose()?;
    let recorder = RecorderRun::start(out, options)?;
    let mut environment = recorder.environment();
    if let Some(folder) = &python {
        environment.push(("PYTHONPATH", with_first(folder.path(), "PYTHONPATH")));
        environment.push(("VRAMSCOPE_RECORD_CATEGORIES", "1".into()));
    }
    let explainer = explain::start(recorder.copies())?;
    let servers = live::Servers::start(recorder.running())?;
    let status = program::run(Command::new(name).args(arguments).envs(environment))
        .with_context(|| name.to_string_lossy().into_owned());
    servers.stop();
    let logs = recorder.finish();
    // It ends after the last copy, and an error of `join` has no information.
    explainer.join().ok();
    if logs.is_empty() && status.is_ok() {
        say(
            "nothing was recorded: no process allocated GPU memory, or none loaded the recorder (a static or a setuid program)",
        );
    }
    say_what_is_missing(&logs);
    say_what_was_recorded(&logs);
    let status = status?;
    if let Some(pickle) = &args.also_pickle {
        for log in logs.iter().filter(|log| log.events > 0) {
            let to = also_pickle::path(pickle, out, &log.path);
            // The program's exit code is the command's.
            if let Err(error) = also_pickle::write(&log.path, &to) {
                say(&format!("--also-pickle: {error:#}"));
            }
        }
    }
    // The folders are removed before this process ends as the program did.
    drop(python);
    Ok(program::end_as(status))
}

/// Names the logs, and how to read them.
pub(super) fn say_what_was_recorded(logs: &[RecordedProcess]) {
    let written: Vec<&RecordedProcess> = logs.iter().filter(|log| log.events > 0).collect();
    let Some(first) = written.first() else { return };
    let events = count(written.iter().map(|log| log.events).sum::<u64>());
    let size = |log: &&RecordedProcess| log.path.metadata().map_or(0, |file| file.len());
    let size = bytes(written.iter().map(size).sum::<u64>());
    let path = first.path.display();
    say(&match written.len() {
        1 => format!("recorded {events} events ({size}) to {path}; `vramscope report {path}` explains them"),
        logs => format!(
            "recorded {events} events ({size}) to {logs} logs, such as {path}; `vramscope fleet` compares logs of ranks"
        ),
    });
}

/// The recorder's options.
pub(super) fn options(stacks: Option<RecordedStacks>, replaces: bool) -> RecorderOptions {
    let mut options = RecorderOptions::default();
    options.stacks = stacks.unwrap_or_default();
    options.replaces = replaces;
    options
}

/// An error for the first log that could not be written.
pub(super) fn check_logs(logs: &[RecordedProcess]) -> anyhow::Result<()> {
    match logs.iter().find_map(RecordedProcess::failure) {
        Some(failure) => bail!(failure),
        None => Ok(()),
    }
}

/// Names the logs that are incomplete.
pub(super) fn say_what_is_missing(logs: &[RecordedProcess]) {
    for (i, log) in logs.iter().enumerate() {
        let path = log.path.display();
        if let Some(failure) = log.failure() {
            say(&failure);
        }
        if let Some(error) = &log.limit_error {
            say(&format!(
                "{path}: the next log could not begin, so the log may be larger than --keep: {error}"
            ));
        }
        let is_last = !logs[i + 1..].iter().any(|later| later.process == log.process);
        if log.ran_another && is_last {
            say(&format!(
                "{path}: process {} then ran another program, which used no GPU or did not load the recorder",
                log.process
            ));
        }
        if log.dropped > 0 {
            say(&format!(
                "{path}: {} events are missing, because they could not be written in time",
                log.dropped
            ));
        }
    }
}

/// A folder with modules that each Python program of a run imports at its start.
fn python_folder() -> anyhow::Result<PrivateFolder> {
    let temporary = |e: io::Error| {
        let folder = env::temp_dir();
        anyhow!("{}: {e}; set TMPDIR to a folder that only you can write to", folder.display())
    };
    let folder = PrivateFolder::new("vramscope-run-").map_err(temporary)?;
    if folder.path().as_os_str().as_encoded_bytes().contains(&b':') {
        bail!(
            "{} contains a colon, which PYTHONPATH uses as separator: set TMPDIR to a folder without a colon",
            env::temp_dir().display()
        );
    }
    for (name, text) in [IMPORTS, ("sitecustomize.py", RECORDER)] {
        folder.dir().write_new(name.as_ref(), text.as_bytes()).map_err(temporary)?;
    }
    Ok(folder)
}

/// The environment variables with which Python programs record PyTorch's history.
fn environment(args: &RunArgs, out: &Path, folder: &PrivateFolder) -> Vec<(&'static str, OsString)> {
    let mut environment =
        vec![("PYTHONPATH", with_first(folder.path(), "PYTHONPATH")), ("VRAMSCOPE_RECORD", out.into())];
    if let Some(entries) = args.max_entries {
        environment.push(("VRAMSCOPE_RECORD_ENTRIES", entries.to_string().into()));
    }
    if let Some(every) = args.every {
        environment.push(("VRAMSCOPE_RECORD_EVERY", every.as_secs_f64().to_string().into()));
    }
    environment
}
