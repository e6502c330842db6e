//! Attaching to programs that are in the loader, in allocators and in calls of the system, and recorders that are killed while they attach.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the tests show how long programs were stopped")]

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vramscope_recorder::{AttachedProcess, RecorderOptions};

/// Each kind of work counts its rounds in a file, and ends the program if a call or a number is wrong.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long *rounds;
static void check(int holds, int code) { if (!holds) _exit(code); }
static void *looks_up(void *at) {
    for (;; rounds[0]++) check(dlsym(RTLD_DEFAULT, "strlen") != 0 && dlsym(RTLD_DEFAULT, "no such name") == 0, 3);
}
static void *loads(void *at) {
    for (;; rounds[1]++) {
        void *library = dlopen("libm.so.6", RTLD_NOW), *other = dlopen("./libother.so", RTLD_NOW);
        check(library && other && dlsym(library, "cos") && !dlclose(other) && !dlclose(library), 4);
    }
}
static void *allocates(void *at) {
    for (;; rounds[2]++) {
        void *all[64];
        for (int i = 0; i < 64; i++) memset(all[i] = malloc(1 + rounds[2] * 7919 * (i + 1) % 70000), i, 1);
        for (int i = 0; i < 64; i++) check(*(char *)all[i] == i, 5), free(all[i]);
    }
}
static void *computes(void *at) {
    for (;; rounds[3]++) {
        double sums[16] = { 0 };
        long number = rounds[3], copy = number;
        errno = 77;
        for (int i = 1; i < 100000; i++) for (int k = 0; k < 16; k++) sums[k] += 1.0 / (i + k), number = number * 31 + k;
        for (int i = 1; i < 100000; i++) for (int k = 0; k < 16; k++) sums[k] -= 1.0 / (i + k), copy = copy * 31 + k;
        for (int k = 0; k < 16; k++) check(sums[k] < 1e-9 && sums[k] > -1e-9, 6);
        check(number == copy && errno == 77, 7);
    }
}
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void *sleeps(void *at) {
    for (;; rounds[4]++) {
        struct timespec time = { 0, 20000000 };
        double begin = now();
        check(nanosleep(&time, 0) == 0 && now() - begin >= 0.0199, 8);
        begin = now();
        check(poll(0, 0, 20) == 0 && now() - begin >= 0.0199, 9);
    }
}
static void *reads(void *at) {
    int ends[2];
    char byte;
    pipe(ends);
    if (!fork()) for (;;) usleep(3000), check(write(ends[1], "x", 1) == 1 && getppid() != 1, 0);
    for (;; rounds[5]++) check(read(ends[0], &byte, 1) == 1, 10);
}
int main(int count, char **words) {
    void *(*works[])(void *) = { looks_up, loads, allocates, computes, sleeps, reads };
    int file = open("rounds", O_RDWR | O_CREAT, 0600);
    ftruncate(file, 4096);
    rounds = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (const char *work = words[1]; work[1]; work++) {
        pthread_t thread;
        pthread_create(&thread, 0, works[*work - '0'], 0);
    }
    works[words[1][strlen(words[1]) - 1] - '0'](0);
}"#;

struct Program {
    folder: tempfile::TempDir,
    child: Child,
    works: &'static str,
}

impl Program {
    /// Starts a program with these kinds of work, each in a thread.
    fn start(works: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cc = |arguments: &[&str]| {
            let status = Command::new("cc").current_dir(folder.path()).args(arguments).status().unwrap();
            assert!(status.success(), "cc {arguments:?}");
        };
        fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
        fs::write(folder.path().join("other.c"), "int other(void) { return 1; }").unwrap();
        cc(&["-shared", "-fPIC", "-o", "libother.so", "other.c"]);
        cc(&["-w", "-O2", "-o", "program", "program.c", "-lpthread", "-ldl"]);
        let mut command = Command::new(folder.path().join("program"));
        let child = command.arg(works).current_dir(folder.path()).spawn().unwrap();
        let mut this = Self { folder, child, works };
        this.works_on();
        this
    }

    /// Waits until each kind of work has made some rounds.
    fn works_on(&mut self) {
        let rounds = || -> Vec<u64> {
            let bytes = fs::read(self.folder.path().join("rounds")).unwrap_or_default();
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(*word.first_chunk().unwrap())).collect()
        };
        let mut before = rounds();
        before.resize(512, 0);
        let begin = Instant::now();
        loop {
            let status = self.child.try_wait().unwrap();
            assert!(status.is_none(), "{}: the program ended: {status:?}", self.works);
            let now = rounds();
            let work = |work: u8| now.get(usize::from(work - b'0')) > before.get(usize::from(work - b'0'));
            if self.works.bytes().all(work) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{}: {before:?} {now:?}", self.works);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Compares the code in memory with that in the files, up to the end of each page.
    fn has_the_code_of_its_files(&self) {
        let process = self.child.id();
        let memory = fs::File::open(format!("/proc/{process}/mem")).unwrap();
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let mut compared = 0;
        for line in maps.lines().filter(|line| line.contains("r-xp") && line.contains('/')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Ok(file) = fs::read(words[5]) else { continue };
            let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let (start, end) = words[0].split_once('-').unwrap();
            let (start, size, offset) =
                (number(start), number(end) - number(start), number(words[2]) as usize);
            let mut code = vec![0; size as usize];
            // The program may have unloaded it.
            if memory.read_exact_at(&mut code, start).is_err() {
                continue;
            }
            let of_file = &file[offset..file.len().min(offset + size as usize)];
            assert!(code[..of_file.len()] == *of_file, "{line}");
            compared += 1;
        }
        assert!(compared >= 3, "{maps}");
    }

    fn out(&self) -> std::path::PathBuf {
        self.folder.path().join("run.vramscope")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn times(name: &str, usual: u32) -> u32 {
    std::env::var(name).map_or(usual, |times| times.parse().unwrap())
}

/// `VRAMSCOPE_ATTACHES` sets how often.
#[test]
fn programs_in_the_loader_are_attached_to_and_go_on() {
    for works in ["0", "1", "10", "2", "3", "4", "5", "012345"] {
        let mut program = Program::start(works);
        let mut stopped = Vec::new();
        let begin = Instant::now();
        for _ in 0..times("VRAMSCOPE_ATTACHES", 3) {
            let attached =
                AttachedProcess::attach(program.child.id(), &program.out(), RecorderOptions::default());
            let attached = attached.unwrap_or_else(|error| panic!("{works}: {error}"));
            stopped.push(attached.stopped());
            program.works_on();
            let (_, error) = attached.finish();
            assert!(error.is_none(), "{works}: {error:?}");
            program.works_on();
        }
        program.has_the_code_of_its_files();
        stopped.sort();
        println!(
            "{works}: {} attaches in {:.1?}, stopped for {:.0?} in the middle, at most {:.0?}",
            stopped.len(),
            begin.elapsed(),
            stopped[stopped.len() / 2],
            stopped[stopped.len() - 1]
        );
    }
}

/// `VRAMSCOPE_KILLS` sets how often.
#[test]
fn programs_go_on_when_the_recorder_is_killed_while_it_attaches() {
    for works in ["1", "012345"] {
        let mut program = Program::start(works);
        let begin = Instant::now();
        let kills = times("VRAMSCOPE_KILLS", 5);
        for kill in 0..kills {
            let mut attach = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "attach_in_a_process_of_its_own", "--ignored"])
                .env("VRAMSCOPE_ATTACH_TO", program.child.id().to_string())
                .env("VRAMSCOPE_ATTACH_OUT", program.out())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(kill) * 7919 % 40_000));
            attach.kill().unwrap();
            attach.wait().unwrap();
            program.works_on();
        }
        println!("{works}: {kills} kills in {:.1?}", begin.elapsed());
        let attached =
            AttachedProcess::attach(program.child.id(), &program.out(), RecorderOptions::default());
        let (_, error) = attached.unwrap().finish();
        assert!(error.is_none(), "{error:?}");
        program.has_the_code_of_its_files();
        program.works_on();
    }
}

/// Attaches and detaches until it is killed.
#[test]
#[ignore = "started by another test"]
fn attach_in_a_process_of_its_own() {
    let (Ok(process), Some(out)) =
        (std::env::var("VRAMSCOPE_ATTACH_TO"), std::env::var_os("VRAMSCOPE_ATTACH_OUT"))
    else {
        return;
    };
    loop {
        let attached =
            AttachedProcess::attach(process.parse().unwrap(), Path::new(&out), RecorderOptions::default());
        if let Ok(attached) = attached {
            attached.finish();
        }
    }
}

#[test]
fn a_stopped_program_is_refused_and_stays_as_it_is() {
    let mut program = Program::start("4");
    let id = program.child.id();
    let send = |signal: &str| Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
    assert!(send("-STOP").success());
    std::thread::sleep(Duration::from_millis(50));
    let error = AttachedProcess::attach(id, &program.out(), RecorderOptions::default()).unwrap_err();
    assert!(error.to_string().contains("it is stopped"), "{error}");
    let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    assert!(state.contains(") T "), "{state}");
    assert!(send("-CONT").success());
    program.works_on();
    program.has_the_code_of_its_files();
}
