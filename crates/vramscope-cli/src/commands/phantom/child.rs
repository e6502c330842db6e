//! The program that runs on phantom GPUs: it is started, watched, and asked to end in time.

use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use vramscope::phantom::PhantomRun;

use crate::say::say;

/// Between two looks whether the program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// So long a program that was asked to end may take to write its recording.
const GRACE: Duration = Duration::from_mins(2);

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// It was asked to, after the time it was given.
    pub(crate) timed_out: bool,
    /// It did not end when it was asked to.
    pub(crate) killed: bool,
}

/// Runs a program to its end, and to that of all its processes which hold memory of the run's GPUs.
///
/// # Errors
/// Where it cannot be started.
pub(crate) fn run(
    run: &PhantomRun,
    command: &[OsString],
    environment: Vec<(&'static str, OsString)>,
    timeout: Option<Duration>,
    stdout_to_stderr: bool,
) -> anyhow::Result<Ended> {
    let [program, arguments @ ..] = command else { anyhow::bail!("there is no program to run") };
    // Ctrl-C reaches the program as well, which ends as it likes; then there is something to say.
    let mut watched = vec![flag::register(SIGINT, Arc::default())?];
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        watched.push(flag::register(signal, Arc::clone(&asked))?);
    }
    let mut child = Command::new(program);
    child.args(arguments).envs(environment);
    if stdout_to_stderr {
        child.stdout(stderr());
    }
    let child = child.spawn().with_context(|| program.to_string_lossy().into_owned())?;
    let ended = wait(child, timeout, &asked);
    let others = end_others(run);
    watched.into_iter().for_each(|id| {
        signal_hook::low_level::unregister(id);
    });
    others?;
    Ok(ended?)
}

/// This command's own stderr, handed to a program as its stdout.
#[expect(clippy::disallowed_methods, reason = "handed on, not written to")]
fn stderr() -> Stdio {
    Stdio::from(std::io::stderr())
}

fn wait(mut child: Child, timeout: Option<Duration>, asked: &AtomicBool) -> std::io::Result<Ended> {
    let started = Instant::now();
    let mut ended = None;
    let (mut timed_out, mut killed) = (false, false);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { status, timed_out, killed });
        }
        let is_over = timeout.is_some_and(|timeout| started.elapsed() >= timeout);
        match ended {
            None if is_over || asked.load(Ordering::Relaxed) => {
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

/// Asks processes to end that outlived the program which started them, so that what they did is written, too.
fn end_others(run: &PhantomRun) -> anyhow::Result<()> {
    let others = run.processes()?;
    if others.is_empty() {
        return Ok(());
    }
    say("note: processes of the program outlive it and hold GPU memory: they are asked to end");
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
        // A process that has just ended needs no asking.
        kill_process(pid, signal).ok();
    }
}
