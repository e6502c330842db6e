//! Tests of screens of all sizes and states.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use vramscope::profiler::live::{Hello, LiveResponse};
use vramscope::profiler::{
    Counts, DeviceMemory, DeviceMemorySource, GpuProcess, Layers, LiveHolder, LiveLibrary, NvmlDevice,
    Reading, SourceError, Tick,
};

use super::super::model::Model;
use super::draw;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn hello(title: &str, pid: u32, source_name: &str) -> Hello {
    let source_name = source_name.to_owned();
    Hello { protocol: 1, pid, title: title.to_owned(), source_name, device_id: None, collects_holders: true }
}

/// A pool in use with a peak of `high` MiB.
fn pool(now: u64, high: u64) -> LiveResponse {
    let reading = |mib: u64| Reading {
        requested: Some(mib * MIB - 1000),
        allocated: Some(mib * MIB),
        active: Some(mib * MIB + 512),
        reserved: Some(900 * MIB),
        device_used: Some(GIB),
        ..Reading::default()
    };
    let counts =
        Counts { num_allocations: 1_234_567, num_frees: 1_234_000, num_ooms: 2, ..Counts::default() };
    let now = Reading { device_total: Some(80 * GIB), counts: Some(counts), ..reading(now) };
    let holder = |mib: u64, count, stack: &[&str]| LiveHolder {
        bytes: mib * MIB,
        count,
        stack: Some(stack.iter().map(|&frame| frame.to_owned()).collect()),
    };
    let holders = vec![
        holder(
            60,
            1,
            &["/home/user/train/src/model.rs:42 train::model::Linear::new", "src/main.rs:7 train::main"],
        ),
        holder(20, 1234, &["/home/user/train/src/data.rs:9 train::data::load"]),
        holder(1, 2, &[]),
        LiveHolder { bytes: 512, count: 1, stack: None },
    ];
    LiveResponse {
        time_us: 0,
        tick: Tick { now, high: reading(high), high_is_exact: true },
        inactive_split_bytes: Some(3 * MIB),
        releasable_bytes: Some(2 * MIB),
        holders: Some(holders),
        layers: None,
    }
}

/// A process that `vramscope run` records.
fn recorded() -> LiveResponse {
    let library = |library: &str, memory: &str, bytes, count| LiveLibrary {
        library: library.to_owned(),
        memory: memory.to_owned(),
        bytes,
        count,
    };
    let libraries = vec![
        library("libnccl.so.2", "physical", 2 * GIB, 24),
        library("libtorch_cuda.so", "pinned", 512 * MIB, 1),
        library("\u{1b}[31m.so", "\u{1b}[0m", 1, 1),
    ];
    let layers = Layers { libraries, rest_bytes: Some(518 << 20) };
    LiveResponse { holders: None, layers: Some(layers), ..pool(81, 100) }
}

#[test]
fn a_recorded_process_has_its_memory_by_library() {
    let mut model = Model::new(Duration::from_secs(1));
    model.found("/run/a.sock".into(), hello("python3", 4711, "recorded on device 0"));
    model.looked("/run/a.sock".as_ref(), Ok(recorded()));
    insta::assert_snapshot!("libraries", screen(&model, 80, 24));
}

/// A process without a served pool.
fn host(mib: u64) -> LiveResponse {
    let now = Reading { cpu: Some(mib * MIB), ..Reading::default() };
    let tick = Tick { now, high: now, high_is_exact: false };
    LiveResponse {
        time_us: 0,
        tick,
        inactive_split_bytes: None,
        releasable_bytes: None,
        holders: None,
        layers: None,
    }
}

fn gpu(index: u32, used: u64, processes: &[(u32, Option<u64>)]) -> NvmlDevice {
    let processes = processes.iter().map(|&(pid, used)| GpuProcess { pid, used }).collect();
    let total = 140 * GIB;
    let memory = DeviceMemory { used, free: total - used, total, source: DeviceMemorySource::Nvml };
    NvmlDevice { index, uuid: None, name: "NVIDIA H200".to_owned(), memory, processes }
}

fn no_nvml() -> SourceError {
    SourceError::Nvml("libnvidia-ml.so.1: cannot open shared object file".to_owned())
}

/// Three programs, a GPU, and several updates.
fn busy() -> Model {
    let mut model = Model::new(Duration::from_secs(1));
    model.gpus = Some(Ok(vec![gpu(0, 61 * GIB, &[(812, Some(40 * GIB)), (977, None)])]));
    for (socket, hello) in [
        ("/run/a.sock", hello("train", 4242, "pool on device 0")),
        ("/run/b.sock", hello("evaluate-the-largest-model-of-all", 77, "host memory of this process")),
        ("/run/c.sock", hello("a\u{1b}[31mb\n", 1_000_000, "pool on device 0")),
    ] {
        model.found(socket.into(), hello);
    }
    for i in 0..9 {
        model.next_look();
        model.looked("/run/a.sock".as_ref(), Ok(pool(81, 100 + 100 * (i % 5))));
        model.looked("/run/b.sock".as_ref(), Ok(host(500 + 20 * i)));
    }
    let late = SourceError::Answer { source_name: String::new(), why: "no response within 2 s".to_owned() };
    model.looked("/run/c.sock".as_ref(), Ok(pool(1, 1)));
    model.looked("/run/c.sock".as_ref(), Err(late));
    model
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn programs_at_several_sizes() {
    for (width, height) in [(120, 30), (80, 24), (60, 15), (40, 8), (39, 8)] {
        insta::assert_snapshot!(format!("{width}x{height}"), screen(&busy(), width, height));
    }
}

#[test]
fn details_of_the_selected_program() {
    let mut model = busy();
    model.details = true;
    insta::assert_snapshot!("details", screen(&model, 100, 36));
    insta::assert_snapshot!("details_60x15", screen(&model, 60, 15));
    model.select_next();
    insta::assert_snapshot!("details_of_little", screen(&model, 80, 24));
}

#[test]
fn help_a_pause_and_a_program_that_ended() {
    let mut model = busy();
    model.looked("/run/a.sock".as_ref(), Err(SourceError::Gone(String::new())));
    (model.help, model.paused) = (true, true);
    insta::assert_snapshot!("help", screen(&model, 80, 24));
    insta::assert_snapshot!("help_60x15", screen(&model, 60, 15));
}

#[test]
fn the_screen_without_gpus_and_programs() {
    let mut model = Model::new(Duration::from_millis(500));
    insta::assert_snapshot!("at_the_start", screen(&model, 60, 8));
    model.gpus = Some(Err(no_nvml()));
    insta::assert_snapshot!("no_gpus", screen(&model, 60, 8));
}

#[test]
fn more_than_there_is_room_for() {
    let mut model = busy();
    model.gpus = Some(Ok((0..8).map(|i| gpu(i, u64::from(i) * 20 * GIB, &[(i, None)])).collect()));
    for i in 0..20 {
        model.found(format!("/run/{i}.sock").into(), hello(&format!("worker {i}"), i, "pool on device 0"));
    }
    (0..12).for_each(|_| model.select_next());
    insta::assert_snapshot!("crowded", screen(&model, 80, 24));
}

/// All states at all sizes.
#[test]
fn the_screen_is_drawn_at_every_size() {
    let mut model = busy();
    for details in [false, true] {
        for help in [false, true] {
            (model.details, model.help) = (details, help);
            for width in (1..100).step_by(7) {
                for height in 1..20 {
                    screen(&model, width, height);
                }
            }
        }
    }
}

/// Very long texts from programs and drivers are drawn quickly, and cannot control the terminal.
#[test]
fn long_and_hostile_texts_are_drawn_quickly() {
    for text in [
        "/".repeat(1 << 20),
        "\u{301}".repeat(1 << 19),
        "\u{202e}\u{9b}31m\u{7f}\u{200b}\r\n".repeat(1 << 16),
    ] {
        let mut model = Model::new(Duration::from_secs(1));
        let mut hostile = gpu(0, GIB, &[(1, None)]);
        hostile.name.clone_from(&text);
        model.gpus = Some(Ok(vec![hostile]));
        model.found("/run/a.sock".into(), hello(&text, 7, &text));
        model.found(format!("/run/{text}.sock").into(), hello("b", 8, &text));
        let mut look = pool(1, 1);
        look.holders =
            Some(vec![LiveHolder { bytes: 1, count: 1, stack: Some(vec![text.clone(), text.clone()]) }]);
        model.looked("/run/a.sock".as_ref(), Ok(look));
        let trouble = SourceError::Answer { source_name: text.clone(), why: text.clone() };
        model.looked(format!("/run/{text}.sock").as_ref(), Err(trouble));
        for (details, gpus_fail) in [(false, false), (true, false), (false, true)] {
            model.details = details;
            if gpus_fail {
                model.gpus = Some(Err(SourceError::Nvml(text.clone())));
            }
            let shown = screen(&model, 100, 24);
            assert!(
                !shown.chars().any(|c| c != '\n' && (c.is_control() || "\u{202e}\u{200b}".contains(c))),
                "{shown}"
            );
            model.select_next();
        }
    }
}
