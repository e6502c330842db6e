//! C programs on phantom GPUs: unknown calls, memory shared by processes, ranks, visible devices.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use vramscope_phantom::{PhantomGpu, PhantomOptions, PhantomRun, UnansweredKind};

fn run() -> PhantomRun {
    machine(1, 1 << 30, PhantomOptions::default())
}

fn machine(gpus: usize, total_bytes: u64, options: PhantomOptions) -> PhantomRun {
    let gpu = PhantomGpu {
        name: "NVIDIA Test".to_owned(),
        total_bytes,
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
        mig: None,
    };
    PhantomRun::new(&vec![gpu; gpus], options).unwrap()
}

/// Compiles a C program in `folder`, linked to a `libfake.so` with the functions of `library`.
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
fn an_unknown_linked_function_reports_its_name() {
    for link in ["-Wl,-z,now", "-Wl,-z,lazy"] {
        let folder = tempfile::tempdir().unwrap();
        compile(folder.path(), LIBRARY, PROGRAM, &[link]);
        let run = run();
        let output = Command::new(folder.path().join("program")).envs(run.environment()).output().unwrap();
        // cudaErrorNotSupported and CUDNN_STATUS_NOT_SUPPORTED. Functions of other vendors stay as they are.
        assert_eq!(String::from_utf8_lossy(&output.stdout), "801 801 3000 7\n", "{link}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("cudaFrobnicate: unknown call").count(), 1, "{said}");
        let unanswered = run.report().unwrap().unanswered;
        let calls: Vec<_> = unanswered.iter().map(|call| (&*call.name, call.calls, call.kind)).collect();
        let unknown = UnansweredKind::Unknown;
        assert_eq!(calls, [("cudaFrobnicate", 2, unknown), ("cudnnFrobnicate", 1, unknown)]);
    }
}

/// A lookup by name always returns a callable function.
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

/// A refused call does not hide an earlier revision of it.
#[test]
fn every_name_of_the_driver_exists_and_a_lookup_prefers_what_works() {
    let program = r#"#include <dlfcn.h>
#include <stdio.h>
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int main() {
    const char *names[] = {"cuLinkCreate", "cuLinkAddData", "cuLibraryLoadFromFile", "cuKernelSetAttribute",
        "cuOccupancyMaxPotentialClusterSize", "cuArray3DCreate_v2", "cuUserObjectCreate", "cuTexRefSetArray"};
    int found = 0, blocks = 0, status = -1;
    for (int i = 0; i < 8; i++) found += dlsym(RTLD_DEFAULT, names[i]) != 0;
    int (*advise)(void) = dlsym(RTLD_DEFAULT, "cuMemAdvise_v2");
    int (*cluster)(int *, void *, void *) = dlsym(RTLD_DEFAULT, "cuOccupancyMaxPotentialClusterSize");
    int (*create)(void **, unsigned, int) = 0;
    void *context = 0;
    // The phantom implements the second of four revisions.
    cuGetProcAddress_v2("cuCtxCreate", (void **)&create, 13000, 0, &status);
    int clusters = cluster(&blocks, 0, 0);
    printf("%d %d %d %d %d\n", found, advise(), clusters, blocks, create(&context, 0, 0));
}"#;
    let folder = tempfile::tempdir().unwrap();
    let library =
        "int cuGetProcAddress_v2(const char *a, void **b, int c, unsigned long long d, int *e) { return 1; }";
    compile(folder.path(), library, program, &["-ldl"]);
    let run = run();
    let output = Command::new(folder.path().join("program")).envs(run.environment()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "8 801 0 8 0\n", "{output:?}");
    let unanswered = run.report().unwrap().unanswered;
    assert_eq!((&*unanswered[0].name, unanswered[0].kind), ("cuMemAdvise_v2", UnansweredKind::Refused));
}

/// The recorder turns on PyTorch's history before any memory is allocated.
#[test]
fn a_function_is_called_once_before_the_first_allocation() {
    let program = r#"#include <stdio.h>
int cudaMalloc(void **, unsigned long);
void vramscope_phantom_before_memory(void (*)(void));
static int calls = 0;
static void *at = 0;
static void call(void) { calls++; printf("%d, ", at == 0); }
int main() {
    vramscope_phantom_before_memory(call);
    cudaMalloc(&at, 1);
    cudaMalloc(&at, 1);
    vramscope_phantom_before_memory(0);
    cudaMalloc(&at, 1);
    printf("%d call\n", calls);
}"#;
    let folder = tempfile::tempdir().unwrap();
    let library = "int cudaMalloc(void **a, unsigned long b) { return 1; }
void vramscope_phantom_before_memory(void (*a)(void)) {}";
    compile(folder.path(), library, program, &[]);
    let output = Command::new(folder.path().join("program")).envs(run().environment()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1, 1 call\n", "{output:?}");
}

/// NVIDIA's own libraries contain its runtime, too, and the phantom replaces them.
#[test]
fn a_library_that_contains_the_runtime_is_named_unless_it_is_nvidias() {
    let library = "int cuGetExportTable(void **, void *);
int theirs(void) { void *table = 0; return cuGetExportTable(&table, 0); }";
    let program = "#include <stdio.h>\nint theirs(void);\nint main() { printf(\"%d\\n\", theirs()); }";
    for (name, is_named) in [("libfake.so", true), ("libcudnn_graph.so.9", false)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("library.c"), library).unwrap();
        std::fs::write(folder.path().join("program.c"), program).unwrap();
        let cc = |arguments: &[&str]| {
            assert!(
                Command::new("cc").current_dir(folder.path()).args(arguments).status().unwrap().success()
            );
        };
        cc(&["-shared", "-fPIC", "-o", name, &format!("-Wl,-soname,{name}"), "library.c"]);
        let unresolved = "-Wl,--unresolved-symbols=ignore-all";
        cc(&["-o", "program", "program.c", &format!("./{name}"), unresolved, "-Wl,-rpath,$ORIGIN"]);
        let output = Command::new(folder.path().join("program")).envs(run().environment()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "801\n", "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains(&format!("{name} contains NVIDIA's runtime")), is_named, "{said}");
        assert_eq!(said.is_empty(), !is_named, "{said}");
    }
}

/// The memory of a killed process is freed when the next process needs it.
#[test]
fn the_memory_of_a_killed_process_is_freed() {
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
    // 1024 MiB, of which the context takes 100.
    assert_eq!(start(&["900", "killed"]), "0 24\n");
    assert_eq!(run.report().unwrap().gpus[0].used_bytes, 1000 << 20);
    assert_eq!(start(&["925"]), "2 924\n");
    assert_eq!(start(&["900"]), "0 24\n");
    let report = run.report().unwrap();
    assert_eq!((report.gpus[0].used_bytes, report.gpus[0].peak_bytes), (0, 1000 << 20));
    assert_eq!((report.counts.killed, report.counts.out_of_memory), (1, 1));
}

/// Functions that the programs link, and that the phantom implements.
const CUDA: &str = "typedef struct { char bytes[128]; } id;
int cudaSetDevice(int a) { return 1; } int cudaGetDeviceCount(int *a) { return 1; } int cudaGetDevice(int *a) { return 1; }
int cudaDeviceGetPCIBusId(char *a, int b, int c) { return 1; } int nvmlDeviceGetCount_v2(unsigned *a) { return 1; }
int cudaMalloc(void **a, unsigned long b) { return 1; } int cudaMemcpy(void *a, void *b, unsigned long c, int d) { return 1; }
int cudaStreamSynchronize(void *a) { return 1; } int ncclGetUniqueId(id *a) { return 1; }
int ncclCommInitRank(void **a, int b, id c, int d) { return 1; }
int ncclCommSplit(void *a, int b, int c, void **d, void *e) { return 1; }
int ncclCommCount(void *a, int *b) { return 1; } int ncclCommUserRank(void *a, int *b) { return 1; }
int ncclAllReduce(void *a, void *b, long c, int d, int e, void *f, void *g) { return 1; }
int ncclAllGather(void *a, void *b, long c, int d, void *e, void *f) { return 1; }
int ncclBroadcast(void *a, void *b, long c, int d, int e, void *f, void *g) { return 1; }
int ncclSend(void *a, long b, int c, int d, void *e, void *f) { return 1; }
int ncclRecv(void *a, long b, int c, int d, void *e, void *f) { return 1; }
int ncclCommDestroy(void *a) { return 1; }";

/// `program RANK RANKS FILE`: each rank sends 10 plus its number. The first one writes the id to FILE.
const RANK: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct { char bytes[128]; } id;
int cudaSetDevice(int), cudaMalloc(void *, size_t), cudaMemcpy(void *, void *, size_t, int), cudaStreamSynchronize(void *);
int ncclGetUniqueId(id *), ncclCommInitRank(void *, int, id, int), ncclCommSplit(void *, int, int, void *, void *);
int ncclCommCount(void *, int *), ncclCommUserRank(void *, int *), ncclCommDestroy(void *);
int ncclAllReduce(void *, void *, size_t, int, int, void *, void *), ncclAllGather(void *, void *, size_t, int, void *, void *);
int ncclBroadcast(void *, void *, size_t, int, int, void *, void *);
int ncclSend(void *, size_t, int, int, void *, void *), ncclRecv(void *, size_t, int, int, void *, void *);
static void *communicator, *half;
static long *device, said, got[8];
static void print(const char *what, int count) {
    cudaMemcpy(got, device + 1, 8 * count, 2);
    printf("%s", what);
    for (int i = 0; i < count; i++) printf(" %ld", got[i]);
    printf("\n");
}
int main(int count, char **arguments) {
    int rank = atoi(arguments[1]), ranks = atoi(arguments[2]), size, place;
    id name;
    char path[4096];
    snprintf(path, sizeof path, "%s.part", arguments[3]);
    if (rank == 0 || count > 4) {
        ncclGetUniqueId(&name);
        FILE *out = fopen(path, "w");
        fwrite(&name, 1, sizeof name, out);
        fclose(out);
        rename(path, arguments[3]);
    }
    FILE *in;
    while (!(in = fopen(arguments[3], "r"))) usleep(1000);
    fread(&name, 1, sizeof name, in);
    if (cudaSetDevice(count > 4 ? 0 : rank) || ncclCommInitRank(&communicator, ranks, name, rank)) return 1;
    cudaMalloc(&device, 1000);
    said = 10 + rank;
    cudaMemcpy(device, &said, 8, 1);
    // 4 is an integer of 64 bits; 0 is their sum.
    ncclAllReduce(device, device + 1, 1, 4, 0, communicator, 0);
    cudaStreamSynchronize(0);
    print("sum", 1);
    ncclAllGather(device, device + 1, 1, 4, communicator, 0);
    print("all", ranks);
    ncclBroadcast(device, device + 1, 1, 4, 1, communicator, 0);
    print("second", 1);
    ncclRecv(device + 1, 1, 4, (rank + 1) % ranks, communicator, 0);
    ncclSend(device, 1, 4, (rank + ranks - 1) % ranks, communicator, 0);
    print("next", 1);
    // Backwards: the last of a half is its first.
    ncclCommSplit(communicator, rank % 2, -rank, &half, 0);
    ncclCommCount(half, &size);
    ncclCommUserRank(half, &place);
    printf("half %d %d\n", size, place);
    ncclAllGather(device, device + 1, 1, 4, half, 0);
    print("half", size);
    ncclCommDestroy(half);
    ncclCommDestroy(communicator);
}"#;

#[test]
fn ranks_exchange_values_of_their_hosts() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), CUDA, RANK, &[]);
    let run = machine(4, 4 << 30, PhantomOptions::default());
    let start = |rank: usize| {
        let mut command = Command::new(folder.path().join("program"));
        command.args([&rank.to_string(), "4"]).arg(folder.path().join("id")).envs(run.environment());
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let ranks: Vec<_> = [3, 1, 0, 2].map(|rank| (rank, start(rank))).into();
    for (rank, program) in ranks {
        let said = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
        let (next, half) = (10 + (rank + 1) % 4, [if rank % 2 == 0 { "12 10" } else { "13 11" }, "1", "0"]);
        let place = half[if rank < 2 { 1 } else { 2 }];
        let expected =
            format!("sum 46\nall 10 11 12 13\nsecond 11\nnext {next}\nhalf 2 {place}\nhalf {}\n", half[0]);
        assert_eq!(said, expected, "rank {rank}");
    }
    let report = run.report().unwrap();
    assert_eq!(report.counts.collectives, 4 * 6);
    for gpu in report.gpus {
        // A context and communicators of 4 and 2 ranks, which were destroyed.
        assert!(gpu.peak_communication_bytes > 512 << 20, "{gpu:?}");
        assert!(gpu.peak_bytes > gpu.peak_communication_bytes + (100 << 20), "{gpu:?}");
        assert_eq!(gpu.used_bytes, 0);
    }
}

#[test]
fn pretended_ranks_repeat_the_values_of_the_real_one() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), CUDA, RANK, &[]);
    let mut options = PhantomOptions::default();
    options.pretend_ranks = true;
    let run = machine(1, 4 << 30, options);
    let mut command = Command::new(folder.path().join("program"));
    command.args(["3", "4"]).arg(folder.path().join("id")).arg("alone").envs(run.environment());
    let output = command.output().unwrap();
    // A pretended rank sends nothing.
    let expected = "sum 52\nall 13 13 13 13\nsecond 13\nnext 0\nhalf 4 3\nhalf 13 13 13 13\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{output:?}");
}

#[test]
fn a_program_sees_the_devices_that_it_may_see_and_nvml_all() {
    let program = r#"#include <stdio.h>
int cudaGetDeviceCount(int *), cudaSetDevice(int), cudaGetDevice(int *), cudaDeviceGetPCIBusId(char *, int, int);
int nvmlDeviceGetCount_v2(unsigned *);
int main() {
    int count = -1, current = -1;
    unsigned all = 0;
    char bus[16] = "none";
    cudaGetDeviceCount(&count);
    nvmlDeviceGetCount_v2(&all);
    cudaDeviceGetPCIBusId(bus, 16, 0);
    int last = cudaSetDevice(count - 1), beyond = cudaSetDevice(count);
    cudaGetDevice(&current);
    printf("%d %u %s %d %d %d", count, all, bus, last, beyond, current);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), CUDA, program, &[]);
    let run = machine(4, 4 << 30, PhantomOptions::default());
    // cudaErrorInvalidDevice is 101.
    for (visible, expected) in [
        (None, "4 4 0000:01:00.0 0 101 3"),
        (Some("2,1"), "2 4 0000:03:00.0 0 101 1"),
        (Some("GPU-7672616d-7363-6f70-6570-68616e746f03"), "1 4 0000:04:00.0 0 101 0"),
        (Some(""), "0 4 none 101 101 0"),
    ] {
        let mut command = Command::new(folder.path().join("program"));
        command.envs(run.environment()).env_remove("CUDA_VISIBLE_DEVICES");
        let output = command.envs(visible.map(|visible| ("CUDA_VISIBLE_DEVICES", visible))).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{visible:?}: {output:?}");
    }
}

/// `cudaMemGetInfo` is counted, with the calling program. NVML in a process without a context is not: that is a monitor.
#[test]
fn queries_of_free_memory_are_counted_with_the_program() {
    let library = "int cudaMemGetInfo(unsigned long *a, unsigned long *b) { return 1; }
int nvmlDeviceGetHandleByIndex_v2(unsigned a, void **b) { return 1; }
int nvmlDeviceGetMemoryInfo(void *a, unsigned long *b) { return 1; }";
    let program = r#"#include <stddef.h>
int cudaMemGetInfo(size_t *, size_t *), nvmlDeviceGetHandleByIndex_v2(unsigned, void **);
int nvmlDeviceGetMemoryInfo(void *, size_t *);
int main(int count, char **arguments) {
    void *handle;
    size_t memory[3];
    nvmlDeviceGetHandleByIndex_v2(0, &handle);
    nvmlDeviceGetMemoryInfo(handle, memory);
    if (count > 1) cudaMemGetInfo(memory, memory + 1), cudaMemGetInfo(memory, memory + 1);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), library, program, &[]);
    let run = run();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(folder.path().join("program"));
        assert!(command.args(arguments).envs(run.environment()).status().unwrap().success());
        let asked = run.report().unwrap().asked_memory_at;
        asked.into_iter().map(|at| (at.line, at.calls)).collect::<Vec<_>>()
    };
    assert!(start(&[]).is_empty());
    assert_eq!(start(&["cuda"]), [("program".to_owned(), 2)]);
}

/// Copies zeros, then one nonzero byte per page, then reads back. Prints whether its memory grew, and the comparison of the
/// bytes.
const COPIES: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/mman.h>
int cudaMalloc(void *, size_t), cudaMemcpy(void *, void *, size_t, int);
enum { SIZE = 64 << 20 };
static long own(void) {
    long size, resident, shared;
    FILE *in = fopen("/proc/self/statm", "r");
    fscanf(in, "%ld %ld %ld", &size, &resident, &shared);
    fclose(in);
    return (resident - shared) * 4 / 1024;
}
int main(int count, char **arguments) {
    char *device, *host = malloc(SIZE), small[8] = "seven..";
    memset(host, 0, SIZE);
    cudaMalloc(&device, SIZE);
    long before = own();
    cudaMemcpy(device + 3, host, SIZE - 3, 1);
    printf("zeros %d\n", own() - before > 32);
    for (long i = 0; i < SIZE; i += 4096) host[i] = 1 + i / 4096 % 100;
    int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, host, SIZE);
    before = own();
    char *mapped = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    cudaMemcpy(device, mapped + 5, SIZE - 5, 1);
    printf("mapped %d\n", own() - before > 32);
    char *back = malloc(SIZE);
    cudaMemcpy(back, device, SIZE - 5, 2);
    printf("read %d\n", memcmp(back, host + 5, SIZE - 5));
    mapped[SIZE / 2] = 111;
    cudaMemcpy(device, mapped, SIZE, 1);
    cudaMemcpy(back, device, SIZE, 2);
    printf("changed %d\n", memcmp(back, mapped, SIZE));
    cudaMemcpy(device, host, SIZE, 1);
    cudaMemcpy(back, device, SIZE, 2);
    printf("kept %d\n", memcmp(back, host, SIZE));
    cudaMemcpy(device, small, 8, 1);
    cudaMemcpy(back, device, 8, 2);
    printf("small %s\n", back);
}"#;

#[test]
fn contents_that_a_file_has_and_zeros_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), CUDA, COPIES, &[]);
    for (no_contents, expected) in [
        (false, ["zeros 0", "mapped 0", "read 0", "changed 0", "kept 0", "small seven.."]),
        (true, ["zeros 0", "mapped 0", "read -1", "changed -1", "kept -1", "small seven.."]),
    ] {
        let mut options = PhantomOptions::default();
        options.no_contents = no_contents;
        let run = machine(1, 1 << 30, options);
        let mut command = Command::new(folder.path().join("program"));
        command.arg(folder.path().join("file")).envs(run.environment());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said: Vec<&str> = said.lines().collect();
        let signs = said.iter().map(|line| match line.rsplit_once(" -") {
            // `memcmp` may return any negative number.
            Some((what, _)) => format!("{what} -1"),
            None => (*line).to_owned(),
        });
        assert_eq!(signs.collect::<Vec<_>>(), expected, "{output:?}");
    }
}
