//! C programs whose cuDNN is a small library: it prints what the phantom asks it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use vramscope_phantom::{
    MachineReport, PhantomGpu, PhantomOptions, PhantomRun, TimedAt, Unanswered, UnansweredKind,
};

/// `libcudnn_graph.so.9`: a descriptor is a pointer to its kind.
const GRAPH: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
size_t cudnnGetVersion(void) { return VERSION; }
size_t cudnnGetCudartVersion(void) { return 99000; }
int cudnnBackendCreateDescriptor(int kind, int **d) { *d = malloc(4); **d = kind; printf("create %d\n", kind); return 0; }
int cudnnBackendDestroyDescriptor(int *d) { printf("destroy %d\n", *d); free(d); return 0; }
int cudnnBackendFinalize(int *d) { printf("finalize %d\n", *d); return *d == 38 && REFUSES ? 2000 : 0; }
int cudnnBackendSetAttribute(int *d, int name, int type, long count, const void *value) {
    if (name == 2702) printf("device %.*s\n", (int)count, (const char *)value);
    else printf("set %d: %d, kind %d\n", *d, name, type == 15 ? **(int *const *)value : -1);
    return 0;
}
int cudnnBackendGetAttribute(int *d, int name, int type, long wanted, long *count, void *value) {
    printf("get %d: %d\n", *d, name);
    if (name == 303 && *d == 3) *(long *)value = 4242;
    if (name == 402) *(long *)value = 77;
    *count = 1;
    return 0;
}
void cudnnGetLastErrorString(char *text, size_t length) { strncpy(text, "not this engine", length); }
"#;

/// What a program links: a convolution's graph, its heuristics, and a plan that it executes.
const PROGRAM: &str = r#"#include <stdio.h>
#include <stdlib.h>
int cudnnBackendCreateDescriptor(int, void **), cudnnBackendDestroyDescriptor(void *), cudnnBackendFinalize(void *);
int cudnnBackendSetAttribute(void *, int, int, long, const void *);
int cudnnBackendGetAttribute(void *, int, int, long, long *, void *);
int cudnnBackendExecute(void *, void *, void *), cudnnCreate(void **);
void cudnnGetLastErrorString(char *, size_t);
int cudaEventCreate(void **), cudaEventRecord(void *, void *), cudaEventElapsedTime(float *, void *, void *);
static void *new(int kind) { void *d = 0; if (cudnnBackendCreateDescriptor(kind, &d)) exit(3); return d; }
static void set(void *d, int name, int type, void *value) { if (cudnnBackendSetAttribute(d, name, type, 1, &value)) exit(4); }
int main(int count, char **arguments) {
    long found = 0, bytes = -1, uid = -1;
    char text[100] = "";
    void *handle = 0, *graph = new(15), *heuristics = new(4), *config = new(3), *plan = new(5), *variant = new(16);
    cudnnCreate(&handle);
    set(graph, 800, 0, handle);
    cudnnBackendFinalize(graph);
    set(heuristics, 201, 15, graph);
    cudnnBackendFinalize(heuristics);
    cudnnBackendGetAttribute(heuristics, 202, 15, 1, &found, &config);
    set(plan, 400, 0, handle);
    set(plan, 401, 15, config);
    int status = cudnnBackendFinalize(plan);
    cudnnBackendGetAttribute(plan, 402, 3, 1, &found, &bytes);
    set(variant, 1003, 6, 0);
    cudnnBackendFinalize(variant);
    printf("%d, %ld bytes, executed: %d\n", status, bytes, cudnnBackendExecute(handle, plan, variant));
    if (count > 2) {
        void *start = 0, *end = 0;
        float milliseconds = 0;
        cudaEventCreate(&start), cudaEventCreate(&end);
        cudaEventRecord(start, 0);
        cudnnBackendExecute(handle, plan, variant);
        cudaEventRecord(end, 0);
        cudaEventElapsedTime(&milliseconds, start, end);
        printf("%.6f milliseconds\n", milliseconds);
    } else if (count > 1) {
        cudnnBackendGetAttribute(plan, 403, 3, 1, &found, &uid);
        cudnnBackendGetAttribute(plan, 402, 3, 1, &found, &bytes);
        printf("%ld bytes\n", bytes);
    }
    cudnnGetLastErrorString(text, sizeof text);
    printf("%s\n", text);
    cudnnBackendDestroyDescriptor(variant);
    cudnnBackendDestroyDescriptor(plan);
}"#;

/// The functions with a handle: a filter's gradient, whose descriptors are in another order than those of the forward convolution.
const ALGORITHM: &str = r#"#include <stdio.h>
#include <string.h>
int cudnnCreate(void **), cudnnSetTensorNdDescriptor(void *, int, int, const int *, const int *);
int cudnnSetFilterNdDescriptor(void *, int, int, int, const int *), cudnnSetConvolutionMathType(void *, int);
int cudnnSetConvolutionNdDescriptor(void *, int, const int *, const int *, const int *, int, int);
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *, void *, void *, void *, int, int *, void *);
int main() {
    int x[] = {1, 30, 256, 256}, y[] = {1, 16, 256, 256}, w[] = {16, 30, 3, 3}, one[] = {1, 1}, found = 0;
    int xs[] = {1966080, 65536, 256, 1}, ys[] = {1048576, 65536, 256, 1};
    struct { int algorithm, status; float time; size_t memory; int determinism, math, reserved[3]; } chosen;
    void *handle = 0, *dx = (void *)16, *dy = (void *)32, *dw = (void *)48, *convolution = (void *)64;
    cudnnCreate(&handle);
    cudnnSetTensorNdDescriptor(dx, 0, 4, x, xs), cudnnSetTensorNdDescriptor(dy, 0, 4, y, ys);
    cudnnSetFilterNdDescriptor(dw, 0, 0, 4, w);
    cudnnSetConvolutionNdDescriptor(convolution, 2, one, one, one, 1, 0);
    cudnnSetConvolutionMathType(convolution, 3);
    for (int i = 0; i < 2; i++) {
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, dx, dy, convolution, dw, 1, &found, &chosen);
        printf("%d: %zu bytes, math %d\n", found, chosen.memory, chosen.math);
    }
}"#;

fn cc(folder: &Path, arguments: &[&str]) {
    let status = Command::new("cc").current_dir(folder).args(arguments).status().unwrap();
    assert!(status.success(), "cc {arguments:?}");
}

/// A folder of NVIDIA's wheels, and that of cuDNN in it.
fn wheels() -> (tempfile::TempDir, PathBuf) {
    let wheels = tempfile::tempdir().unwrap();
    let folder = wheels.path().join("nvidia/cudnn/lib");
    std::fs::create_dir_all(&folder).unwrap();
    (wheels, folder)
}

/// Compiles the graph library of a version of cuDNN in a folder.
fn graph_library(folder: &Path, version: u32, refuses: bool) {
    std::fs::write(folder.join("graph.c"), GRAPH).unwrap();
    let (version, refuses) = (format!("-DVERSION={version}"), format!("-DREFUSES={}", i32::from(refuses)));
    cc(folder, &["-shared", "-fPIC", &version, &refuses, "-o", "libcudnn_graph.so.9", "graph.c"]);
    // cuDNN loads this library.
    let blas = folder.join("../../cublas/lib");
    std::fs::create_dir_all(&blas).unwrap();
    cc(
        folder,
        &[
            "-shared",
            "-fPIC",
            "-DVERSION=0",
            "-DREFUSES=0",
            "-o",
            "../../cublas/lib/libcublasLt.so.99",
            "graph.c",
        ],
    );
}

/// Compiles the program in a folder, linked to a `libcudnn.so.9` there.
fn program(folder: &Path) {
    compile(folder, PROGRAM);
}

fn compile(folder: &Path, program: &str) {
    let functions = "cudnnBackendCreateDescriptor cudnnBackendDestroyDescriptor cudnnBackendFinalize
        cudnnBackendSetAttribute cudnnBackendGetAttribute cudnnBackendExecute cudnnCreate cudnnGetLastErrorString
        cudnnSetTensorNdDescriptor cudnnSetFilterNdDescriptor cudnnSetConvolutionMathType cudnnSetConvolutionNdDescriptor
        cudnnGetConvolutionBackwardFilterAlgorithm_v7 cudaEventCreate cudaEventRecord cudaEventElapsedTime";
    let functions = functions.split_whitespace().map(|name| format!("int {name}(void) {{ return 0; }}\n"));
    let library = functions.collect::<String>() + "long cudnnGetVersion(void) { return 90501; }\n";
    std::fs::write(folder.join("library.c"), library).unwrap();
    std::fs::write(folder.join("program.c"), program).unwrap();
    cc(folder, &["-shared", "-fPIC", "-Wl,-soname,libcudnn.so.9", "-o", "libcudnn.so.9", "library.c"]);
    cc(folder, &["-w", "-o", "program", "program.c", "-L.", "-l:libcudnn.so.9", "-Wl,-rpath,$ORIGIN"]);
}

/// Runs the program on a GPU; returns its output, and what the phantom left out or modeled.
fn run(folder: &Path, capability: u32, cudnn: Option<&Path>) -> (String, Vec<Unanswered>) {
    let mut options = PhantomOptions::default();
    options.cudnn = cudnn.map(Path::to_owned);
    let (said, report) = run_with(folder, capability, options, &[]);
    (said, report.unanswered)
}

fn run_with(
    folder: &Path,
    capability: u32,
    options: PhantomOptions,
    arguments: &[&str],
) -> (String, MachineReport) {
    let gpu = PhantomGpu {
        name: "NVIDIA \"Test\"".to_owned(),
        total_bytes: 24 << 30,
        context_bytes: 100 << 20,
        compute_capability: capability,
        multiprocessors: 108,
        threads_per_multiprocessor: 2048,
        blocks_per_multiprocessor: 32,
        shared_per_multiprocessor_bytes: 164 << 10,
        shared_per_block_bytes: 163 << 10,
        l2_bytes: 40 << 20,
        bus_bits: 5120,
        is_integrated: false,
        mig: None,
    };
    let run = PhantomRun::new(&[gpu], options).unwrap();
    let mut command = Command::new(folder.join("program"));
    let output = command.args(arguments).envs(run.environment()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    (String::from_utf8(output.stdout).unwrap(), run.report().unwrap())
}

const ASKED: &str = "set 4: 201, kind 15
set 4: 204, kind 38
finalize 4
get 4: 202
set 5: 407, kind 38
set 5: 401, kind 3
get 3: 303
0, 4242 bytes, executed: 0
";

#[test]
fn the_own_cudnn_answers_with_a_device_in_the_place_of_the_handle() {
    let (_kept, folder) = wheels();
    program(&folder);
    graph_library(&folder, 90_800, false);
    let (said, report) = run_with(&folder, 80, PhantomOptions::default(), &["more"]);
    assert!(said.contains(ASKED), "{said}");
    for property in [
        "\"smVersion\":800",
        "\"deviceVer\":800",
        "\"multiProcessorCount\":108",
        "\"totalGlobalMem\":25769803776",
        "\"deviceName\":\"NVIDIA Test\"",
        "\"maxSharedMemoryPerBlockOptin\":166912",
    ] {
        assert!(said.lines().any(|line| line.starts_with("device {") && line.contains(property)), "{said}");
    }
    // The handle of the graph has no successor, and a variant stays with the phantom.
    assert!(!said.contains("800, kind") && !said.contains("create 16"), "{said}");
    // Other attributes of a plan need the finalized plan.
    assert!(
        said.ends_with("finalize 5\nget 5: 403\nget 5: 402\n77 bytes\nnot this engine\ndestroy 5\n"),
        "{said}"
    );
    assert_eq!(report.unanswered, []);
}

#[test]
fn a_cudnn_that_does_not_answer_is_left_out_by_name() {
    let cases = [
        (80, Some((90_501, false)), "workspaces of cuDNN 9.5.1, older than 9.8.0"),
        (100, Some((91_002, false)), "workspaces of cuDNN 9.10.2 at compute capability 10.0"),
        (80, Some((92_800, true)), "workspaces of cuDNN 9.28.0, which refuses the GPU"),
        (80, None, "workspaces of cuDNN: libcudnn_graph.so.9 does not load"),
    ];
    for (capability, library, left_out) in cases {
        let (_kept, folder) = wheels();
        program(&folder);
        if let Some((version, refuses)) = library {
            graph_library(&folder, version, refuses);
        }
        let (said, unanswered) = run(&folder, capability, None);
        assert!(
            said.ends_with("0, 0 bytes, executed: 0\nrefused by the phantom GPU\n"),
            "{left_out}: {said}"
        );
        let names: Vec<_> = unanswered.iter().map(|call| (&*call.name, call.calls, call.kind)).collect();
        assert_eq!(names, [(left_out, 1, UnansweredKind::LeftOut)]);
    }
    let (kept, folder) = wheels();
    program(&folder);
    graph_library(&folder, 92_600, false);
    std::fs::remove_dir_all(kept.path().join("nvidia/cublas")).unwrap();
    let (_, unanswered) = run(&folder, 80, None);
    assert_eq!(unanswered[0].name, "workspaces of cuDNN 9.26.0, which needs libcublasLt.so.99");
}

#[test]
fn another_cudnn_is_a_model() {
    let ((_kept, folder), (_also, other)) = (wheels(), wheels());
    program(&folder);
    graph_library(&folder, 90_501, false);
    graph_library(&other, 92_600, false);
    let wheel = folder.join("../../../nvidia_cudnn_cu12-9.5.1.17.dist-info");
    std::fs::create_dir(&wheel).unwrap();
    for path in [other.clone(), other.join("libcudnn_graph.so.9")] {
        let (said, unanswered) = run(&folder, 80, Some(&path));
        assert!(said.contains(ASKED), "{said}");
        let names: Vec<_> = unanswered.iter().map(|call| (&*call.name, call.calls, call.kind)).collect();
        let model = "workspaces of cuDNN 9.5.1, by cuDNN 9.26.0";
        assert_eq!(names, [(model, 1, UnansweredKind::Modeled)]);
    }
}

/// A program that measures plans chooses the fastest. On a phantom GPU, that is the one with the smallest workspace, or with the largest.
#[test]
fn the_time_of_plans_follows_from_their_workspaces() {
    let (_kept, folder) = wheels();
    program(&folder);
    graph_library(&folder, 92_600, false);
    for (large_workspaces, expected) in [(false, "\n0.004243 milliseconds"), (true, "\n17179.8")] {
        let mut options = PhantomOptions::default();
        options.large_workspaces = large_workspaces;
        let (said, report) = run_with(&folder, 80, options, &["measure", "time"]);
        assert!(said.contains(expected), "{said}");
        assert_eq!(report.timed_at, [TimedAt { line: "the program".to_owned(), plans: 1 }]);
    }
}

/// The graph is made once for equal convolutions.
#[test]
fn functions_with_a_handle_have_the_workspace_of_an_equal_graph() {
    let (_kept, folder) = wheels();
    compile(&folder, ALGORITHM);
    graph_library(&folder, 92_600, false);
    let (said, report) = run_with(&folder, 80, PhantomOptions::default(), &[]);
    assert_eq!(said.matches("1: 4242 bytes, math 3\n").count(), 2, "{said}");
    let operation = "set 11: 714, kind 1\nset 11: 715, kind 17\nset 11: 716, kind 17\nset 11: 717, kind 17\n";
    assert_eq!(said.matches(operation).count(), 1, "{said}");
    assert_eq!(said.matches("create ").count(), said.matches("destroy ").count() + 1, "{said}");
    let calls: Vec<_> = report.unanswered.iter().map(|call| (&*call.name, call.calls, call.kind)).collect();
    assert_eq!(calls, [("algorithms of convolutions", 2, UnansweredKind::Modeled)]);
}
