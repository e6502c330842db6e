//! `vramscope run`

mod also_pickle;
pub(crate) mod args;
pub(super) mod explain;
pub(super) mod live;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use vramscope::recorder::{
    IMPORTS, RecordedProcess, RecordedStacks, RecorderOptions, RecorderRun, checked_output,
};
use vramscope::units::bytes;
use vramscope_files::{PrivateFolder, with_first};

use crate::args::names_log;
use crate::commands::run::args::RunArgs;
use crate::say::say;

/// Starts the recording in each process that uses GPUs.
const RECORDER: &str = include_str!("sitecustomize.py");

/// Interval of checks whether the program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Runs a program with recording, and returns its exit code.
///
/// # Errors
/// The program cannot be started, or the folder of the recording does not exist.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let [program, arguments @ ..] = &args.command[..] else { bail!("there is no program to run") };
    let is_history = args.history || args.max_entries.is_some() || args.every.is_some();
    let default =
        if is_history || !RecorderRun::is_supported() { "vramscope.pickle" } else { "run.vramscope" };
    let out = checked_output(args.record.as_deref().unwrap_or(Path::new(default)))?;
    if names_log(&out) {
        return record_log(args, program, arguments, &out);
    }
    for (option, is_given) in [
        ("--stacks", args.stacks.is_some()),
        ("--keep", args.keep.is_some()),
        ("--at", args.at.is_some()),
        ("--also-pickle", args.also_pickle.is_some()),
        ("--categories", args.categories),
    ] {
        if is_given {
            bail!("{option} is for logs: name one, as --record run.vramscope");
        }
    }
    let python = python_folder()?;
    let environment = environment(args, &out, &python);
    let status = watch(Command::new(program).args(arguments).envs(environment), |_| {})
        .with_context(|| program.to_string_lossy().into_owned())?;
    Ok(exit_code(status))
}

/// Runs a program and writes the logs of its processes while they run.
fn record_log(args: &RunArgs, program: &OsStr, arguments: &[OsString], out: &Path) -> anyhow::Result<u8> {
    for (option, is_given) in [
        ("--history", args.history),
        ("--max-entries", args.max_entries.is_some()),
        ("--every", args.every.is_some()),
    ] {
        if is_given {
            bail!("{option} is for pickles: a log has all events, and is written while the program runs");
        }
    }
    let mut options = options(args.stacks);
    options.keep = args.keep;
    options.copy_at = args.at;
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
    let copy_logs = |signal| recorder.copy_logs(if signal == Signal::TERM { "sigterm" } else { "sighup" });
    let status = watch(Command::new(program).args(arguments).envs(environment), copy_logs)
        .with_context(|| program.to_string_lossy().into_owned());
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
    let code = exit_code(status?);
    if let Some(pickle) = &args.also_pickle {
        for log in logs.iter().filter(|log| log.events > 0) {
            let to = also_pickle::path(pickle, out, &log.path);
            // The program's exit code is the command's.
            if let Err(error) = also_pickle::write(&log.path, &to) {
                say(&format!("--also-pickle: {error:#}"));
            }
        }
    }
    Ok(code)
}

/// The recorder's options.
pub(super) fn options(stacks: Option<RecordedStacks>) -> RecorderOptions {
    let mut options = RecorderOptions::default();
    options.stacks = stacks.unwrap_or_default();
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
    for log in logs {
        let path = log.path.display();
        if let Some(failure) = log.failure() {
            say(&failure);
        }
        if let Some(error) = &log.limit_error {
            say(&format!(
                "{path}: the next log could not begin, so the log may be larger than --keep: {error}"
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

/// Waits for a program. Ctrl-C also reaches the program, which handles it; SIGTERM and SIGHUP are forwarded, after `before`.
fn watch(command: &mut Command, before: impl Fn(Signal)) -> std::io::Result<ExitStatus> {
    let mut watched = vec![flag::register(SIGINT, Arc::default())?];
    let asked = [(SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP)]
        .map(|(number, signal)| (number, signal, Arc::new(AtomicBool::new(false))));
    for (number, _, flag) in &asked {
        watched.push(flag::register(*number, Arc::clone(flag))?);
    }
    let mut child = command.spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for (_, signal, flag) in &asked {
            if flag.swap(false, Ordering::Relaxed)
                && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            {
                before(*signal);
                // The process may have ended meanwhile.
                kill_process(pid, *signal).ok();
            }
        }
        std::thread::sleep(LOOK);
    };
    watched.into_iter().for_each(|id| {
        signal_hook::low_level::unregister(id);
    });
    Ok(status)
}

/// The exit code of a program, as in a shell: 128 plus the number of the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    u8::try_from(code & 0xff).unwrap_or(2)
}
