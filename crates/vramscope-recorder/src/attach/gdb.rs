//! Lets the debugger gdb call a function of the library in another process, which loads the library first if it has to.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{CallError, Called};
use crate::symbols::LIBRARY_NAME;

/// How long the debugger waits for a call of `malloc`, at which no thread holds a lock of the allocator. An idle process makes none.
const WAIT_FOR_CALL: Duration = Duration::from_secs(2);
/// How long the debugger may take.
const WAIT: Duration = Duration::from_secs(60);

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

/// Calls the function `texts[2]` of the library with two texts. `texts` begins with the name and the path of the library.
pub(super) fn call(process: u32, texts: [&str; 5]) -> Result<Called, CallError> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let condition = called_by_others(&maps);
    let stops = ["malloc", "calloc", "realloc", "free"]
        .map(|name| format!("break *(void*)&{name} if {condition}\n"))
        .concat();
    let [name, path, _, first, second] = texts.map(quoted);
    let function = quoted(&format!("{}_in_thread", texts[2]));
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
set $h = ((void*(*)(const char*, int))dlopen)({name}, 5)
if $h == 0
set $h = ((void*(*)(const char*, int))dlopen)({path}, 2)
end
if $h == 0
printf "{MARK}dlopen %s\n", ((char*(*)(void))dlerror)()
else
set $f = ((void*(*)(void*, const char*))dlsym)($h, {function})
if $f == 0
printf "{MARK}dlopen another version of the recorder is loaded\n"
else
set $r = ((int(*)(const char*, const char*))$f)({first}, {second})
printf "{MARK}result %d\n", $r
end
end
detach
"#
    );
    let begin = Instant::now();
    let failed = CallError::Other;
    let mut command = Command::new("gdb");
    for option in ["set auto-solib-add off", "set debuginfod enabled off", "set auto-load off"] {
        command.args(["-iex", option]);
    }
    command.args(["-nx", "-q", "-batch", "-p", &process.to_string(), "-x", "/dev/stdin"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in the terminal is for this command alone.
    command.process_group(0).env("LC_ALL", "C").env_remove("LD_PRELOAD");
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed("gdb is not installed".to_owned()),
        _ => failed(format!("gdb: {error}")),
    })?;
    // Without its script, it ends at once.
    child.stdin.take().map(|mut input| input.write_all(script.as_bytes()));
    let said = follow(&mut child);
    child.kill().ok();
    child.wait().ok();
    let (lines, errors) = said;
    let marked = |name: &str| lines.iter().find_map(|line| line.strip_prefix(MARK)?.strip_prefix(name));
    if let Some(result) = marked("result ") {
        let result = result.trim().parse().map_err(|_| failed(result.to_owned()))?;
        return Ok(Called { result, stopped: begin.elapsed() });
    }
    if let Some(why) = marked("dlopen ") {
        return Err(failed(why.to_owned()));
    }
    if errors.contains("ptrace: Operation not permitted") {
        return Err(CallError::NotPermitted);
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
