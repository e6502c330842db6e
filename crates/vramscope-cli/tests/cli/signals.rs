//! Signals, stops and ends of a program under `vramscope run`, beside those of a program under `env`.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::vramscope;

/// Counts its signals in a file, from the first on.
const COUNTS: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
unsigned char *counts;
void count(int number) { __atomic_add_fetch(&counts[number], 1, __ATOMIC_SEQ_CST); }
int main(int words, char **word) {
    int file = open(word[1], O_RDWR | O_CREAT, 0600);
    ftruncate(file, 4096);
    counts = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int number = 1; number < 32; number++) signal(number, count);
    counts[0] = 1;
    for (;;) pause();
}"#;

const SIGNALS: [(&str, usize); 16] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
];

/// `vramscope run` with a command in a process group of its own, without a log in the tests' folder.
fn recorded(folder: &Path, words: &[&str]) -> Command {
    let log = folder.join("run-%t.vramscope").display().to_string();
    let mut command = vramscope(&[&["run", "--record", &log, "--"], words].concat());
    command.process_group(0);
    command
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(signal: &str, to: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), "--", to]).status().unwrap();
    assert!(status.success());
}

/// A table of the signals that the program saw: those that were sent to the command, to its group, and one after the other to all processes.
#[test]
fn each_signal_reaches_the_program_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("counts.c"), COUNTS).unwrap();
    let status = Command::new("cc").args(["-w", "-o", &path("program"), &path("counts.c")]).status().unwrap();
    assert!(status.success());
    let mut table = String::from("signal  to the command  to the group  to each process\n");
    let mut command = recorded(folder.path(), &[&path("program"), &path("counts")]).spawn().unwrap();
    let counts = || fs::read(path("counts")).unwrap_or_default();
    wait_until("the program does not start", || counts().first() == Some(&1));
    let group = command.id().to_string();
    for (name, number) in SIGNALS {
        let mut seen = Vec::new();
        for how in 0..3 {
            let before = counts()[number];
            match how {
                0 => send(name, &group),
                1 => send(name, &format!("-{group}")),
                // As a service manager does.
                _ => {
                    let mut all = vec![group.clone()];
                    all.extend(children(command.id()).iter().map(u32::to_string));
                    let mut kill = Command::new("kill");
                    assert!(kill.arg(format!("-{name}")).args(&all).status().unwrap().success());
                }
            }
            wait_until(name, || counts()[number] > before);
            std::thread::sleep(Duration::from_millis(60));
            seen.push(counts()[number] - before);
        }
        table += &format!("{name:<8}{:<16}{:<14}{}\n", seen[0], seen[1], seen[2]);
    }
    kill(&mut command);
    insta::assert_snapshot!(table);
}

/// The processes that a process started.
fn children(process: u32) -> Vec<u32> {
    let text = fs::read_dir(format!("/proc/{process}/task"))
        .unwrap()
        .flatten()
        .map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    text.flat_map(|text| text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>())
        .collect()
}

/// Ends a command and its program.
fn kill(command: &mut Child) {
    send("KILL", &format!("-{}", command.id()));
    command.wait().unwrap();
}

#[test]
fn the_command_ends_as_its_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let ends = |script: &str| {
        let status = recorded(folder.path(), &["sh", "-c", script]).stderr(Stdio::null()).status().unwrap();
        let plain = Command::new("env").args(["sh", "-c", script]).stderr(Stdio::null()).status().unwrap();
        assert_eq!((status.code(), status.signal()), (plain.code(), plain.signal()), "{script}");
    };
    for code in ["exit 0", "exit 1", "exit 3", "exit 255"] {
        ends(code);
    }
    for signal in ["HUP", "INT", "QUIT", "ABRT", "SEGV", "BUS", "USR1", "PIPE", "ALRM", "TERM", "KILL"] {
        ends(&format!("ulimit -c 0; kill -{signal} $$"));
    }
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.vramscope").display().to_string();
    let mask = |command: &[&str]| {
        let script = format!("trap '' HUP USR1; exec {}", command.join(" "));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mask = u64::from_str_radix(text.split_whitespace().last().unwrap(), 16).unwrap();
        (mask & 1 != 0, mask >> 9 & 1 != 0, mask >> 14 & 1 != 0)
    };
    let program = ["grep", "SigIgn", "/proc/self/status"];
    let run = [env!("CARGO_BIN_EXE_vramscope"), "run", "--record", &log, "--"];
    assert_eq!(mask(&program), (true, true, false));
    assert_eq!(mask(&[&run[..], &program].concat()), (true, true, false));
}

/// As a shell does with Ctrl-Z, `bg` and `fg`.
#[test]
fn the_command_stops_and_continues_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = recorded(folder.path(), &["sleep", "1000"]).spawn().unwrap();
    let state = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    let is_sleep = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "sleep\n")
    };
    let mut program = None;
    wait_until("the program does not start", || {
        program = children(command.id()).into_iter().find(is_sleep);
        program.is_some()
    });
    let (own, program) = (command.id(), program.unwrap());
    for _ in 0..3 {
        send("TSTP", &format!("-{own}"));
        wait_until("it does not stop", || (state(own), state(program)) == ('T', 'T'));
        send("CONT", &format!("-{own}"));
        wait_until("it does not continue", || (state(own), state(program)) == ('S', 'S'));
    }
    // A process that stops the program alone continues it, too.
    send("STOP", &program.to_string());
    wait_until("it does not stop", || state(program) == 'T');
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(state(own), 'S');
    send("CONT", &program.to_string());
    kill(&mut command);
}
