//! C programs that allocate on phantom GPUs, and what their logs have.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the test of memory shows what it measured")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use vramscope_phantom::PhantomRun;
use vramscope_recorder::{
    AttachError, AttachedProcess, CopyAt, RecordedProcess, RecordedStacks, RecorderOptions, RecorderRun,
};
use vramscope_testing::{phantom_run, skip};
use vramscope_trace::{Action, Notices, Stage, Trace, formats};

/// Declarations that the programs share.
const DECLARATIONS: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef unsigned long long u64;
int cudaMalloc(void **, size_t), cudaFree(void *), cudaMallocManaged(void **, size_t, unsigned);
int cudaHostAlloc(void **, size_t, unsigned), cudaFreeHost(void *);
int cudaHostRegister(void *, size_t, unsigned), cudaHostUnregister(void *);
int cudaMallocAsync(void **, size_t, void *), cudaFreeAsync(void *, void *);
int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, u64, int *);
struct properties { int kind, handles, type, device; char rest[64]; };
static void check(int status, const char *what) { if (status) { printf("%s: %d\n", what, status); exit(1); } }
"#;

/// Stands for the runtime when a program is linked. On a phantom GPU, the phantom's functions come first.
const RUNTIME: &str = "
int cudaMalloc(void **a, size_t b) { return 1; }
int cudaFree(void *a) { return 1; }
int cudaMallocManaged(void **a, size_t b, unsigned c) { return 1; }
int cudaHostAlloc(void **a, size_t b, unsigned c) { return 1; }
int cudaFreeHost(void *a) { return 1; }
int cudaHostRegister(void *a, size_t b, unsigned c) { return 1; }
int cudaHostUnregister(void *a) { return 1; }
int cudaMallocAsync(void **a, size_t b, void *c) { return 1; }
int cudaFreeAsync(void *a, void *b) { return 1; }
int cudaGetDriverEntryPointByVersion(const char *a, void **b, unsigned c, u64 d, int *e) { return 1; }";

/// Compiles a C program, linked to libraries with these names and sources.
fn compile(folder: &Path, program: &str, libraries: &[(&str, &str)]) {
    let cc = |arguments: &[String]| {
        let status = Command::new("cc").current_dir(folder).args(arguments).status().unwrap();
        assert!(status.success(), "cc {arguments:?}");
    };
    let mut link = Vec::new();
    for (name, source) in libraries.iter().chain(&[("runtime", RUNTIME)]) {
        std::fs::write(folder.join(format!("{name}.c")), format!("{DECLARATIONS}{source}")).unwrap();
        let out = format!("lib{name}.so");
        let soname = format!("-Wl,-soname,{out}");
        cc(&["-shared", "-fPIC", "-w", &soname, "-o", &out, &format!("{name}.c")].map(str::to_owned));
        link.push(format!("-l{name}"));
    }
    std::fs::write(folder.join("program.c"), format!("{DECLARATIONS}{program}")).unwrap();
    let arguments = ["-w", "-o", "program", "program.c", "-L.", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"];
    let more = ["-Wl,--allow-shlib-undefined", "-lpthread", "-ldl"];
    cc(&[arguments.map(str::to_owned).to_vec(), link, more.map(str::to_owned).to_vec()].concat());
}

/// The folder of a run, the program's status, and the logs of its processes.
type Run = (tempfile::TempDir, ExitStatus, Vec<RecordedProcess>);

/// Runs a program on a phantom GPU and records it. `None` if this system has no phantom GPUs.
fn record(program: &str, libraries: &[(&str, &str)]) -> Option<Run> {
    record_with(RecorderOptions::default(), program, libraries)
}

/// The environment of a program that is recorded on a phantom GPU.
fn both(phantom: &PhantomRun, recorder: &RecorderRun) -> HashMap<&'static str, OsString> {
    let mut environment: HashMap<_, _> = phantom.environment().into_iter().collect();
    for (name, mut value) in recorder.environment() {
        if let Some(phantoms) = environment.get(name) {
            value.push(":");
            value.push(phantoms);
        }
        environment.insert(name, value);
    }
    environment
}

fn record_with(options: RecorderOptions, program: &str, libraries: &[(&str, &str)]) -> Option<Run> {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), program, libraries);
    let phantom = phantom_run(1)?;
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
    let mut command = Command::new(folder.path().join("program"));
    command.current_dir(folder.path()).envs(both(&phantom, &recorder));
    let status = command.status().unwrap();
    let mut logs = recorder.finish();
    logs.sort_by_key(|log| log.process);
    for log in &logs {
        assert!(log.error.is_none() && log.dropped == 0, "{log:?}");
        assert!(!has_ring_in_memory(log.process), "{log:?}");
    }
    Some((folder, status, logs))
}

/// Whether a file of a process's ring is left in memory.
fn has_ring_in_memory(process: u32) -> bool {
    let is_ring = |name: OsString| name.to_string_lossy().contains(&format!(":rings:{process}-"));
    std::fs::read_dir("/dev/shm").is_ok_and(|mut files| files.any(|file| is_ring(file.unwrap().file_name())))
}

fn read(log: &RecordedProcess) -> std::sync::Arc<Trace> {
    let file = std::fs::File::open(&log.path).unwrap();
    formats::read(file).unwrap().trace
}

/// The memory of the process beside PyTorch's allocator, a line for each event.
fn driver_events(trace: &Trace) -> Vec<String> {
    let events = &trace.process.as_ref().unwrap().events;
    let line = |e: &vramscope_trace::DriverEvent| {
        let what = if e.is_free { "free" } else { "take" };
        format!("{what} {} {} by {}", e.memory.name(), e.size, trace.strings.get(e.library))
    };
    events.iter().map(line).collect()
}

#[test]
fn each_kind_of_memory_of_the_runtime_is_seen() {
    let program = r#"
int main() {
    void *a, *b, *c, *d, *e;
    static char page[8192];
    check(cudaMalloc(&a, 1000), "malloc");
    check(cudaMallocManaged(&b, 2000, 1), "managed");
    check(cudaHostAlloc(&c, 3000, 0), "host");
    check(cudaMallocAsync(&d, 4000, 0), "async");
    check(cudaHostRegister(page, 5000, 0), "register");
    check(cudaHostUnregister(page), "unregister");
    check(cudaFreeAsync(d, 0), "free async");
    check(cudaFreeHost(c), "free host");
    check(cudaFree(b), "free managed");
    check(cudaFree(a), "free");
    check(cudaFree(0), "free of null");
}"#;
    let Some((_folder, status, logs)) = record(program, &[]) else { return };
    assert!(status.success());
    assert_eq!(
        driver_events(&read(&logs[0])),
        [
            "take device 1000 by program",
            "take managed 2000 by program",
            "take pinned 3000 by program",
            "take async 4000 by program",
            "take registered 5000 by program",
            "free registered 5000 by program",
            "free async 4000 by program",
            "free pinned 3000 by program",
            "free managed 2000 by program",
            "free device 1000 by program",
        ]
    );
}

/// A program that contains the runtime finds the driver by `dlopen`, and its functions by name.
#[test]
fn functions_of_the_driver_are_seen_however_they_are_looked_up() {
    let program = r#"
typedef int (*lookup1)(const char *, void **, int, u64);
typedef int (*lookup2)(const char *, void **, int, u64, int *);
int main() {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found = 0;
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = dlsym(driver, "cuCtxSetCurrent");
    void *context = 0;
    check(init(0), "init"), check(retain(&context, 0), "retain"), check(set(context), "set");
    int (*by_dlsym)(u64 *, size_t) = dlsym(driver, "cuMemAlloc_v2"), (*freed)(u64) = dlsym(driver, "cuMemFree_v2");
    u64 a, b, c, d;
    check(by_dlsym(&a, 100), "dlsym");
    lookup1 first = dlsym(driver, "cuGetProcAddress");
    check(first("cuMemAlloc", &found, 11030, 0), "cuGetProcAddress");
    check(((int (*)(u64 *, size_t))found)(&b, 200), "first");
    lookup2 second = dlsym(driver, "cuGetProcAddress_v2");
    int status;
    check(second("cuMemAlloc", &found, 13000, 0, &status), "cuGetProcAddress_v2");
    check(((int (*)(u64 *, size_t))found)(&c, 300), "second");
    check(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &found, 12000, 2, &status), "by version");
    check(((int (*)(u64 *, size_t, void *))found)(&d, 400, 0), "async");
    check(freed(a) + freed(b) + freed(c), "free");
    if (dlsym(driver, "cuMemFrobnicate")) printf("a function that the driver lacks was found\n");
}"#;
    let Some((_folder, status, logs)) = record(program, &[]) else { return };
    assert!(status.success());
    let take = |size: u64, memory: &str| format!("take {memory} {size} by program");
    let free = |size: u64| format!("free device {size} by program");
    assert_eq!(
        driver_events(&read(&logs[0])),
        [
            take(100, "device"),
            take(200, "device"),
            take(300, "device"),
            take(400, "async"),
            free(100),
            free(200),
            free(300),
        ]
    );
}

/// The phantom refuses functions that it does not have, which the recorder does not see: it only counts the calls.
#[test]
fn functions_that_are_not_followed_are_named_and_counted() {
    let program = r#"
typedef int (*lookup)(const char *, void **, int, u64, int *);
int main() {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found[5];
    lookup look = dlsym(driver, "cuGetProcAddress_v2");
    const char *names[] = { "cuMemFrobnicate", "cuMemPoolImportPointer", "cuImportExternalMemory", "cuMemGetHandleForAddressRange", "cuFrob" };
    int status;
    for (int i = 0; i < 5; i++) check(look(names[i], &found[i], 13000, 0, &status), names[i]);
    void *again;
    check(cudaGetDriverEntryPointByVersion(names[0], &again, 13000, 0, &status), "again");
    if (again != found[0]) return 5;
    for (int i = 0; i < 3; i++) if (((int (*)(int, int))found[0])(1, 2) != 801) return 6;
    for (int i = 0; i < 2; i++) ((int (*)(void))found[1])();
    ((int (*)(void))found[3])(), ((int (*)(void))found[4])();
    void *at;
    check(cudaMalloc(&at, 1000), "malloc");
}"#;
    let Some((_folder, status, logs)) = record(program, &[]) else { return };
    assert!(status.success(), "{status}");
    let trace = read(&logs[0]);
    let calls = trace.process.as_ref().unwrap().not_followed.iter();
    let calls: Vec<(&str, u64)> = calls.map(|&(name, calls)| (trace.strings.get(name), calls)).collect();
    assert_eq!(calls, [("cuMemFrobnicate", 3), ("cuMemPoolImportPointer", 2)]);
    assert_eq!(driver_events(&trace), ["take device 1000 by program"]);
}

const VIRTUAL_MEMORY: &str = r#"
void grow(u64 *address, u64 *handle) {
    void *create, *reserve, *map;
    int status;
    cudaGetDriverEntryPointByVersion("cuMemCreate", &create, 12000, 0, &status);
    cudaGetDriverEntryPointByVersion("cuMemAddressReserve", &reserve, 12000, 0, &status);
    cudaGetDriverEntryPointByVersion("cuMemMap", &map, 12000, 0, &status);
    struct properties properties = { 1, 0, 1, 0 };
    check(((int (*)(u64 *, size_t, u64, u64, u64))reserve)(address, 64 << 20, 0, 0, 0), "reserve");
    check(((int (*)(u64 *, size_t, struct properties *, u64))create)(handle, 2 << 20, &properties, 0), "create");
    check(((int (*)(u64, size_t, size_t, u64, u64))map)(*address, 2 << 20, 0, *handle, 0), "map");
}
void shrink(u64 address, u64 handle, int release_first) {
    void *unmap, *release;
    int status;
    cudaGetDriverEntryPointByVersion("cuMemUnmap", &unmap, 12000, 0, &status);
    cudaGetDriverEntryPointByVersion("cuMemRelease", &release, 12000, 0, &status);
    if (release_first) check(((int (*)(u64))release)(handle), "release");
    check(((int (*)(u64, size_t))unmap)(address, 2 << 20), "unmap");
    if (!release_first) check(((int (*)(u64))release)(handle), "release");
}"#;

/// Physical memory is held until its handle is released and nothing maps it.
#[test]
fn physical_memory_is_followed() {
    let program = r#"
void grow(u64 *, u64 *), shrink(u64, u64, int);
int main() {
    u64 address, handle;
    check(cudaFree(0), "context");
    for (int release_first = 0; release_first < 2; release_first++) {
        grow(&address, &handle);
        shrink(address, handle, release_first);
    }
}"#;
    let Some((_folder, status, logs)) = record(program, &[("communicator", VIRTUAL_MEMORY)]) else { return };
    assert!(status.success());
    let (take, free) =
        ("take physical 2097152 by libcommunicator.so", "free physical 2097152 by libcommunicator.so");
    assert_eq!(driver_events(&read(&logs[0])), [take, free, take, free]);
}

/// Declarations of graphs. The parameters of a node that allocates are those of `CUDA_MEM_ALLOC_NODE_PARAMS`.
const GRAPHS: &str = r#"
struct allocation { int kind, handles, type, device; char others[72]; void *access; size_t access_count, size; u64 address; };
struct node { int kind, reserved[3]; union { struct allocation allocation; u64 address; char all[232]; }; u64 last; };
int cudaGraphCreate(u64 *, unsigned), cudaGraphDestroy(u64), cudaGraphExecDestroy(u64), cudaGraphLaunch(u64, void *);
int cudaGraphInstantiate(u64 *, u64, u64), cudaGraphUpload(u64, void *), cudaDeviceGraphMemTrim(int);
int cudaGraphAddMemAllocNode(u64 *, u64, u64 *, size_t, struct allocation *);
int cudaGraphAddMemFreeNode(u64 *, u64, u64 *, size_t, u64), cudaGraphAddNode(u64 *, u64, u64 *, void *, size_t, struct node *);
int cudaStreamCreate(void **), cudaStreamBeginCapture(void *, int), cudaStreamEndCapture(void *, u64 *);
int cuDeviceGetGraphMemAttribute(int, int, u64 *), cudaMemGetInfo(size_t *, size_t *);
static u64 first_free;
// The phantom's own account: what it keeps for graphs, and what its device has less of.
static void account(void) {
    u64 kept, free, total;
    check(cuDeviceGetGraphMemAttribute(0, 2, &kept), "attribute"), check(cudaMemGetInfo(&free, &total), "info");
    FILE *file = fopen("account", "a");
    fprintf(file, "%llu %llu\n", kept, first_free - free);
    fclose(file);
}
static void begin_account(void) { u64 total; check(cudaFree(0), "context"), check(cudaMemGetInfo(&first_free, &total), "info"); }
"#;

/// The functions of graphs, for linking.
const GRAPHS_RUNTIME: &str = "
int cudaGraphCreate() { return 1; } int cudaGraphDestroy() { return 1; } int cudaGraphExecDestroy() { return 1; }
int cudaGraphLaunch() { return 1; } int cudaGraphInstantiate() { return 1; } int cudaGraphUpload() { return 1; }
int cudaDeviceGraphMemTrim() { return 1; } int cudaGraphAddMemAllocNode() { return 1; }
int cudaGraphAddMemFreeNode() { return 1; } int cudaGraphAddNode() { return 1; } int cudaStreamCreate() { return 1; }
int cudaStreamBeginCapture() { return 1; } int cudaStreamEndCapture() { return 1; }
int cuDeviceGetGraphMemAttribute() { return 1; } int cudaMemGetInfo() { return 1; }";

/// Nodes take addresses, launches take device memory, and trimming returns it.
#[test]
fn memory_of_graphs_is_what_the_phantom_keeps_for_them() {
    let program = r#"
int main() {
    struct allocation a = { 1, 0, 1, 0 }, b = a;
    struct node c = { 10 }, d = { 11 };
    u64 one, two, executable, executable2, node;
    void *stream, *kept, *inside;
    begin_account();
    // A graph with an allocation that it frees, and two that it does not free.
    check(cudaGraphCreate(&one, 0), "create");
    a.size = 5 << 20, b.size = 1000;
    check(cudaGraphAddMemAllocNode(&node, one, 0, 0, &a), "first");
    check(cudaGraphAddMemAllocNode(&node, one, &node, 1, &b), "second");
    c.allocation = b, c.allocation.size = 3 << 20;
    check(cudaGraphAddNode(&node, one, &node, 0, 1, &c), "third");
    d.address = a.address;
    check(cudaGraphAddNode(&node, one, &node, 0, 1, &d), "free");
    account();
    check(cudaGraphInstantiate(&executable, one, 0), "instantiate"), account();
    check(cudaGraphUpload(executable, 0), "upload"), account();
    check(cudaGraphLaunch(executable, 0), "launch"), account();
    // What a graph has not freed can be freed outside of it, and stays the driver's.
    check(cudaFreeAsync((void *)b.address, 0), "free"), check(cudaFree((void *)c.allocation.address), "free"), account();
    check(cudaGraphLaunch(executable, 0), "launch again"), account();
    check(cudaDeviceGraphMemTrim(0), "trim"), account();
    // A captured stream.
    check(cudaStreamCreate(&stream), "stream"), check(cudaStreamBeginCapture(stream, 0), "capture");
    check(cudaMallocAsync(&inside, 20 << 20, stream), "captured");
    check(cudaMallocAsync(&kept, 7 << 20, 0), "another stream");
    check(cudaFreeAsync(inside, stream), "captured free");
    check(cudaStreamEndCapture(stream, &two), "end"), check(cudaGraphInstantiate(&executable2, two, 0), "instantiate");
    check(cudaGraphDestroy(two), "destroy"), account();
    check(cudaGraphLaunch(executable2, stream), "launch"), account();
    check(cudaGraphLaunch(executable2, stream), "launch"), check(cudaFreeAsync(kept, 0), "free");
    check(cudaGraphExecDestroy(executable2), "destroy"), account();
    check(cudaDeviceGraphMemTrim(0), "trim"), account();
    check(cudaFree((void *)b.address), "free"), check(cudaDeviceGraphMemTrim(0), "trim"), account();
    check(cudaGraphExecDestroy(executable), "destroy"), check(cudaGraphDestroy(one), "destroy");
    check(cudaFree((void *)c.allocation.address), "the last"), check(cudaDeviceGraphMemTrim(0), "trim"), account();
}"#;
    let program = format!("{GRAPHS}{program}");
    let Some((folder, status, logs)) = record(&program, &[("graphs", GRAPHS_RUNTIME)]) else { return };
    assert!(status.success());
    let trace = read(&logs[0]);
    let nodes: Vec<String> =
        driver_events(&trace).into_iter().filter(|event| event.contains(" graph_node ")).collect();
    let node = |what: &str, size: u64| format!("{what} graph_node {size} by program");
    assert_eq!(
        nodes,
        [
            node("take", 5 << 20),
            node("take", 1000),
            node("take", 3 << 20),
            node("take", 20 << 20),
            node("free", 20 << 20),
            node("free", 5 << 20),
            node("free", 1000),
            node("free", 3 << 20),
        ]
    );
    // The sums after each change. A part that is trimmed is freed, and its rest taken again at the same time.
    let mut sums = vec![(0, 0_u64)];
    for e in trace.process.as_ref().unwrap().events.iter().filter(|e| e.memory.name() == "graph") {
        let &(time, sum) = sums.last().unwrap();
        if time == e.time_us {
            sums.pop();
        }
        sums.push((e.time_us, if e.is_free { sum - e.size } else { sum + e.size }));
    }
    let sums: Vec<u64> = sums.into_iter().map(|(_, sum)| sum).collect();
    let account = std::fs::read_to_string(folder.path().join("account")).unwrap();
    let account: Vec<Vec<u64>> =
        account.lines().map(|line| line.split(' ').map(|number| number.parse().unwrap()).collect()).collect();
    let mut kept: Vec<u64> = account.iter().map(|line| line[0]).collect();
    kept.dedup();
    assert_eq!(sums, kept, "{account:?}");
    assert_eq!(kept, [0, 12 << 20, 6 << 20, 26 << 20, 6 << 20, 4 << 20, 0]);
    // While nothing else is allocated, the device lacks exactly this memory.
    assert!(account[..7].iter().all(|line| line[0] == line[1]), "{account:?}");
    let readings = &trace.process.as_ref().unwrap().readings;
    let context = vramscope_testing::phantom_gpu(0).context_bytes;
    let highest = readings.iter().map(|r| r.used - context).max();
    assert_eq!(highest, account.iter().map(|line| line[1]).max());
}

/// Memory of another process is not this one's. Phantom GPUs have no such memory, so a library stands for the driver.
#[test]
fn memory_of_another_process_is_seen() {
    let ipc = r#"
struct handle { char bytes[64]; };
int cudaIpcOpenMemHandle(void **at, struct handle handle, unsigned flags) {
    *at = (void *)(0x70000000ull + handle.bytes[63]);
    return handle.bytes[0] == 'h' && flags == 1 ? 0 : 1;
}
int cudaIpcCloseMemHandle(void *at) { return at != (void *)0x70000007; }
int cuMemGetAddressRange_v2(u64 *start, size_t *size, u64 at) { *start = at, *size = 3 << 20; return 0; }
int cuMemImportFromShareableHandle(u64 *handle, void *shared, int kind) { *handle = 0x99; return 0; }
int cuMemMap(u64 at, size_t size, size_t offset, u64 handle, u64 flags) { return 0; }
int cuMemUnmap(u64 at, size_t size) { return 0; }
int cuMemRelease(u64 handle) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }"#;
    let program = r#"
struct handle { char bytes[64]; };
int cudaIpcOpenMemHandle(void **, struct handle, unsigned), cudaIpcCloseMemHandle(void *);
int cuMemImportFromShareableHandle(u64 *, void *, int), cuMemMap(u64, size_t, size_t, u64, u64), cuMemUnmap(u64, size_t);
int cuMemRelease(u64);
int main() {
    struct handle handle = { "h" };
    void *at;
    u64 imported;
    handle.bytes[63] = 7;
    check(cudaIpcOpenMemHandle(&at, handle, 1), "open");
    check(at != (void *)0x70000007, "address");
    check(cuMemImportFromShareableHandle(&imported, 0, 1), "import");
    check(cuMemMap(0x80000000ull, 5 << 20, 0, imported, 0), "map");
    check(cuMemRelease(imported), "release");
    check(cuMemUnmap(0x80000000ull, 5 << 20), "unmap");
    check(cudaIpcCloseMemHandle(at), "close");
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), program, &[("ipc", ipc)]);
    let path = |name: &str| folder.path().join(name);
    let recorder = RecorderRun::start(&path("run.vramscope"), RecorderOptions::default()).unwrap();
    let status = Command::new(path("program")).envs(recorder.environment()).status().unwrap();
    let logs = recorder.finish();
    assert!(status.success());
    let [ipc, physical] = [3 << 20, 5 << 20].map(|size| format!("imported {size} by program"));
    assert_eq!(
        driver_events(&read(&logs[0])),
        [
            format!("take {ipc}"),
            format!("take {physical}"),
            format!("free {physical}"),
            format!("free {ipc}")
        ]
    );
}

/// Stands for the driver: contexts end with the memory that was allocated in them, and a free fails for one address.
const CONTEXTS: &str = r#"
static int active, created, current = -1;
static u64 next = 0x10000;
int cuMemAlloc_v2(u64 *at, size_t size) { *at = next += 0x10000; return 0; }
int cuMemFree_v2(u64 at) { return at == 0x666 ? 0 : at % 0x20000 ? 1 : 0; }
int cuMemHostAlloc(void **at, size_t size, unsigned flags) { *at = (void *)(next += 0x10000); return 0; }
int cuMemCreate(u64 *handle, size_t size, void *properties, u64 flags) { *handle = 77; return 0; }
int cuMemRelease(u64 handle) { return 0; }
int cuMemRetainAllocationHandle(u64 *handle, void *at) { *handle = 77; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; current = 0; active = 1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is) { *flags = 0, *is = active; return 0; }
int cuDevicePrimaryCtxReset_v2(int device) { active = 0, current = -1; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { *context = (void *)2, current = 0, created++; return 0; }
int cuCtxDestroy_v2(void *context) { created--, current = -1; return 0; }
int cuCtxPushCurrent_v2(void *context) { current = 0; return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return current < 0; }
int cudaDeviceReset(void) { return cuDevicePrimaryCtxReset_v2(0); }"#;

/// Declarations of these functions, and memory of each kind.
const CONTEXTS_PROGRAM: &str = r#"
int cuMemAlloc_v2(u64 *, size_t), cuMemFree_v2(u64), cuMemHostAlloc(void **, size_t, unsigned), cuMemRelease(u64);
int cuMemCreate(u64 *, size_t, struct properties *, u64), cuMemRetainAllocationHandle(u64 *, void *);
int cuDevicePrimaryCtxRetain(void **, int), cuDevicePrimaryCtxReset_v2(int), cudaDeviceReset(void);
int cuCtxCreate_v2(void **, unsigned, int), cuCtxDestroy_v2(void *);
static void *context, *host;
static u64 at;
static void take(size_t size) { check(cuMemAlloc_v2(&at, size), "alloc"); }
"#;

#[test]
fn memory_ends_with_the_last_context_of_its_device() {
    let program = r#"
int main() {
    u64 handle;
    struct properties properties = { 1, 0, 1, 0 };
    check(cuDevicePrimaryCtxRetain(&context, 0), "retain");
    take(1000), take(2000), check(cuMemHostAlloc(&host, 3000, 0), "host");
    check(cuMemCreate(&handle, 4000, &properties, 0), "create");
    check(cuDevicePrimaryCtxReset_v2(0), "reset");
    check(cuDevicePrimaryCtxRetain(&context, 0), "retain"), take(5000), check(cudaDeviceReset(), "reset");
    // Contexts of the program's own: the memory ends with the last one.
    void *second;
    check(cuCtxCreate_v2(&context, 0, 0), "create"), check(cuCtxCreate_v2(&second, 0, 0), "create"), take(6000);
    check(cuCtxDestroy_v2(second), "destroy"), take(7000), check(cuCtxDestroy_v2(context), "destroy");
    // Physical memory belongs to no context, and to each handle.
    check(cuMemRetainAllocationHandle(&handle, 0), "retain"), check(cuMemRelease(handle), "release"), take(8000);
    check(cuMemRelease(handle), "release");
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{CONTEXTS_PROGRAM}{program}"), &[("contexts", CONTEXTS)]);
    let path = |name: &str| folder.path().join(name);
    let recorder = RecorderRun::start(&path("run.vramscope"), RecorderOptions::default()).unwrap();
    let status = Command::new(path("program")).envs(recorder.environment()).status().unwrap();
    let logs = recorder.finish();
    assert!(status.success());
    let event = |what: &str, memory: &str, size: u64| format!("{what} {memory} {size} by program");
    assert_eq!(
        driver_events(&read(&logs[0])),
        [
            event("take", "device", 1000),
            event("take", "device", 2000),
            event("take", "pinned", 3000),
            event("take", "physical", 4000),
            event("free", "device", 1000),
            event("free", "device", 2000),
            event("free", "pinned", 3000),
            event("take", "device", 5000),
            event("free", "device", 5000),
            event("take", "device", 6000),
            event("take", "device", 7000),
            event("free", "device", 6000),
            event("free", "device", 7000),
            event("take", "device", 8000),
            event("free", "physical", 4000),
        ]
    );
}

#[test]
fn memory_whose_free_fails_stays() {
    let program = r#"
int main() {
    check(cuDevicePrimaryCtxRetain(&context, 0), "retain");
    take(1000), check(cuMemFree_v2(at), "free");
    take(2000);
    if (cuMemFree_v2(at) != 1 || cuMemFree_v2(0x666)) return 3;
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{CONTEXTS_PROGRAM}{program}"), &[("contexts", CONTEXTS)]);
    let path = |name: &str| folder.path().join(name);
    let recorder = RecorderRun::start(&path("run.vramscope"), RecorderOptions::default()).unwrap();
    let status = Command::new(path("program")).envs(recorder.environment()).status().unwrap();
    let logs = recorder.finish();
    assert!(status.success(), "{status}");
    let event = |what: &str, size: u64| format!("{what} device {size} by program");
    let expected = [
        event("take", 1000),
        event("free", 1000),
        event("take", 2000),
        event("free", 2000),
        event("take", 2000),
    ];
    assert_eq!(driver_events(&read(&logs[0])), expected);
}

/// Stands for PyTorch: `libc10.so` has the functions, `libc10_cuda.so` the allocator that calls them.
const C10: &str = r#"
static long calls;
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *p, long n, size_t a, size_t r, u64 d) { calls++; }
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(long n, size_t a, size_t r, u64 d) { calls++; }
long calls_so_far(void) { return calls; }"#;

const C10_CUDA: &str = r#"
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *, long, size_t, size_t, u64);
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(long, size_t, size_t, u64);
// c10::Device: a type, 1 for CUDA, and a number. The other bytes of the register are not defined.
void report(void *at, long size, int type) {
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(at, size, 0, 0, 0xabcdef0000000000ull | type);
}
void fail(long size) { _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(size, 0, 0, 1); }
void *segment(size_t size) { void *at; check(cudaMalloc(&at, size), "segment"); return at; }
void drop_segment(void *at) { check(cudaFree(at), "segment"); }"#;

const TORCH: &[(&str, &str)] = &[("c10", C10), ("c10_cuda", C10_CUDA)];

const TORCH_DECLARATIONS: &str = r#"
void report(void *, long, int), fail(long), *segment(size_t), drop_segment(void *);
long calls_so_far(void);
"#;

#[test]
fn pytorchs_reports_and_segments_are_seen_and_passed_on() {
    let program = r#"
int main() {
    char *at = segment(2 << 20);
    report(at, 512, 1);
    report(at + 512, 1024, 1);
    report((void *)0x1000, 77, 0);
    report(at, -512, 1);
    fail(1 << 30);
    report(at + 512, -1024, 1);
    drop_segment(at);
    if (calls_so_far() != 6) { printf("%ld calls were passed on\n", calls_so_far()); return 1; }
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(status.success());
    let trace = read(&logs[0]);
    let events: Vec<(Action, u64)> = trace.devices[0].events.iter().map(|e| (e.action, e.size)).collect();
    assert_eq!(
        events,
        [
            (Action::SegmentAlloc, 2 << 20),
            (Action::Alloc, 512),
            (Action::Alloc, 1024),
            (Action::Free, 512),
            (Action::Oom, 1 << 30),
            (Action::Free, 1024),
            (Action::SegmentFree, 2 << 20),
        ]
    );
    let failed = trace.devices[0].events.iter().find(|e| e.action == Action::Oom).unwrap();
    let free = failed.device_free().unwrap();
    // What `phantom_gpu` says, without the context and the segment.
    assert_eq!(free, (1 << 34) - (512 << 20) - (2 << 20));
    let reading = trace.process.as_ref().unwrap().readings.iter().rfind(|r| r.device_events == 4).unwrap();
    assert_eq!(reading.used, (512 << 20) + (2 << 20));
    assert!(driver_events(&trace).is_empty());
    assert!(trace.devices[0].segments.is_empty());
}

/// What no call took is the phantom's context, to the byte.
/// Six blocks, another block, and a launch of each kind.
const ACCESSES: &str = r#"
static void *f(const char *name) { return dlsym(RTLD_DEFAULT, name); }
int main() {
    char *at = segment(1 << 20);
    for (int i = 0; i < 6; i++) report(at + i * 4096, 4096, 1);
    int (*copy)(void *, const void *, size_t, int) = f("cudaMemcpy"), (*fill)(void *, int, size_t) = f("cudaMemset");
    void *pointers[2] = { at + 2 * 4096 + 100, at + 3 * 4096 };
    check(copy(at + 4096, pointers, sizeof pointers, 1), "copy");
    report(at + 6 * 4096, 4096, 1);
    int (*multiply)(void *, int, int, int, int, int, void *, void *, int, void *, int, void *, void *, int) = f("cublasSgemmBatched");
    check(multiply(0, 0, 0, 1, 1, 1, 0, at, 1, at + 4096, 1, 0, at + 4 * 4096, 1), "multiply");
    int (*load)(void **, const char *) = f("cuModuleLoadData"), (*find)(void **, void *, const char *) = f("cuModuleGetFunction");
    int (*launch)(void *, int, int, int, int, int, int, int, void *, void **, void **) = f("cuLaunchKernel");
    void *module, *kernel, *other;
    check(load(&module, ".version 8.0\n.visible .entry k(.param .align 8 .b8 k_0[24], .param .u32 k_1) { ret; }"), "load");
    check(find(&kernel, module, "k") | find(&other, module, "other"), "find");
    struct { long size; char *data; long more; } first = { 7, at + 5 * 4096 + 8, 1 };
    int second = 3;
    void *arguments[] = { &first, &second };
    check(launch(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0), "launch");
    check(launch(other, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0), "launch");
    report(at, -4096, 1);
    check(fill(at + 4096, 0, 64), "fill");
    kill(getpid(), SIGKILL);
}"#;

#[test]
fn accesses_of_kernels_libraries_and_copies_are_seen() {
    let program = &format!("{TORCH_DECLARATIONS}{ACCESSES}");
    let mut options = RecorderOptions::default();
    options.accesses = true;
    let Some((_folder, status, logs)) = record_with(options, program, TORCH) else { return };
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    let accesses = read(&logs[0]).accesses.clone().unwrap();
    assert_eq!((accesses.launches, accesses.unknown_launches), (5, 1));
    let found = accesses.allocations.iter();
    let found: Vec<_> =
        found.map(|of| (of.allocation, of.first, of.last, of.count, of.longest_idle)).collect();
    let once = |allocation| (allocation, 8, 8, 1, (8, 8));
    // The events are the segment's, six allocations, another one, which is not accessed, and a free. The addresses that were copied to the
    // second block are accessed with it.
    assert_eq!(found, [once(1), (2, 7, 9, 3, (7, 8)), once(3), once(4), once(5), once(6)]);
    // The next log would have other numbers of events.
    let mut limited = limited();
    limited.accesses = true;
    let Some((_folder, _, logs)) = record_with(limited, program, TORCH) else { return };
    assert_eq!(read(&logs[0]).accesses, None);
}

#[test]
fn the_rest_of_the_device_is_the_context() {
    let program = r#"
int main() {
    u64 address, handle;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = 0, *module, *at, *async;
    int (*init)(unsigned) = dlsym(driver, "cuInit"), (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*load)(void **, const void *) = dlsym(driver, "cuModuleLoadData");
    int (*library)(void **, const void *, void *, void *, u64, void *, void *, u64) = dlsym(driver, "cuLibraryLoadData");
    check(init(0), "init"), check(retain(&context, 0), "retain");
    check(cudaMalloc(&at, 6 << 20), "malloc");
    usleep(11000);
    check(load(&module, ""), "module");
    grow(&address, &handle);
    check(cudaMallocAsync(&async, 4 << 20, 0), "async");
    usleep(11000);
    check(library(&module, "", 0, 0, 0, 0, 0, 0), "library");
    check(cudaFree(at), "free");
    for (int i = 0; i < 1000; i++) check(cudaMalloc(&at, 1 << 20), "small"), check(cudaFree(at), "small");
    check(retain(&context, 0), "retain");
    char *segments = segment(20 << 20);
    report(segments, 512, 1);
}"#;
    let libraries = [TORCH, &[("communicator", VIRTUAL_MEMORY)]].concat();
    let declarations = format!("{TORCH_DECLARATIONS} void grow(u64 *, u64 *);");
    let Some((_folder, status, logs)) = record(&format!("{declarations}{program}"), &libraries) else {
        return;
    };
    assert!(status.success());
    let trace = read(&logs[0]);
    let gpu = vramscope_testing::phantom_gpu(0);
    let readings = &trace.process.as_ref().unwrap().readings;
    assert!(readings.iter().all(|r| (r.device, r.total) == (0, gpu.total_bytes)), "{readings:?}");
    let used: Vec<u64> = readings.iter().map(|r| (r.used - gpu.context_bytes) >> 20).collect();
    // The context, the allocation, the module, the physical memory when it is created and when it is mapped, the library with the
    // asynchronous allocation.
    assert_eq!(used[..6], [0, 6, 6, 8, 8, 12]);
    assert_eq!(used.last(), Some(&26));
    // At most one for small allocations and frees in ten milliseconds.
    let taken = readings.last().unwrap().time_us - readings[0].time_us;
    assert!((readings.len() as i64) < 12 + taken / 10_000, "{} in {taken} us", readings.len());
    let options = vramscope_analysis::Options::default();
    let frames = vramscope_analysis::Frames::of(&trace);
    let device_use = vramscope_analysis::Summary::of(&trace, 0, &frames, &options).device_use.unwrap();
    let here = device_use.here.unwrap();
    assert_eq!((here.reserved, here.libraries), (20 << 20, 6 << 20));
    assert_eq!([here, device_use.first].map(|m| m.rest()), [gpu.context_bytes as i64; 2]);
}

#[test]
fn nothing_is_lost_when_a_program_is_killed() {
    let program = r#"
int main() {
    char *at = segment(2 << 20);
    for (int i = 0; i < 3000; i++) report(at + 512 * i, 512, 1);
    raise(SIGKILL);
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(!status.success());
    assert_eq!(read(&logs[0]).devices[0].events.len(), 3001);
}

/// A log of more bytes than the ring has.
#[test]
fn a_long_run_passes_through_the_ring() {
    let program = r#"
int main() {
    char *at = segment(2 << 20);
    for (int i = 0; i < 500000; i++) report(at, 512, 1), report(at, -512, 1);
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(status.success());
    let events = &read(&logs[0]).devices[0].events;
    assert_eq!(events.len(), 1_000_001);
    assert!((1..events.len()).all(|i| (events.get(i).action == Action::Alloc) == (i % 2 == 1)));
}

#[test]
fn a_forked_process_has_a_log_of_its_own() {
    let program = r#"
int main() {
    char *at = segment(2 << 20);
    report(at, 512, 1);
    if (fork() == 0) {
        report(at, 1024, 1);
        _exit(0);
    }
    int status;
    wait(&status);
    report(at, -512, 1);
    return status;
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(status.success());
    let sizes =
        |log: &RecordedProcess| read(log).devices[0].events.iter().map(|e| e.size).collect::<Vec<_>>();
    assert_eq!(logs.iter().map(sizes).collect::<Vec<_>>(), [vec![2 << 20, 512, 512], vec![1024]]);
    let name = |log: &RecordedProcess| log.path.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(name(&logs[0]), "run.vramscope");
    assert_eq!(name(&logs[1]), format!("run-pid{}.vramscope", logs[1].process));
}

/// Names of the logs of a run in its folder, with the sizes of their events.
fn logs_in(folder: &Path) -> Vec<(String, Vec<u64>)> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "vramscope"))
        .map(|path| {
            let trace = formats::read(std::fs::File::open(&path).unwrap()).unwrap().trace;
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, trace.devices[0].events.iter().map(|e| e.size).collect())
        })
        .collect();
    logs.sort();
    logs
}

/// The workers of a rank: one after the other, as after a restart, and two at once. A file of that name from before stays too.
#[test]
fn processes_of_one_rank_have_logs_of_their_own() {
    let program = r#"
int main(int count, char **words) {
    report((void *)4096, atol(words[1]), 1);
    if (count > 2) usleep(500000);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    std::fs::write(folder.path().join("run-rank3-2.vramscope"), "mine").unwrap();
    let options = RecorderOptions::default();
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
    let script = "./program 512; ./program 1024; ./program 1536 wait & ./program 1536 wait & wait";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder.path());
    command.envs(recorder.environment()).env("RANK", "3").env("WORLD_SIZE", "4");
    assert!(command.status().unwrap().success());
    let logs = recorder.finish();
    assert!(logs.len() == 4 && logs.iter().all(|log| log.error.is_none()), "{logs:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("run-rank3-2.vramscope")).unwrap(), "mine");
    std::fs::remove_file(folder.path().join("run-rank3-2.vramscope")).unwrap();
    let log = |number: &str, size| (format!("run-rank3{number}.vramscope"), vec![size]);
    let expected = [log("-3", 1024), log("-4", 1536), log("-5", 1536), log("", 512)];
    assert_eq!(logs_in(folder.path()), expected);
}

/// One process runs several programs: each has a log, unless it does not load the recorder, which is said.
#[test]
fn each_program_of_a_chain_of_execs_is_recorded() {
    let program = r#"
extern char **environ;
int main(int count, char **words) {
    int number = atoi(words[1]);
    report((void *)4096, 512 * number, 1);
    char next[2] = { '1' + number, 0 }, *none[] = { 0 };
    if (number < 4) execle(words[0], words[0], next, NULL, number < 3 ? environ : none);
    usleep(1500000);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    let options = RecorderOptions::default();
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
    let mut command = Command::new(folder.path().join("program"));
    command.arg("1").current_dir(folder.path()).envs(recorder.environment());
    let mut child = command.spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let logs = recorder.finish();
    let id = child.id();
    let log = |name: String, size| (format!("run{name}.vramscope"), vec![size]);
    let expected =
        [log(format!("-pid{id}-2"), 1536), log(format!("-pid{id}"), 1024), log(String::new(), 512)];
    assert_eq!(logs_in(folder.path()), expected);
    let ran_another: Vec<bool> = logs.iter().map(|log| log.ran_another).collect();
    assert_eq!(ran_another, [true, true, true], "{logs:?}");
}

/// Linux gives a new process the number of an earlier one in the end; here, the program asks for it.
#[test]
fn a_process_with_the_number_of_an_earlier_one_is_recorded() {
    let program = r#"
#include <fcntl.h>
int main() {
    pid_t first = fork();
    if (!first) { report((void *)4096, 512, 1); _exit(0); }
    waitpid(first, NULL, 0);
    for (int tries = 0; tries < 1000; tries++) {
        int file = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
        char number[16];
        if (file < 0 || write(file, number, sprintf(number, "%d", first - 1)) < 0) return 3;
        close(file);
        pid_t second = fork();
        if (!second) { if (getpid() == first) report((void *)4096, 1024, 1); _exit(0); }
        waitpid(second, NULL, 0);
        if (second == first) return 0;
    }
    return 4;
}"#;
    let Some((folder, status, _)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else { return };
    match status.code() {
        Some(3 | 4) => vramscope_testing::skip("root", "only root can choose the number of a process"),
        code => {
            assert_eq!(code, Some(0));
            let sizes: Vec<Vec<u64>> = logs_in(folder.path()).into_iter().map(|(_, sizes)| sizes).collect();
            assert_eq!(sizes, [[1024], [512]]);
        }
    }
}

/// A program passes notes, as the Python package does. A forked process has the same hooks, and is not recorded by them.
#[test]
fn notes_become_categories_and_regions() {
    let program = r#"
static void *find(const char *name) { void *at = dlsym(0, name); if (!at) exit(3); return at; }
int main() {
    int (*begin)(void) = find("vramscope_recorder_begin_notes");
    void (*end)(void) = find("vramscope_recorder_end_notes");
    void (*module)(unsigned, const char *, size_t) = find("vramscope_recorder_module");
    void (*place)(unsigned, unsigned, unsigned char) = find("vramscope_recorder_place");
    void (*role)(u64, unsigned char, unsigned) = find("vramscope_recorder_role");
    void (*region)(unsigned char, const char *, size_t) = find("vramscope_recorder_region");
    void (*tensor)(u64, const char *, size_t) = find("vramscope_recorder_tensor");
    unsigned self = (unsigned)syscall(SYS_gettid);
    char *at = segment(2 << 20);
    module(1, "lost", 4);
    report(at, 512, 1);
    check(begin(), "notes");
    report(at + 2560, 512, 1);
    module(1, "h.0.attn", 8);
    report(at + 512, 512, 1);
    role((u64)at + 600, 0, 1);
    tensor((u64)at + 512, "vramscope-tensor:shape=(9,)", 27);
    role((u64)at + 2560, 1, 1);
    place(self, 1, 1);
    region(0, "forward of mine", 15);
    report(at + 1024, 512, 1);
    report(at + 1536, 512, 1);
    place(self, 0, 0);
    region(1, "forward of mine", 15);
    place(self, 1, 2);
    report(at + 1536, -512, 1);
    place(self, 0, 0);
    if (fork() == 0) {
        place(self, 1, 1);
        _exit(0);
    }
    wait(0);
    end();
    role((u64)at + 1024, 1, 1);
    report(at + 2048, 512, 1);
}"#;
    let program = format!("#include <sys/syscall.h>\n{TORCH_DECLARATIONS}{program}");
    let Some((_folder, status, logs)) = record(&program, TORCH) else { return };
    assert!(status.success());
    assert_eq!(logs.len(), 1);
    let trace = read(&logs[0]);
    let allocations = trace.devices[0].events.iter().filter(|e| e.action == Action::Alloc);
    let texts: Vec<&str> = allocations
        .map(|e| trace.tags.get(e.tags).user_metadata.map_or("", |text| trace.strings.get(text)))
        .collect();
    assert_eq!(
        texts,
        [
            "",
            "vramscope:category=buffer;module=h.0.attn",
            "vramscope:category=parameter;module=h.0.attn\nvramscope-tensor:shape=(9,)",
            "vramscope:category=temporary;module=h.0.attn;phase=forward",
            "vramscope:category=activation;module=h.0.attn;phase=forward",
            "",
        ]
    );
    let regions = trace.annotations.as_ref().unwrap().iter();
    let regions: Vec<_> = regions.map(|r| (r.stage, trace.strings.get(r.name))).collect();
    assert_eq!(regions, [(Stage::Start, "forward of mine"), (Stage::End, "forward of mine")]);
}

/// The events of each thread are in its order, and none is missing or there twice.
#[test]
fn sixteen_threads_record_at_once() {
    let program = r#"
static char *at;
static void *work(void *number) {
    char *mine = at + 512 * (1 + (long)number);
    for (long i = 0; i < 2000; i++) report(mine, 512, 1), report(mine, -512, 1);
    return 0;
}
int main() {
    at = segment(2 << 20);
    pthread_t threads[16];
    for (long i = 0; i < 16; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (long i = 0; i < 16; i++) pthread_join(threads[i], 0);
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(status.success());
    let events = &read(&logs[0]).devices[0].events;
    assert_eq!(events.len(), 1 + 16 * 4000);
    let mut live = std::collections::BTreeSet::new();
    for e in events.iter().skip(1) {
        let changed =
            if e.action == Action::Alloc { live.insert(e.address()) } else { live.remove(&e.address()) };
        assert!(changed, "{:#x} was allocated or freed twice", e.address());
    }
    assert!(live.is_empty());
}

/// A signal handler may allocate while the interrupted thread records: the call is passed on.
#[test]
fn a_signal_handler_that_allocates_does_no_harm() {
    let program = r#"
static char *at;
static void handler(int number) { report(at, 512, 1), report(at, -512, 1); }
int main() {
    at = segment(2 << 20);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &action, 0);
    pid_t self = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 2000; i++) kill(self, SIGUSR1), usleep(20);
        _exit(0);
    }
    int status, running = 1;
    for (long i = 0; running; i++) {
        report(at + 1024, 512, 1), report(at + 1024, -512, 1);
        if (i % 1000 == 0) running = waitpid(child, &status, WNOHANG) == 0;
    }
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert!(status.success());
    // What interrupted a record is not recorded, and everything else is whole.
    let trace = read(&logs[0]);
    let own = trace.devices[0].events.iter().filter(|e| e.address() % 4096 == 1024);
    let own: Vec<Action> = own.map(|e| e.action).collect();
    assert!(own.len().is_multiple_of(2) && own.chunks(2).all(|pair| pair == [Action::Alloc, Action::Free]));
}

/// The events of each address in a log alternate, and begin with an allocation. Returns their number.
fn alternating(log: &RecordedProcess) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    for e in read(log).devices.iter().flat_map(|device| device.events.iter()) {
        let count = counts.entry(e.address()).or_insert(0);
        let expected = if *count % 2 == 0 { Action::Alloc } else { Action::Free };
        assert_eq!(e.action, expected, "{:#x}, event {count}", e.address());
        *count += 1;
    }
    counts
}

/// Several releases of Python: those in `VRAMSCOPE_PYTHONS`, separated by colons, or `python3`.
#[test]
fn subinterpreters_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "int main() {}", TORCH);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/interpreters.py");
    let pythons = std::env::var("VRAMSCOPE_PYTHONS").unwrap_or_else(|_| "python3".to_owned());
    for python in pythons.split(':') {
        for stacks in [RecordedStacks::Python, RecordedStacks::All] {
            let mut options = RecorderOptions::default();
            options.stacks = stacks;
            let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
            let mut command = Command::new(python);
            command.arg(script).arg(folder.path().join("libc10_cuda.so")).envs(recorder.environment());
            let output = command.output().unwrap();
            let logs = recorder.finish();
            if output.stderr.starts_with(b"this Python has no subinterpreters") {
                skip("subinterpreters", "subinterpreters take CPython 3.8 or later");
                return;
            }
            assert!(output.status.success(), "{python}: {output:?}");
            let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
            let counts = alternating(&logs[0]);
            assert!(
                counts.len() == count && counts.values().all(|&events| events == 200),
                "{python}: {counts:?}"
            );
            let trace = read(&logs[0]);
            // Python 3.11 shows the frames of the main interpreter, below which the other one runs.
            for e in trace.devices[0].events.iter() {
                let frames = e.stack.map(|stack| trace.stacks.get(stack)).unwrap_or_default();
                let is_ours =
                    |&f| ["in_interpreter", "run"].contains(&trace.strings.get(trace.frames.get(f).name));
                assert!(e.stack.is_none() || frames.iter().any(is_ours), "{python}: {frames:?}");
            }
        }
    }
}

/// A thread ends the process while others are in the middle of a record.
#[test]
fn a_process_that_exits_at_once_leaves_a_whole_log() {
    let program = r#"
static void *work(void *number) {
    char *mine = (char *)(4096 * (1 + (long)number));
    for (;;) report(mine, 512, 1), report(mine, -512, 1);
}
int main() {
    pthread_t thread;
    for (long i = 0; i < 3; i++) pthread_create(&thread, 0, work, (void *)i);
    for (int i = 0; i < 1000; i++) report((void *)64, 512, 1), report((void *)64, -512, 1);
    _exit(3);
}"#;
    let Some((_folder, status, logs)) = record(&format!("{TORCH_DECLARATIONS}{program}"), TORCH) else {
        return;
    };
    assert_eq!(status.code(), Some(3));
    assert_eq!(alternating(&logs[0])[&64], 2000);
}

/// A handler that runs on a stack of its own, allocates, and crashes, while the interrupted thread is in the middle of a record.
#[test]
fn a_crash_in_a_signal_handler_leaves_a_whole_log() {
    let program = r#"
static void handler(int number) {
    report((void *)64, 512, 1), report((void *)64, -512, 1);
    *(volatile int *)8 = 1;
}
int main() {
    static char space[1 << 16];
    stack_t stack = { .ss_sp = space, .ss_size = sizeof space };
    sigaltstack(&stack, 0);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    sigaction(SIGUSR1, &action, 0);
    pid_t self = getpid();
    int delay = atoi(getenv("DELAY"));
    for (long i = 0;; i++) {
        report((void *)4096, 512, 1), report((void *)4096, -512, 1);
        if (i == 1000 && fork() == 0) usleep(delay), kill(self, SIGUSR1), _exit(0);
    }
}"#;
    use std::os::unix::process::ExitStatusExt as _;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    for i in 0..10 {
        let mut options = RecorderOptions::default();
        options.stacks = if i % 2 == 0 { RecordedStacks::All } else { RecordedStacks::Python };
        let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
        let mut command = Command::new(folder.path().join("program"));
        let delay = (i * 317).to_string();
        let status = command.envs(recorder.environment()).env("DELAY", delay).status().unwrap();
        assert_eq!(status.signal(), Some(11));
        let logs = recorder.finish();
        let counts = alternating(&logs[0]);
        assert!(counts[&4096] > 2000 && counts.get(&64).is_none_or(|&count| count == 2), "{counts:?}");
    }
}

/// Forked processes begin with the memory of a process whose other threads are anywhere, and end without a deadlock.
#[test]
fn processes_that_are_forked_while_threads_allocate_are_recorded() {
    let program = r#"
static volatile int is_over;
static void *work(void *number) {
    char *mine = (char *)(4096 * (1 + (long)number));
    for (long i = 0; !is_over; i++) {
        report(mine, 512, 1), report(mine, -512, 1), free(malloc(100 + i % 1000));
        if (i % 16 == 0) usleep(100);
    }
    return 0;
}
int main() {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, work, (void *)i);
    usleep(1000);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 5; k++) report((void *)64, 512, 1), report((void *)64, -512, 1);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) return 5;
    }
    is_over = 1;
    for (long i = 0; i < 8; i++) pthread_join(threads[i], 0);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    for stacks in [RecordedStacks::Python, RecordedStacks::All] {
        let mut options = RecorderOptions::default();
        options.stacks = stacks;
        let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
        let mut command = Command::new(folder.path().join("program"));
        let status = command.envs(recorder.environment()).status().unwrap();
        let logs = recorder.finish();
        assert!(status.success(), "{status}");
        assert_eq!(logs.len(), 31);
        let counts: Vec<_> = logs.iter().map(alternating).collect();
        assert_eq!(counts.iter().filter(|counts| counts.len() == 1 && counts[&64] == 10).count(), 30);
        assert_eq!(counts.iter().filter(|counts| counts.len() == 8).count(), 1);
    }
}

/// Frames with frame pointers and without, in a library and in the program, and a realigned stack.
#[test]
#[cfg(target_arch = "x86_64")]
fn native_stacks_reach_the_program() {
    let library = r#"
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *, long, size_t, size_t, u64);
__attribute__((noinline, optimize("O2", "omit-frame-pointer"))) void without_pointer(void *at) {
    volatile char space[300];
    space[0] = 1;
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(at, 512, 0, 0, 1);
    space[1] = 1;
}
__attribute__((noinline, optimize("O2"))) void realigned(void *at, int size) {
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char variable[size];
    aligned[0] = variable[0] = 1;
    without_pointer(at);
    aligned[1] = 1;
}
__attribute__((noinline, optimize("O0", "no-omit-frame-pointer"))) void with_pointer(void *at) { realigned(at, 100); }"#;
    let program = r#"
void with_pointer(void *);
__attribute__((noinline)) void twice(int depth, char *at) {
    if (depth) twice(depth - 1, at); else with_pointer(at);
    __asm__ volatile("");
}
int main() {
    for (int i = 0; i < 3; i++) twice(5, (char *)0x1000 + 512 * i);
}"#;
    let mut options = RecorderOptions::default();
    options.stacks = RecordedStacks::All;
    let libraries = [("c10", C10), ("c10_cuda", library)];
    let Some((_folder, status, logs)) = record_with(options, program, &libraries) else { return };
    assert!(status.success());
    let trace = read(&logs[0]);
    let events = &trace.devices[0].events;
    assert_eq!(events.len(), 3);
    for e in events.iter() {
        let frames = trace.stacks.get(e.stack.unwrap());
        let names: Vec<&str> = frames.iter().map(|&f| trace.strings.get(trace.frames.get(f).name)).collect();
        let start = ["without_pointer", "realigned", "with_pointer"];
        let expected = [&start[..], &["twice"; 6], &["main"]].concat();
        assert_eq!(names.get(..expected.len()), Some(&expected[..]), "{names:#?}");
    }
}

#[test]
fn stacks_can_be_left_out() {
    let mut options = RecorderOptions::default();
    options.stacks = RecordedStacks::None;
    let program = format!("{TORCH_DECLARATIONS} int main() {{ report(segment(2 << 20), 512, 1); }}");
    let Some((_folder, _, logs)) = record_with(options, &program, TORCH) else { return };
    assert!(read(&logs[0]).devices[0].events.iter().all(|e| e.stack.is_none()));
}

/// The program counts its events in a file, in mapped memory. `VRAMSCOPE_KILLS` sets the number of kills.
#[test]
fn logs_of_programs_that_are_killed_at_any_time_are_complete() {
    let kills: u64 = std::env::var("VRAMSCOPE_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let program = r#"
#include <fcntl.h>
#include <sys/mman.h>
static volatile long *count;
static void *work(void *unused) {
    for (long i = 0;; i++) report((void *)(4096 + 512 * i), 512, 1), __sync_fetch_and_add(count, 1);
}
int main() {
    int file = open(getenv("COUNT"), O_RDWR | O_CREAT, 0600);
    ftruncate(file, 4096);
    count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
    pthread_join(threads[0], 0);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    let path = |name: &str| folder.path().join(name);
    for kill in 0..kills {
        std::fs::remove_file(path("count")).ok();
        let recorder = RecorderRun::start(&path("run.vramscope"), RecorderOptions::default()).unwrap();
        let mut command = Command::new(path("program"));
        let mut child = command.envs(recorder.environment()).env("COUNT", path("count")).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(3000 + kill * 7919 % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let logs = recorder.finish();
        let counted = std::fs::read(path("count")).unwrap_or_default();
        let counted = counted.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // A program that was killed before its first event has an empty log.
        let trace = logs.first().map(read);
        let recorded = trace.and_then(|trace| Some(trace.devices.first()?.events.len() as u64)).unwrap_or(0);
        // Each of three threads may have recorded an event that it has not counted.
        assert!(
            (counted..=counted + 3).contains(&recorded),
            "{recorded} of {counted} events after kill {kill}"
        );
    }
}

/// A program that allocates a block of each size and frees it 100 blocks later, so that live memory is in every log. It counts its frees
/// in a file, if it is to be killed.
const SIZES: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
static volatile long count_here, *count = &count_here;
static void sizes(char *at, long from, long to) {
    for (long i = from; i < to; i++) {
        report(at + 512 * (i % 1000), i, 1);
        if (i >= from + 100) report(at + 512 * ((i - 100) % 1000), 100 - i, 1), *count = i - 100;
    }
}
static void count_in_file(void) {
    int file = open(getenv("COUNT"), O_RDWR | O_CREAT, 0600);
    ftruncate(file, 4096);
    count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}
"#;

/// The program has 16 GiB, and holds more than half of it after the second allocation.
#[test]
fn a_log_is_copied_at_a_mark_and_at_an_oom_and_continues() {
    let program = r#"
int main() {
    void *a, *b, *c;
    check(cudaMalloc(&a, 1 << 20), "first");
    check(cudaMalloc(&b, 9ull << 30), "second");
    check(cudaFree(b), "free"), check(cudaMalloc(&c, 8500ull << 20), "again");
    report(segment(2 << 20), 512, 1);
    fail(1 << 30);
    check(cudaFree(a), "free");
    fail(1 << 30);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    let Some(phantom) = phantom_run(1) else { return };
    let mut options = limited();
    options.copy_at = Some(CopyAt::Percent(50));
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), options).unwrap();
    let copies = recorder.copies();
    let mut command = Command::new(folder.path().join("program"));
    assert!(command.envs(both(&phantom, &recorder)).status().unwrap().success());
    let logs = recorder.finish();
    assert!(logs[0].error.is_none(), "{logs:?}");
    let copies: Vec<PathBuf> = copies
        .into_iter()
        .map(|copy| {
            let copy = copy.unwrap();
            let path = copy.path().to_owned();
            copy.write().unwrap();
            path
        })
        .collect();
    let name = |name: &str| folder.path().join(name);
    assert_eq!(copies, [name("run-at-mark.vramscope"), name("run-at-oom.vramscope")]);
    let summary = |path: &Path| {
        let recording = formats::read(std::fs::File::open(path).unwrap()).unwrap();
        assert_eq!(recording.notices, Notices::default());
        let trace = recording.trace;
        let events: Vec<Action> =
            trace.devices.first().map(|d| d.events.iter().map(|e| e.action).collect()).unwrap_or_default();
        (driver_events(&trace).len(), events)
    };
    let at_oom = vec![Action::SegmentAlloc, Action::Alloc, Action::Oom];
    assert_eq!(summary(&copies[0]), (2, vec![]));
    assert_eq!(summary(&copies[1]), (4, at_oom.clone()));
    assert_eq!(summary(&logs[0].path), (5, [at_oom, vec![Action::Oom]].concat()));
}

fn limited() -> RecorderOptions {
    let mut options = RecorderOptions::default();
    options.keep = Some(RecorderOptions::LEAST_KEPT);
    options
}

fn read_at(path: &Path) -> Trace {
    let file = std::fs::File::open(path).unwrap();
    std::sync::Arc::unwrap_or_clone(formats::read(file).unwrap().trace)
}

fn before(log: &Path) -> PathBuf {
    log.with_file_name("run-before.vramscope")
}

/// The sizes of the frees after the beginning of a log, which must be in order and of blocks that are live in the log.
fn freed(trace: &Trace) -> std::ops::Range<u64> {
    let Some(device) = trace.devices.first() else { return 0..0 };
    let events = &device.events;
    let cut = trace.process.as_ref().unwrap().cut.as_ref();
    let first = cut.map_or(0, |cut| cut.device_events[0].1);
    let mut live = std::collections::HashMap::new();
    let mut freed = Vec::new();
    for (i, e) in events.iter().enumerate() {
        match e.action {
            Action::Alloc => assert_eq!(live.insert(e.address(), e.size), None, "event {i}"),
            Action::Free => {
                assert!(i >= first && live.remove(&e.address()) == Some(e.size), "event {i}");
                freed.push(e.size);
            }
            _ => {}
        }
    }
    let range = freed.first().map_or(0..0, |&first| first..first + freed.len() as u64);
    assert!(freed.iter().copied().eq(range.clone()));
    range
}

#[test]
fn a_limited_log_begins_with_what_is_live() {
    let program = r#"
int main() {
    void *workspace;
    check(cudaMalloc(&workspace, 1000), "malloc");
    char *at = segment(2 << 20);
    report(at + (1 << 20), 4096, 1);
    sizes(at, 1, 200000);
    report(at + (1 << 20) + 4096, 500000, 1), report(at + (1 << 20) + 4096, -500000, 1);
}"#;
    let program = format!("{TORCH_DECLARATIONS}{SIZES}{program}");
    let Some((_folder, status, logs)) = record_with(limited(), &program, TORCH) else { return };
    assert!(status.success() && logs[0].limit_error.is_none());
    let [log, before] = [logs[0].path.clone(), before(&logs[0].path)];
    let size = [&log, &before].map(|path| std::fs::metadata(path).unwrap().len()).iter().sum::<u64>();
    assert!((1 << 19..=1 << 20).contains(&size), "{size}");
    let (earlier, trace) = (read_at(&before), read_at(&log));

    // Each begins with the memory from the start of the program, in its order and with its times.
    let start = |trace: &Trace| -> Vec<_> {
        trace.devices[0].events.iter().take(2).map(|e| (e.action, e.size, e.time_us, e.address())).collect()
    };
    assert_eq!(start(&trace), start(&earlier));
    assert_eq!(start(&trace)[0].0, Action::SegmentAlloc);
    assert_eq!(start(&trace)[1].1, 4096);
    assert_eq!(driver_events(&trace), ["take device 1000 by program"]);
    let cut = trace.process.as_ref().unwrap().cut.as_ref().unwrap();
    assert_eq!((cut.device_events[0].0, cut.driver_events), (0, 1));
    assert!((102..=103).contains(&cut.device_events[0].1), "{cut:?}");
    let times: Vec<i64> = trace.devices[0].events.iter().map(|e| e.time_us.unwrap()).collect();
    assert!(times.is_sorted() && times[cut.device_events[0].1 - 1] <= cut.time_us);
    assert_eq!(trace.devices[0].overflowed, Some(true));

    // Nothing is missing between the two, and the end has the live blocks.
    let frees = |trace: &Trace| trace.devices[0].events.iter().filter(|e| e.action == Action::Free).count();
    let last = trace.devices[0].events.iter().last().unwrap();
    assert_eq!((last.action, last.size, frees(&trace) > 1), (Action::Free, 500_000, true));
    let sizes = |trace: &Trace| {
        let frees = trace.devices[0].events.iter().filter(|e| e.action == Action::Free);
        frees.map(|e| e.size).filter(|&size| size < 500_000).collect::<Vec<_>>()
    };
    let (earlier, later) = (sizes(&earlier), sizes(&trace));
    assert!(earlier.len() > 10_000 && earlier.iter().chain(&later).copied().eq(earlier[0]..199_900));
    let live: u64 = trace.devices[0].segments.iter().filter_map(|s| s.allocated_size).sum();
    assert!(live >= 4096);
}

/// Resident memory of a process in KiB, without the rings that it has mapped.
fn resident(process: &str) -> u64 {
    let (mut total, mut is_ring) = (0, false);
    for line in std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default().lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Rss:") if !is_ring => total += words.next().unwrap().parse::<u64>().unwrap(),
            Some(range) if !range.ends_with(':') => is_ring = line.contains("/rings/"),
            _ => {}
        }
    }
    total
}

/// `VRAMSCOPE_EVENTS` sets the number of events.
#[test]
fn memory_does_not_grow_with_the_number_of_events() {
    let events: u64 = std::env::var("VRAMSCOPE_EVENTS").map_or(500_000, |events| events.parse().unwrap());
    let program = "int main(int count, char **words) { sizes(segment(2 << 20), 1, atol(words[1]) / 2); }";
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{SIZES}{program}"), TORCH);
    let Some(phantom) = phantom_run(1) else { return };
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), limited()).unwrap();
    let mut command = Command::new(folder.path().join("program"));
    let mut child = command.arg(events.to_string()).envs(both(&phantom, &recorder)).spawn().unwrap();
    let (mut highest, mut reader) = (0, Vec::new());
    let begin = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        highest = resident(&child.id().to_string()).max(highest);
        reader.push(resident("self"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (first, most) = (reader[0], reader.iter().copied().max().unwrap());
    println!(
        "{events} events in {:.1?}: the program has at most {highest} KiB, the reader {first} to {most} KiB",
        begin.elapsed()
    );
    assert!(highest < 64 << 10 && most - first < 128 << 10);
    let logs = recorder.finish();
    assert!(logs[0].dropped == 0 && logs[0].error.is_none() && logs[0].limit_error.is_none(), "{logs:?}");
}

/// `VRAMSCOPE_KILLS` sets the number of kills.
#[test]
fn limited_logs_of_programs_that_are_killed_at_any_time_are_complete() {
    let kills: u64 = std::env::var("VRAMSCOPE_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let program = "int main() { count_in_file(); sizes((char *)4096, 1, 1l << 40); }";
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{SIZES}{program}"), TORCH);
    let path = |name: &str| folder.path().join(name);
    let mut cuts = 0;
    for kill in 0..kills {
        std::fs::remove_file(path("count")).ok();
        let mut options = limited();
        options.replaces = true;
        let recorder = RecorderRun::start(&path("run.vramscope"), options).unwrap();
        let mut command = Command::new(path("program"));
        let mut child = command.envs(recorder.environment()).env("COUNT", path("count")).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(60_000 + kill * 7919 % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let logs = recorder.finish();
        let Some(log) = logs.first() else { continue };
        assert!(log.error.is_none() && log.limit_error.is_none(), "{log:?}");
        let counted = std::fs::read(path("count")).unwrap_or_default();
        let counted = counted.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut frees = freed(&read_at(&log.path));
        if let Ok(true) = before(&log.path).try_exists() {
            let earlier = freed(&read_at(&before(&log.path)));
            assert!(frees.is_empty() || earlier.end == frees.start, "{earlier:?} {frees:?}");
            frees = earlier.start..frees.end.max(earlier.end);
            cuts += 1;
        }
        // The program may have recorded a free that it has not counted.
        let is_whole = (counted + 1..=counted + 2).contains(&frees.end) || counted == 0;
        assert!(is_whole, "{frees:?} of {counted}");
        assert!(!path("run-next.vramscope").exists());
    }
    assert!(cuts > 0);
}

#[test]
fn a_log_whose_successor_cannot_be_created_continues() {
    let program = r#"
int main() {
    char *at = segment(2 << 20);
    usleep(100000);
    mkdir("run-next.vramscope", 0700);
    sizes(at, 1, 100000);
    return 7;
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{SIZES}{program}"), TORCH);
    let Some(phantom) = phantom_run(1) else { return };
    let recorder = RecorderRun::start(&folder.path().join("run.vramscope"), limited()).unwrap();
    let mut command = Command::new(folder.path().join("program"));
    let status = command.envs(both(&phantom, &recorder)).current_dir(folder.path()).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let logs = recorder.finish();
    assert!(logs[0].error.is_none() && logs[0].limit_error.is_some(), "{logs:?}");
    assert_eq!(freed(&read(&logs[0])), 1..99_900);
}

/// On a file system of 700 KiB, a log of 512 KiB leaves no room for another one until it is deleted.
#[test]
fn a_disk_that_is_full_when_the_next_log_begins_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        Command::new(arguments[0]).args(&arguments[1..]).arg(&disk).status().is_ok_and(|s| s.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=700k", "none"]) {
        return vramscope_testing::skip("root", "only root can mount a file system");
    }
    let program = "int main() { sizes(segment(2 << 20), 1, 100000); return 7; }";
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{SIZES}{program}"), TORCH);
    if let Some(phantom) = phantom_run(1) {
        let recorder = RecorderRun::start(&disk.join("run.vramscope"), limited()).unwrap();
        let status = Command::new(folder.path().join("program")).envs(both(&phantom, &recorder)).status();
        assert_eq!(status.unwrap().code(), Some(7));
        let logs = recorder.finish();
        assert!(logs[0].limit_error.is_none() && logs[0].error.is_none(), "{logs:?}");
        assert_eq!(freed(&read(&logs[0])).end, 99_900);
    }
    assert!(mount(&["umount"]));
}

/// The program goes on without a reader, and so does one whose log cannot be written.
#[test]
fn a_full_disk_ends_the_log_and_not_the_program() {
    let program = "int main() { char *at = segment(2 << 20);
        for (int i = 0; i < 10000; i++) report(at, 512, 1), report(at, -512, 1); return 7; }";
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    let Some(phantom) = phantom_run(1) else { return };
    let recorder = RecorderRun::start(Path::new("/dev/full"), RecorderOptions::default()).unwrap();
    let mut command = Command::new(folder.path().join("program"));
    let status = command.envs(both(&phantom, &recorder)).status().unwrap();
    assert_eq!(status.code(), Some(7));
    let logs = recorder.finish();
    assert_eq!(logs[0].error.as_ref().unwrap().kind(), std::io::ErrorKind::StorageFull);
}

/// The reader of the test below. It writes a log until its input ends.
#[test]
#[ignore = "another test starts it"]
fn reader_in_a_process_of_its_own() {
    let out = std::env::var_os("VRAMSCOPE_TEST_LOG").unwrap();
    let recorder = RecorderRun::start(Path::new(&out), RecorderOptions::default()).unwrap();
    for (name, value) in recorder.environment() {
        println!("\nset {name} {}", value.display());
    }
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let logs = recorder.finish();
    println!("\nrecorded {} {}", logs[0].events, logs[0].dropped);
}

/// A recorder in another process.
struct Reader {
    child: std::process::Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    environment: HashMap<String, String>,
}

impl Reader {
    fn start(log: &Path) -> Self {
        use std::io::BufRead as _;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "reader_in_a_process_of_its_own", "--ignored", "--nocapture"]);
        let piped = std::process::Stdio::piped;
        let mut child =
            command.env("VRAMSCOPE_TEST_LOG", log).stdin(piped()).stdout(piped()).spawn().unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut environment = HashMap::new();
        for line in lines.by_ref().map(Result::unwrap).take_while(|line| line != "ready") {
            if let Some((name, value)) = line.strip_prefix("set ").and_then(|set| set.split_once(' ')) {
                environment.insert(name.to_owned(), value.to_owned());
            }
        }
        Self { child, lines, environment }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The events and the dropped events of its log.
    fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let recorded = self.lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("recorded "));
        self.child.wait().unwrap();
        recorded.unwrap()
    }
}

/// The program fills its ring while the reader gets no processor.
#[test]
fn a_program_waits_for_a_stopped_reader_but_not_for_a_killed_one() {
    use rustix::process::Signal;
    let program = "int main() { for (int i = 0; i < 300000; i++) report((void *)4096, 512, 1), report((void *)4096, -512, 1); }";
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
    let start = |reader: &Reader| {
        reader.signal(Signal::STOP);
        Command::new(folder.path().join("program")).envs(&reader.environment).spawn().unwrap()
    };
    let reader = Reader::start(&folder.path().join("run.vramscope"));
    let mut program = start(&reader);
    std::thread::sleep(std::time::Duration::from_millis(3500));
    let waits = program.try_wait().unwrap().is_none();
    reader.signal(Signal::CONT);
    assert!(program.wait().unwrap().success() && waits);
    assert_eq!(reader.finish(), "recorded 600000 0");

    let reader = Reader::start(&folder.path().join("run.vramscope"));
    let mut program = start(&reader);
    reader.signal(Signal::KILL);
    let begin = std::time::Instant::now();
    assert!(program.wait().unwrap().success());
    assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// Loads the library into the program that calls this, as a program does that was not started with it.
const ATTACH: &str = r#"
int (*attach)(const char *, const char *), (*detach)(void);
static void load(void) {
    void *library = dlopen(getenv("LIBRARY"), RTLD_NOW);
    if (!library) { printf("%s\n", dlerror()); exit(1); }
    attach = dlsym(library, "vramscope_recorder_attach"), detach = dlsym(library, "vramscope_recorder_detach");
}
static void begin(void) { check(attach(getenv("RINGS"), 0), "attach"); }
static void end(void) { check(detach(), "detach"); }
"#;

/// Runs a program that attaches to itself.
fn record_attached(program: &str, libraries: &[(&str, &str)]) -> Option<Run> {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{ATTACH}{program}"), libraries);
    let (status, logs) = run_attached(folder.path())?;
    Some((folder, status, logs))
}

fn run_attached(folder: &Path) -> Option<(ExitStatus, Vec<RecordedProcess>)> {
    let phantom = phantom_run(1)?;
    let recorder = RecorderRun::start(&folder.join("run.vramscope"), RecorderOptions::default()).unwrap();
    let mut command = Command::new(folder.join("program"));
    command.current_dir(folder).envs(phantom.environment()).env("TIMES", times().to_string());
    let status = command.env("LIBRARY", recorder.library()).env("RINGS", recorder.rings()).status().unwrap();
    let logs = recorder.finish();
    for log in &logs {
        assert!(log.error.is_none() && log.dropped == 0, "{log:?}");
    }
    Some((status, logs))
}

/// Calls from before and after are not recorded, and frees of unknown memory do no harm.
#[test]
fn a_running_program_can_be_recorded_for_a_while() {
    let program = r#"
int main() {
    void *before, *during, *after;
    load();
    check(cudaMalloc(&before, 1000), "before");
    for (int i = 0; i < 3; i++) {
        begin();
        if (attach(getenv("RINGS"), 0) != 1) return 5;
        check(cudaMalloc(&during, 2000 + i), "during");
        if (i == 0) check(cudaFree(before), "unknown");
        if (i < 2) check(cudaFree(during), "free");
        end();
        if (detach() != 4) return 6;
        check(cudaMalloc(&after, 3000), "after");
        check(cudaFree(after), "after");
    }
}"#;
    let Some((_folder, status, logs)) = record_attached(program, &[]) else { return };
    assert!(status.success(), "{status}");
    let events: Vec<Vec<String>> = logs.iter().map(|log| driver_events(&read(log))).collect();
    let event = |what: &str, size: u64| format!("{what} device {size} by program");
    let both = |size| vec![event("take", size), event("free", size)];
    assert_eq!(events, [both(2000), both(2001), vec![event("take", 2002)]]);
    // The program had memory before.
    assert!(logs.iter().all(|log| read(log).process.as_ref().unwrap().attached_us.is_some()));
    assert_ne!(logs[0].path, logs[1].path);
}

/// A table of the driver's functions, as CUDA's runtime has one. The values of all words are those of before after detaching.
#[test]
fn tables_of_driver_functions_are_restored_after_detaching() {
    let library = r#"
typedef int (*lookup2)(const char *, void **, int, u64, int *);
static struct table { int (*alloc)(u64 *, size_t), (*freed)(u64), (*async)(u64 *, size_t, void *); lookup2 lookup; } table;
// Memory of malloc is not changed.
static struct table *copy;
void fill(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int status;
    table.alloc = dlsym(driver, "cuMemAlloc_v2");
    table.lookup = dlsym(driver, "cuGetProcAddress_v2");
    check(table.lookup("cuMemFree", (void **)&table.freed, 13000, 0, &status), "free");
    check(table.lookup("cuMemAllocAsync", (void **)&table.async, 12000, 2, &status), "async");
    copy = malloc(sizeof table), *copy = table;
}
void use(size_t size) {
    u64 a, b, c;
    void *found;
    int status;
    check(table.alloc(&a, size), "alloc");
    check(table.async(&b, size, 0), "async");
    check(table.lookup("cuMemAlloc", &found, 13000, 0, &status), "lookup");
    check(((int (*)(u64 *, size_t))found)(&c, size), "found");
    check(table.freed(a) + table.freed(c), "free");
}
void *late;
void look_up(void) { late = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"); }
int changed(void) {
    return (table.alloc != copy->alloc) + (table.freed != copy->freed) + (table.async != copy->async)
        + (table.lookup != copy->lookup) + (late != copy->alloc);
}"#;
    let program = r#"
void fill(void), use(size_t), look_up(void); int changed(void);
int main() {
    check(cudaFree(0), "context");
    fill(), load();
    begin(), use(100), look_up();
    if (changed() != 5) return 5;
    end(), use(200);
    if (changed()) return 6;
    begin(), use(300), end();
    if (changed()) return 7;
}"#;
    let Some((_folder, status, logs)) = record_attached(program, &[("driver_user", library)]) else { return };
    assert!(status.success(), "{status}");
    let event = |what: &str, memory: &str, size: u64| format!("{what} {memory} {size} by libdriver_user.so");
    let of = |size| {
        vec![
            event("take", "device", size),
            event("take", "async", size),
            event("take", "device", size),
            event("free", "device", size),
            event("free", "device", size),
        ]
    };
    assert_eq!(logs.iter().map(|log| driver_events(&read(log))).collect::<Vec<_>>(), [of(100), of(300)]);
}

/// A library that is loaded while the program is recorded, and one that is unloaded.
#[test]
fn libraries_that_are_loaded_later_are_recorded() {
    let used = "void *take(size_t size) { void *at; check(cudaMalloc(&at, size), \"take\"); return at; }";
    let program = r#"
static void *loaded(const char *name) {
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) { printf("%s\n", dlerror()); exit(1); }
    return library;
}
int main() {
    check(cudaFree(0), "context");
    load(), begin();
    void *first = loaded("./libfirst.so");
    void *(*take)(size_t) = dlsym(first, "take");
    take(100);
    dlclose(first);
    void *second = loaded("./libsecond.so");
    take = dlsym(second, "take");
    take(200);
    end();
    take(300);
    begin(), take(400), end();
}"#;
    let folder = tempfile::tempdir().unwrap();
    // Compiled with the program, and not linked to it.
    // Two objects at the same address would be the same object in the log.
    let other = format!("int unused(int i) {{ return i * i; }} {used}");
    compile(folder.path(), "int main() {}", &[("first", used), ("second", &other)]);
    std::fs::rename(folder.path().join("program"), folder.path().join("unused")).unwrap();
    compile(folder.path(), &format!("{ATTACH}{program}"), &[]);
    let Some((status, logs)) = run_attached(folder.path()) else { return };
    assert!(status.success(), "{status}");
    let events: Vec<Vec<String>> = logs.iter().map(|log| driver_events(&read(log))).collect();
    let take = |size: u64, name: &str| format!("take device {size} by {name}");
    assert_eq!(
        events,
        [vec![take(100, "libfirst.so"), take(200, "libsecond.so")], vec![take(400, "libsecond.so")],]
    );
}

/// Threads load and unload libraries, which are changed while the loader may still set their words.
#[test]
fn libraries_come_and_go_while_the_recorder_comes_and_goes() {
    let used =
        "void take(void) { void *at; check(cudaMalloc(&at, 64), \"take\"), check(cudaFree(at), \"free\"); }";
    let program = r#"
static volatile int is_over;
static void *work(void *number) {
    char name[20];
    sprintf(name, "./libuser%d.so", (int)(long)number);
    for (long i = 0; !is_over; i++) {
        void *library = dlopen(name, i % 2 ? RTLD_LAZY : RTLD_NOW);
        if (!library) { printf("%s\n", dlerror()); exit(1); }
        ((void (*)(void))dlsym(library, "take"))();
        dlclose(library);
    }
    return 0;
}
int main() {
    pthread_t threads[4];
    load();
    check(cudaFree(0), "context");
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < atoi(getenv("TIMES")) / 4; i++) begin(), usleep(i % 7 * 1000), end();
    is_over = 1;
    for (long i = 0; i < 4; i++) pthread_join(threads[i], 0);
}"#;
    let folder = tempfile::tempdir().unwrap();
    let names = ["user0", "user1", "user2", "user3"];
    compile(folder.path(), "int main() {}", &names.map(|name| (name, used)));
    compile(folder.path(), &format!("{ATTACH}{program}"), &[]);
    let Some((status, logs)) = run_attached(folder.path()) else { return };
    assert!(status.success(), "{status}");
    assert_eq!(logs.len(), times() / 4);
    assert!(logs.iter().any(|log| log.events > 0));
}

/// Sixteen threads allocate while the program attaches and detaches. `VRAMSCOPE_ATTACHES` sets how often.
#[test]
fn attaching_and_detaching_does_not_disturb_allocating_threads() {
    let program = r#"
static volatile int is_over;
static void *work(void *number) {
    char *mine = (char *)(4096 * (1 + (long)number));
    for (long i = 0; !is_over; i++) {
        report(mine, 512, 1), report(mine, -512, 1);
        if (i % 64 == 0) { void *at; check(cudaMalloc(&at, 512), "malloc"), check(cudaFree(at), "free"); }
        if (i % 16 == 0) usleep(200);
    }
    return 0;
}
int main() {
    pthread_t threads[16];
    load();
    check(cudaFree(0), "context");
    for (long i = 0; i < 16; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < atoi(getenv("TIMES")); i++) begin(), usleep(i % 7 * 300), end();
    is_over = 1;
    for (long i = 0; i < 16; i++) pthread_join(threads[i], 0);
}"#;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), &format!("{TORCH_DECLARATIONS}{ATTACH}{program}"), TORCH);
    let Some((status, logs)) = run_attached(folder.path()) else { return };
    assert!(status.success(), "{status}");
    assert_eq!(logs.len(), times());
    let mut events = 0;
    for log in &logs {
        let trace = read(log);
        let mut live = HashMap::new();
        for e in trace.devices.iter().flat_map(|device| device.events.iter()) {
            events += 1;
            // The first event of an address may be the free of an unknown block.
            let is_alloc = e.action == Action::Alloc;
            assert_ne!(live.insert(e.address(), is_alloc), Some(is_alloc), "{:#x}: twice", e.address());
        }
    }
    assert!(events > times(), "{events} events");
}

fn times() -> usize {
    std::env::var("VRAMSCOPE_ATTACHES").map_or(100, |times| times.parse().unwrap())
}

/// A program that was not started with the recorder. `VRAMSCOPE_ATTACHES` sets how often the recorder attaches to each.
#[test]
fn running_programs_are_attached_to_and_detached_from() {
    let busy = r#"
static void *work(void *number) {
    char *mine = (char *)(4096 * (1 + (long)number));
    for (;;) {
        report(mine, 512, 1), report(mine, -512, 1);
        free(malloc(100 + (long)number)), usleep(500);
    }
}
int main() {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
    fclose(fopen("started", "w")), pthread_join(threads[0], 0);
}"#;
    // It calls malloc never.
    let idle = r#"
int main() {
    fclose(fopen("started", "w"));
    for (;;) usleep(2000), report((void *)4096, 512, 1), report((void *)4096, -512, 1);
}"#;
    let times = std::env::var("VRAMSCOPE_ATTACHES").map_or(2, |times| times.parse().unwrap());
    for (program, times) in [(busy, times), (idle, 1)] {
        let folder = tempfile::tempdir().unwrap();
        compile(folder.path(), &format!("{TORCH_DECLARATIONS}{program}"), TORCH);
        let mut child =
            Command::new(folder.path().join("program")).current_dir(folder.path()).spawn().unwrap();
        while !folder.path().join("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let out = folder.path().join("run.vramscope");
        for _ in 0..times {
            let attached = AttachedProcess::attach(child.id(), &out, RecorderOptions::default()).unwrap();
            assert!(attached.is_recorded());
            std::thread::sleep(std::time::Duration::from_millis(50));
            let again = AttachedProcess::attach(child.id(), &out, RecorderOptions::default());
            assert!(matches!(again, Err(AttachError::Recorded(_))), "{again:?}");
            let (logs, error) = attached.finish();
            assert!(error.is_none(), "{error:?}");
            assert!(logs.len() == 1 && logs[0].error.is_none() && logs[0].events > 0, "{logs:?}");
            assert_eq!(read(&logs[0]).devices[0].events.len() as u64, logs[0].events);
        }
        assert!(child.try_wait().unwrap().is_none(), "the program has ended");
        let attached = AttachedProcess::attach(child.id(), &out, RecorderOptions::default()).unwrap();
        child.kill().unwrap();
        // Nobody has waited for it yet.
        while attached.is_recorded() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let (logs, error) = attached.finish();
        assert!(error.is_none() && logs.len() == 1, "{error:?} {logs:?}");
        child.wait().unwrap();
    }
    let ended = AttachedProcess::attach(u32::MAX >> 8, Path::new("x.vramscope"), RecorderOptions::default());
    assert!(matches!(ended, Err(AttachError::NoProcess(_))), "{ended:?}");
}

#[test]
fn a_static_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.c"), "#include <unistd.h>\nint main() { return sleep(60); }")
        .unwrap();
    let mut cc = Command::new("cc");
    if !cc
        .current_dir(folder.path())
        .args(["-static", "-o", "program", "program.c"])
        .status()
        .unwrap()
        .success()
    {
        skip("static-glibc", "a static program takes the static C library");
        return;
    }
    let mut child = Command::new(folder.path().join("program")).spawn().unwrap();
    let attached =
        AttachedProcess::attach(child.id(), &folder.path().join("x.vramscope"), RecorderOptions::default());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(attached, Err(AttachError::Static(_))), "{attached:?}");
}
