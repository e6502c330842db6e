//! A process that already runs: the debugger gdb loads the library into it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::options::RecorderOptions;
use crate::recorded::RecordedProcess;
use crate::run::{RecordError, RecorderRun, RunningProcesses};
use crate::running::is_running;
use crate::symbols::LIBRARY_NAME;

/// How long the debugger waits for a call of `malloc`, at which no thread holds a lock of the allocator. An idle process makes none.
const WAIT_FOR_CALL: Duration = Duration::from_secs(2);
/// How long the debugger may take, and then the library.
const WAIT: Duration = Duration::from_secs(60);
const WAIT_FOR_RING: Duration = Duration::from_secs(15);

/// Why a process cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The recorder cannot start.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is no process with this id, or it has ended.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The process belongs to another user.
    #[error("process {process} belongs to user {user}: run vramscope as this user")]
    OtherUser {
        /// The process.
        process: u32,
        /// Its user's number.
        user: u32,
    },
    /// The system does not let this user debug the process.
    #[error(
        "the system does not allow to debug process {0}: set kernel.yama.ptrace_scope to 0 (sysctl), or give a container the capability SYS_PTRACE"
    )]
    NotPermitted(u32),
    /// The program does not use glibc as a shared library.
    #[error("process {0} is a static program, or does not use glibc: it cannot load the recorder")]
    Static(u32),
    /// The process has other folders, as in a container.
    #[error("process {process} cannot see {}: run vramscope in the same container", folder.display())]
    OtherFolders {
        /// The process.
        process: u32,
        /// The recorder's folder.
        folder: PathBuf,
    },
    /// The debugger is missing.
    #[error("gdb is not installed: it loads the recorder into the process")]
    NoDebugger,
    /// The process is recorded already.
    #[error("process {0} is recorded already")]
    Recorded(u32),
    /// The debugger or the library failed.
    #[error("cannot load the recorder into process {process}: {why}")]
    Failed {
        /// The process.
        process: u32,
        /// What they printed.
        why: String,
    },
}

/// A process that is recorded although it was not started with the recorder.
#[derive(Debug)]
pub struct AttachedProcess {
    recorder: RecorderRun,
    process: u32,
}

impl AttachedProcess {
    /// Loads the library into a process, and begins to record it to `out`.
    ///
    /// # Errors
    /// There is no such process or no gdb, the process is recorded already or cannot load the library, or the folder for temporary files
    /// cannot be used.
    pub fn attach(process: u32, out: &Path, options: RecorderOptions) -> Result<Self, AttachError> {
        let maps = check(process)?;
        let recorder = RecorderRun::start(out, options)?;
        let library = recorder.library();
        let seen = format!("/proc/{process}/root{}", library.display());
        let place = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        if place(seen.as_ref()).is_none_or(|seen| Some(seen) != place(&library)) {
            let folder = library.parent().unwrap_or(&library).to_owned();
            return Err(AttachError::OtherFolders { process, folder });
        }
        let call = format!(
            "set $r = ((int(*)(const char*, const char*))$f)({}, {})",
            quoted(&recorder.rings().to_string_lossy()),
            quoted(&recorder.stacks())
        );
        match debug(process, &maps, &recorder, true, &call)? {
            0 => {}
            1 | 2 => return Err(AttachError::Recorded(process)),
            other => {
                return Err(AttachError::Failed { process, why: format!("the library returned {other}") });
            }
        }
        let begin = Instant::now();
        // It has ended already if its log cannot be written.
        while !recorder.has_begun() && !recorder.has_ended(process) {
            if begin.elapsed() > WAIT_FOR_RING {
                let why = "the library did not begin to record".to_owned();
                return Err(AttachError::Failed { process, why });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { recorder, process })
    }

    /// The memory that the process holds, at any time.
    pub fn running(&self) -> RunningProcesses {
        self.recorder.running()
    }

    /// Whether the process still runs and is still recorded.
    pub fn is_recorded(&self) -> bool {
        !self.recorder.has_ended(self.process) && is_running(self.process)
    }

    /// Ends the recording, and closes the log. The library stays in the process and passes all calls on.
    ///
    /// The error says why the process was not detached. Its log is complete to this moment.
    pub fn finish(self) -> (Vec<RecordedProcess>, Option<AttachError>) {
        let Self { recorder, process } = self;
        let error = if !recorder.has_ended(process) && is_running(process) {
            detach(process, &recorder).err().filter(|_| is_running(process))
        } else {
            None
        };
        (recorder.finish(), error)
    }
}

fn detach(process: u32, recorder: &RecorderRun) -> Result<(), AttachError> {
    let maps = check(process)?;
    debug(process, &maps, recorder, false, "set $r = ((int(*)(void))$f)()")?;
    let begin = Instant::now();
    while !recorder.has_ended(process) && begin.elapsed() < WAIT_FOR_RING && is_running(process) {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Checks whether a process can load the library. Returns the list of its mapped files.
fn check(process: u32) -> Result<String, AttachError> {
    if !is_running(process) {
        return Err(AttachError::NoProcess(process));
    }
    let folder = fs::metadata(format!("/proc/{process}")).map_err(|_| AttachError::NoProcess(process))?;
    let user = folder.uid();
    if user != geteuid().as_raw() {
        return Err(AttachError::OtherUser { process, user });
    }
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AttachError::NotPermitted(process),
        _ => AttachError::NoProcess(process),
    })?;
    let is_glibc = files(&maps).any(|(_, name)| name.starts_with("libc.so.6") || name.starts_with("libc-2."));
    if is_glibc { Ok(maps) } else { Err(AttachError::Static(process)) }
}

/// The mapped files, as their ranges and names.
fn files(maps: &str) -> impl Iterator<Item = (&str, &str)> {
    maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        Some((range, rest.split_once('/')?.1.rsplit('/').next()?))
    })
}

/// A condition that is true where a function was called by code that holds no lock which the library needs: neither the loader, nor the C
/// library, nor the driver.
fn called_by_others(maps: &str) -> String {
    const CALLERS: [&str; 6] = ["ld-", "libc.so.", "libc-2.", "libcuda", "libnvidia-", LIBRARY_NAME];
    #[cfg(target_arch = "x86_64")]
    let caller = "*(unsigned long*)$rsp";
    #[cfg(not(target_arch = "x86_64"))]
    let caller = "(unsigned long)$x30";
    let mut condition = "1".to_owned();
    for (range, _) in files(maps).filter(|(_, name)| CALLERS.iter().any(|caller| name.starts_with(caller))) {
        if let Some((start, end)) = range.split_once('-') {
            write!(condition, " && !({caller} >= 0x{start}UL && {caller} < 0x{end}UL)").ok();
        }
    }
    condition
}

/// A text as the debugger reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Lines of the debugger's script that begin with this are for us.
const MARK: &str = "vramscope: ";

/// Calls the function of the library that attaches or detaches, and returns its result. The library is loaded if the process does not
/// have it.
fn debug(
    process: u32,
    maps: &str,
    recorder: &RecorderRun,
    attaches: bool,
    call: &str,
) -> Result<i64, AttachError> {
    let condition = called_by_others(maps);
    let stops = ["malloc", "calloc", "realloc", "free"]
        .map(|name| format!("break *(void*)&{name} if {condition}\n"))
        .concat();
    let (function, load) = if attaches {
        let path = quoted(&recorder.library().to_string_lossy());
        let load = format!("if $h == 0\nset $h = ((void*(*)(const char*, int))dlopen)({path}, 2)\nend\n");
        ("vramscope_recorder_attach_in_thread", load)
    } else {
        ("vramscope_recorder_detach_in_thread", String::new())
    };
    // Only the C library's symbols are read: reading those of all libraries takes long. The library that is loaded already has the mode
    // `RTLD_LAZY | RTLD_NOLOAD`.
    let script = format!(
        r#"set pagination off
set confirm off
set unwindonsignal on
handle all nostop noprint pass
sharedlibrary libc[.-]
sharedlibrary libdl[.-]
{stops}printf "{MARK}waiting\n"
continue
printf "{MARK}stopped\n"
delete
set $h = ((void*(*)(const char*, int))dlopen)("{LIBRARY_NAME}", 5)
{load}if $h == 0
printf "{MARK}dlopen %s\n", ((char*(*)(void))dlerror)()
else
set $f = ((void*(*)(void*, const char*))dlsym)($h, "{function}")
if $f == 0
printf "{MARK}dlopen another version of the recorder is loaded\n"
else
{call}
printf "{MARK}result %d\n", $r
end
end
detach
"#
    );
    let failed = |why: String| AttachError::Failed { process, why };
    let name = if attaches { "attach.gdb" } else { "detach.gdb" };
    let script = recorder.write(name, &script).map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new("gdb");
    for option in ["set auto-solib-add off", "set debuginfod enabled off", "set auto-load off"] {
        command.args(["-iex", option]);
    }
    command.args(["-nx", "-q", "-batch", "-p", &process.to_string(), "-x"]).arg(script);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in the terminal is for this command alone.
    command.process_group(0).env("LC_ALL", "C").env_remove("LD_PRELOAD");
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AttachError::NoDebugger,
        _ => failed(format!("gdb: {error}")),
    })?;
    let said = follow(&mut child);
    child.kill().ok();
    child.wait().ok();
    let (lines, errors) = said;
    let marked = |name: &str| lines.iter().find_map(|line| line.strip_prefix(MARK)?.strip_prefix(name));
    if let Some(result) = marked("result ") {
        return result.trim().parse().map_err(|_| failed(result.to_owned()));
    }
    if let Some(why) = marked("dlopen ") {
        return Err(failed(why.to_owned()));
    }
    if !is_running(process) {
        return Err(AttachError::NoProcess(process));
    }
    if errors.contains("ptrace: Operation not permitted") {
        return Err(AttachError::NotPermitted(process));
    }
    let why = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("gdb took too long");
    Err(failed(format!("gdb: {}", why.trim())))
}

/// Reads what the debugger prints until it ends, and interrupts a process that does not call `malloc`.
fn follow(child: &mut Child) -> (Vec<String>, String) {
    let (sender, lines) = mpsc::channel();
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()).flatten() {
            sender.send(line).ok();
        }
    });
    let error = child.stderr.take();
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        error.map(|mut error| error.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let begin = Instant::now();
    let mut said = Vec::<String>::new();
    let mut interrupt = None;
    while begin.elapsed() < WAIT {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => {
                // The program prints to its own terminal, so the line is the debugger's.
                match line.strip_prefix(MARK) {
                    Some("waiting") => interrupt = Some(Instant::now() + WAIT_FOR_CALL),
                    Some("stopped") => interrupt = None,
                    _ => {}
                }
                said.push(line);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if interrupt.is_some_and(|at| Instant::now() > at) {
            interrupt = Some(Instant::now() + WAIT_FOR_CALL);
            if let Some(debugger) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // The debugger stops the process.
                kill_process(debugger, Signal::INT).ok();
            }
        }
    }
    child.kill().ok();
    reader.join().ok();
    said.extend(lines.try_iter());
    (said, errors.join().unwrap_or_default())
}
