//! The program on phantom GPUs: starts it, waits for it and ends it in time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use vramscope_files::open_log;
use vramscope_phantom::PhantomRun;

use crate::control::{Control, Ends};

/// Interval of checks whether the program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Time for a program to write its recording after SIGTERM.
const GRACE: Duration = Duration::from_mins(2);

/// The destination of a program's output.
pub(crate) enum Output {
    /// The program has the stdout and stderr of this command.
    Inherited,
    /// The program's stdout goes to stderr.
    Stderr,
    /// Both go to a file.
    File(PathBuf),
}

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Whether SIGTERM was sent after the timeout.
    pub(crate) timed_out: bool,
    /// Whether the program was killed because it did not end after SIGTERM.
    pub(crate) killed: bool,
}

/// Runs a program until it and all its processes with memory on the run's GPUs have ended.
///
/// # Errors
/// The program cannot be started.
pub(crate) fn run(
    run: &PhantomRun,
    command: &[OsString],
    environment: Vec<(OsString, OsString)>,
    timeout: Option<Duration>,
    output: &Output,
    control: &dyn Control,
) -> anyhow::Result<Ended> {
    let [program, arguments @ ..] = command else { anyhow::bail!("there is no program to run") };
    let ends = control.ends()?;
    let mut child = Command::new(program);
    child.args(arguments).envs(environment);
    match output {
        Output::Inherited => {}
        Output::Stderr => {
            child.stdout(std::io::stderr());
        }
        Output::File(path) => {
            let file = open_log(path).context("the phantom's folder")?;
            child.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        }
    }
    let child = child.spawn().with_context(|| program.to_string_lossy().into_owned())?;
    let ended = wait(child, timeout, &ends);
    end_others(run, control)?;
    Ok(ended?)
}

fn wait(mut child: Child, timeout: Option<Duration>, ends: &Ends) -> std::io::Result<Ended> {
    let started = Instant::now();
    let mut ended = None;
    let (mut timed_out, mut killed) = (false, false);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { status, timed_out, killed });
        }
        let is_over = timeout.is_some_and(|timeout| started.elapsed() >= timeout);
        match ended {
            None if is_over || ends() => {
                timed_out = is_over;
                ended = Some(Instant::now());
                signal(child.id(), Signal::TERM);
            }
            Some(since) if !killed && since.elapsed() >= GRACE => {
                killed = true;
                child.kill()?;
            }
            _ => {}
        }
        std::thread::sleep(LOOK);
    }
}

/// Sends SIGTERM to processes that outlived the program, so that their recordings are written.
fn end_others(run: &PhantomRun, control: &dyn Control) -> anyhow::Result<()> {
    let others = run.processes()?;
    if others.is_empty() {
        return Ok(());
    }
    control.say("note: processes of the program still run and hold GPU memory: ending them with SIGTERM");
    others.iter().for_each(|&id| signal(id, Signal::TERM));
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if run.processes()?.is_empty() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    run.processes()?.into_iter().for_each(|id| signal(id, Signal::KILL));
    Ok(())
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // The process may have ended meanwhile.
        kill_process(pid, signal).ok();
    }
}
