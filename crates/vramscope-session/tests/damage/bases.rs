//! Undamaged inputs of every format: files of the repository, and a generated program in the formats of several recorders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use vramscope_trace::formats::log::{LogEvent, LogFrame, LogSite, LogWriter};
use vramscope_trace::{Action, SegmentKind};

use crate::damages::Random;

/// An undamaged input.
pub(crate) struct Base {
    /// The format, for the table.
    pub(crate) format: &'static str,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// An allocation or a free of the generated program.
#[derive(Clone, Copy)]
struct Step {
    is_free: bool,
    address: u64,
    size: u64,
}

/// Where the memory of the generated program begins.
const START: u64 = 0x7f2a_4000_0000;

/// The size of the one segment of the generated program in bytes.
const SEGMENT: u64 = 512 << 20;

/// The bases. `larger` is the folder of larger recordings. The samples `everything` are not among them: they have every key, and no end
/// state that their events could contradict.
pub(crate) fn all(larger: Option<&Path>) -> Vec<Base> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut bases = Vec::new();
    let mut add = |format: &'static str, path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        bases.push(Base { format, name, bytes });
    };
    let corpus = [
        ("pickle", &["protocol2", "protocol4", "protocol5", "pinned", "npu", "rocm", "xpu"][..]),
        ("pickle, other allocators", &["mlx", "paddle"]),
        ("JSON", &["json"]),
        ("log", &["log", "log2", "log3", "log4", "log5", "log5-cut"]),
        ("gzip", &["gzip"]),
        ("RMM", &["rmm"]),
        ("msMemScope", &["memscope"]),
        ("torch.profiler", &["torch-profiler"]),
        ("JAX", &["jax"]),
        ("Nsight Systems", &["nsys"]),
    ];
    for (format, names) in corpus {
        names.iter().for_each(|name| add(format, &root.join("fuzz/corpus/read").join(name)));
    }
    add("pickle", &root.join("examples/leak.pickle"));
    add("pickle", &root.join("examples/oom.pickle"));
    add("zstd", &root.join("examples/operators.pickle.zst"));
    add("zstd", &root.join("examples/training.pickle.zst"));
    if let Some(larger) = larger {
        for name in ["streams-torch2.11-default", "two_gpus-torch2.11-default", "mlp-torch2.6-default"] {
            add("pickle", &larger.join(format!("phantom/{name}.pickle")));
        }
        add("pickle", &larger.join("phantom/mlp-torch2.11-default-max-entries_200.pickle"));
        add("zstd", &larger.join("categories/mlp-adam.pickle.zst"));
    }
    let program = program();
    let generated = [
        ("RMM", rmm(&program)),
        ("msMemScope", memscope(&program)),
        ("torch.profiler", torch_profiler(&program)),
        ("log", log(&program)),
    ];
    bases.extend(generated.map(|(format, bytes)| Base { format, name: "generated".to_owned(), bytes }));
    bases
}

/// A training program: persistent parameters, and steps whose peaks grow and shrink again. Its peak is in the middle.
fn program() -> Vec<Step> {
    let mut random = Random(7);
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let mut steps = Vec::new();
    let allocate = |live: &mut BTreeMap<u64, u64>, steps: &mut Vec<Step>, size: u64| {
        // The first gap that fits, as an allocator reuses addresses.
        let mut address = START;
        for (&start, &length) in &*live {
            if start - address >= size {
                break;
            }
            address = start + length;
        }
        live.insert(address, size);
        steps.push(Step { is_free: false, address, size });
        address
    };
    for _ in 0..12 {
        let size = 512 * (1 + random.below(4000));
        allocate(&mut live, &mut steps, size);
    }
    for step in 0..10u64 {
        let mut held = Vec::new();
        for _ in 0..8 + 4 * step.min(10 - step) {
            let size = 512 * (1 + random.below(8000));
            held.push(allocate(&mut live, &mut steps, size));
            if random.below(3) == 0 {
                let temporary = allocate(&mut live, &mut steps, 512 * (1 + random.below(900)));
                let size = live.remove(&temporary).unwrap();
                steps.push(Step { is_free: true, address: temporary, size });
            }
        }
        while let Some(address) = held.pop() {
            let size = live.remove(&address).unwrap();
            steps.push(Step { is_free: true, address, size });
        }
    }
    steps
}

fn rmm(program: &[Step]) -> Vec<u8> {
    let mut out = "Thread,Time,Action,Pointer,Size,Stream\n".to_owned();
    for (i, Step { is_free, address, size }) in program.iter().enumerate() {
        let action = if *is_free { "free" } else { "allocate" };
        let time = format!("15:{:02}:{:02}.{:06}", i / 60 % 60, i % 60, i * 7919 % 1_000_000);
        writeln!(out, "2342727,{time},{action},{address:#x},{size},0x0").unwrap();
    }
    out.into_bytes()
}

fn memscope(program: &[Step]) -> Vec<u8> {
    let mut out = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n".to_owned();
    writeln!(out, "1,MALLOC,HAL,N/A,1790900000000000001,1201,1201,0,{START:#018x},\"{{allocation_id:1,addr:{START:#018x},size:{SEGMENT},page_type:huge,alloc_type:alloc}}\",,").unwrap();
    let (mut used, mut ids) = (0, BTreeMap::new());
    for (i, Step { is_free, address, size }) in program.iter().enumerate() {
        used = if *is_free { used - size } else { used + size };
        let id = if *is_free { ids[address] } else { ids.len() + 2 + i };
        ids.insert(*address, id);
        let event = if *is_free { "FREE" } else { "MALLOC" };
        writeln!(out, "{},{event},PTA,N/A,{},1201,1201,0,{address:#018x},\"{{allocation_id:{id},addr:{address:#018x},size:{size},owner:PTA@model,total:{SEGMENT},used:{used}}}\",\"/home/me/train.py({}): step\",", i + 2, 1_790_900_000_000_000_100 + i * 7919, i % 9 + 10).unwrap();
    }
    out.into_bytes()
}

fn torch_profiler(program: &[Step]) -> Vec<u8> {
    let mut out =
        "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \"traceEvents\": [\n".to_owned();
    let mut used = 0;
    for (i, Step { is_free, address, size }) in program.iter().enumerate() {
        used = if *is_free { used - size } else { used + size };
        let sign = if *is_free { "-" } else { "" };
        let comma = if i == 0 { "" } else { ",\n" };
        write!(out, "{comma}  {{\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\",\n    \"pid\": 1, \"tid\": 1,\n    \"ts\": {}.{:03},\n    \"args\": {{\n      \"Total Reserved\": {SEGMENT}, \"Total Allocated\": {used}, \"Bytes\": {sign}{size}, \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1, \"Ev Idx\": {i}\n    }}\n  }}", 1000 + 3 * i, i % 1000).unwrap();
    }
    out.push_str(
        "\n  ],\n  \"traceName\": \"trace.json\",\n  \"baseTimeNanoseconds\": 1700000000000000000\n}\n",
    );
    out.into_bytes()
}

fn log(program: &[Step]) -> Vec<u8> {
    let mut log = LogWriter::create_run(Vec::new(), 0x0123_4567_89ab_cdef).unwrap();
    let mut stacks = Vec::new();
    let event = |action, address, size, i: usize, stack| LogEvent {
        device: 0,
        action,
        unknown_action: None,
        address_or_free: address,
        size,
        block_size: size,
        time_us: 1_700_000_000_000_000 + i as i64,
        stack,
        stream: 0,
        pool: None,
        user_metadata: None,
        kind: SegmentKind::Large,
    };
    log.event(&event(Action::SegmentAlloc, START, SEGMENT, 0, None));
    for (i, Step { is_free, address, size }) in program.iter().enumerate() {
        if i % 20 == 0 {
            let line = i as u32;
            let site: LogSite = log.site(LogFrame { name: "step", filename: &format!("train{i}.py"), line });
            stacks.push(log.stack(&[site]));
        }
        let stack = stacks.get(i % 7).or(stacks.last()).copied();
        if *is_free {
            log.event(&event(Action::FreeRequested, *address, *size, i, stack));
            log.event(&event(Action::FreeCompleted, *address, *size, i, stack));
        } else {
            log.event(&event(Action::Alloc, *address, *size, i, stack));
        }
        if i % 16 == 15 {
            log.flush().unwrap();
        }
    }
    log.finish().unwrap()
}
