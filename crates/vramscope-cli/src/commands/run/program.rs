//! A program that runs as it would without this command: signals reach it once, it stops and continues with this command, and this command
//! ends as it ended.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getrlimit, kill_process,
    setrlimit, waitid, waitpid,
};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXFSZ,
};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Signals that others send to a program.
const PASSED_ON: [i32; 16] = [
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH,
];
/// Time until all processes of a group have a signal that is sent to one after the other.
const ALL_HAVE_IT: Duration = Duration::from_millis(20);
/// Age at which a signal of the witness is another one than that of this process.
const OUTDATED: Duration = Duration::from_secs(1);

/// Runs a program to its end.
///
/// # Errors
/// The program cannot be started.
pub(super) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    let is_ignored = ignored();
    // Handlers do not survive `exec`, but a signal that is ignored stays ignored in the program.
    let numbers = PASSED_ON.into_iter().filter(|&number| !is_ignored(number));
    // A log above the limit on file sizes ends with an error, and this command goes on.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let numbers: Vec<i32> = numbers.collect();
    let mut signals = Signals::new(&numbers)?;
    let handle = signals.handle();
    let mut witness = Witness::start(&numbers).ok();
    let child = command.spawn()?;
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let program = Arc::new(Program(Mutex::new(Some(pid))));
    let of_thread = Arc::clone(&program);
    let thread = std::thread::Builder::new().name("vramscope-signals".to_owned()).spawn(move || {
        for number in signals.forever() {
            // The terminal, a shell and a service manager send signals to the program, too.
            std::thread::sleep(ALL_HAVE_IT);
            if !witness.as_mut().is_some_and(|witness| witness.has(number)) {
                of_thread.send(number);
            }
        }
    })?;
    let status = program.wait(pid);
    handle.close();
    // An error of `join` has no information.
    thread.join().ok();
    status
}

/// Ends this process as the program ended. Returns the exit code where the system does not let it.
pub(super) fn end_as(status: ExitStatus) -> u8 {
    let Some(signal) = status.signal() else { return status.code().map_or(2, |code| code as u8) };
    // The first process of a container is not ended by its own signals.
    if getpid() != Pid::INIT {
        // The program has left its core; that of this process would replace it.
        let limit = getrlimit(Resource::Core);
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: limit.maximum }).ok();
        emulate_default_handler(signal).ok();
    }
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The signals that this process ignores, as `nohup` lets it.
fn ignored() -> impl Fn(i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    move |number| mask >> (number - 1) & 1 != 0
}

/// The process of the program, until its end was noticed: then another process may have its number.
struct Program(Mutex<Option<Pid>>);

impl Program {
    fn send(&self, number: i32) {
        let pid = lock(&self.0);
        if let (Some(pid), Some(signal)) = (*pid, Signal::from_named_raw(number)) {
            // The process may have ended.
            kill_process(pid, signal).ok();
        }
    }

    /// Waits for the end. If the program stops as a job of a shell, this process stops too, as the shell waits for it.
    fn wait(&self, pid: Pid) -> io::Result<ExitStatus> {
        let changes = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(pid), changes) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let mut place = lock(&self.0);
            let Some((_, status)) = waitpid(Some(pid), WaitOptions::UNTRACED | WaitOptions::NOHANG)? else {
                continue;
            };
            let Some(signal) = status.stopping_signal() else {
                *place = None;
                return Ok(ExitStatus::from_raw(status.as_raw()));
            };
            drop(place);
            // A program that another process stops by SIGSTOP is continued by it.
            if [SIGTSTP, SIGTTIN, SIGTTOU].contains(&signal) {
                emulate_default_handler(SIGTSTP)?;
            }
        }
    }
}

/// A process in the group of the program that does nothing. A signal that reaches it too was sent to all, so the program has it already.
struct Witness {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The signals that it had, until they are asked for.
    had: Vec<(i32, Instant)>,
}

impl Witness {
    fn start(numbers: &[i32]) -> io::Result<Self> {
        let traps: String =
            numbers.iter().map(|number| format!("trap 'echo {number}; s=1' {number}\n")).collect();
        // A signal ends `read`, as the end of its input does.
        let script = format!("{traps}while s=; if read -r a; then echo; else [ -n \"$s\" ]; fi; do :; done");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, "vramscope"]).env_clear().current_dir("/");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.ok_or(io::ErrorKind::BrokenPipe)?);
        Ok(Self { child, input, output, had: Vec::new() })
    }

    /// Whether a signal that this process has just got reached the witness, too.
    fn has(&mut self, number: i32) -> bool {
        // It answers behind the signals that it has got.
        let asked = self.input.as_mut().is_some_and(|input| input.write_all(b"\n").is_ok());
        let mut line = String::new();
        while asked && self.output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            match line.trim().parse() {
                Ok(number) => self.had.push((number, Instant::now())),
                Err(_) => break,
            }
            line.clear();
        }
        self.had.retain(|(_, at)| at.elapsed() < OUTDATED);
        let place = self.had.iter().position(|&(had, _)| had == number);
        place.map(|place| self.had.swap_remove(place)).is_some()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.input.take();
        // It ends with its input, and was not killed: its signals are those of the group.
        self.child.wait().ok();
    }
}
