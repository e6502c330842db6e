//! Programs in C on phantom GPUs: calls that are not known, memory that processes share.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use vramscope_phantom::{PhantomGpu, PhantomOptions, PhantomRun};

fn run() -> PhantomRun {
    let gpu = PhantomGpu {
        name: "NVIDIA Test".to_owned(),
        total_bytes: 1 << 30,
        context_bytes: 100 << 20,
        compute_capability: 90,
        multiprocessors: 10,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor_bytes: 228 << 10,
        shared_per_block_bytes: 227 << 10,
        l2_bytes: 50 << 20,
        bus_bits: 5120,
        is_integrated: false,
    };
    PhantomRun::new(&[gpu], PhantomOptions::default()).unwrap()
}

/// Compiles a program of C in `folder` that is linked to a library `libcudart.so` there with these functions.
fn compile(folder: &Path, library: &str, program: &str, link: &[&str]) {
    std::fs::write(folder.join("library.c"), library).unwrap();
    std::fs::write(folder.join("program.c"), program).unwrap();
    let cc = |arguments: &[&str]| {
        let status = Command::new("cc").current_dir(folder).args(arguments).status().unwrap();
        assert!(status.success(), "cc {arguments:?}");
    };
    cc(&["-shared", "-fPIC", "-o", "libfake.so", "library.c"]);
    cc(&[&["-o", "program", "program.c", "-L.", "-lfake", "-Wl,-rpath,$ORIGIN"], link].concat());
}

const LIBRARY: &str = "void *__cudaRegisterFatBinary(void *p) { return p; }
int cudaFrobnicate(int n) { return 0; }
int cudnnFrobnicate(void) { return 0; }
int theirs(void) { return 7; }";

const PROGRAM: &str = r#"#include <stdio.h>
void *__cudaRegisterFatBinary(void *);
int cudaFrobnicate(int), cudnnFrobnicate(void), theirs(void);
int main() {
    __cudaRegisterFatBinary(0);
    int first = cudaFrobnicate(1), again = cudaFrobnicate(2), other = cudnnFrobnicate();
    printf("%d %d %d %d\n", first, again, other, theirs());
}"#;

#[test]
fn a_linked_function_that_is_not_known_says_so() {
    for link in ["-Wl,-z,now", "-Wl,-z,lazy"] {
        let folder = tempfile::tempdir().unwrap();
        compile(folder.path(), LIBRARY, PROGRAM, &[link]);
        let run = run();
        let output = Command::new(folder.path().join("program")).envs(run.environment()).output().unwrap();
        // cudaErrorNotSupported and CUDNN_STATUS_NOT_SUPPORTED; what is nobody's of NVIDIA's is left alone.
        assert_eq!(String::from_utf8_lossy(&output.stdout), "801 801 3000 7\n", "{link}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("cudaFrobnicate: this call is not known here").count(), 1, "{said}");
        let unanswered = run.report().unwrap().unanswered;
        let calls: Vec<(&str, u64, bool)> =
            unanswered.iter().map(|call| (call.name.as_str(), call.calls, call.is_refused)).collect();
        assert_eq!(calls, [("cudaFrobnicate", 2, false), ("cudnnFrobnicate", 1, false)]);
    }
}

/// Every function that the driver is asked for by name can be called.
#[test]
fn a_name_that_is_looked_up_and_not_known_can_be_called() {
    let program = r#"#include <stdio.h>
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int main() {
    int (*known)(int *) = 0, (*unknown)(void) = 0;
    int status = -1, count = 0;
    cuGetProcAddress_v2("cuDeviceGetCount", (void **)&known, 13000, 0, &status);
    cuGetProcAddress_v2("cuFrobnicate", (void **)&unknown, 13000, 0, &status);
    int code = known(&count);
    printf("%d %d %d\n", code, count, unknown());
}"#;
    let folder = tempfile::tempdir().unwrap();
    let library =
        "int cuGetProcAddress_v2(const char *a, void **b, int c, unsigned long long d, int *e) { return 1; }";
    compile(folder.path(), library, program, &[]);
    let run = run();
    let output = Command::new(folder.path().join("program")).envs(run.environment()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 1 801\n", "{output:?}");
    assert_eq!(run.report().unwrap().unanswered[0].name, "cuFrobnicate");
}

/// Bytes of a process that was killed come back when the next one looks.
#[test]
fn what_a_killed_process_held_comes_back() {
    let program = r#"#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cudaMalloc(void **, size_t), cudaMemGetInfo(size_t *, size_t *);
int main(int count, char **arguments) {
    void *at = 0;
    size_t free = 0, total = 0;
    int code = cudaMalloc(&at, (size_t)atoi(arguments[1]) << 20);
    cudaMemGetInfo(&free, &total);
    printf("%d %zu\n", code, free >> 20);
    fflush(stdout);
    if (count > 2) kill(getpid(), SIGKILL);
}"#;
    let folder = tempfile::tempdir().unwrap();
    let library = "int cudaMalloc(void **a, unsigned long b) { return 1; }
int cudaMemGetInfo(unsigned long *a, unsigned long *b) { return 1; }";
    compile(folder.path(), library, program, &[]);
    let run = run();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(folder.path().join("program"));
        let output = command.args(arguments).envs(run.environment()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // 1024 MiB, 100 of them for the context.
    assert_eq!(start(&["900", "killed"]), "0 24\n");
    assert_eq!(run.report().unwrap().gpus[0].used_bytes, 1000 << 20);
    assert_eq!(start(&["925"]), "2 924\n");
    assert_eq!(start(&["900"]), "0 24\n");
    let report = run.report().unwrap();
    assert_eq!((report.gpus[0].used_bytes, report.gpus[0].peak_bytes), (0, 1000 << 20));
    assert_eq!((report.counts.killed, report.counts.out_of_memory), (1, 1));
}
