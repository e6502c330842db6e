//! The log of the page's tests: a training step with accesses, beside another library. A self-contained page has it as a log.

use std::path::Path;

use vramscope_trace::formats::log::{LogDriverEvent, LogEvent, LogFrame, LogSite, LogStack, LogWriter};
use vramscope_trace::formats::{ReadOptions, Reader};
use vramscope_trace::{Action, AllocationAccesses, DriverMemory, MemoryReading, SegmentKind};
use vramscope_viewer::{PageFile, self_contained};

const MIB: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// Writes events, each 1 ms after the one before it.
struct Program {
    log: LogWriter<Vec<u8>>,
    /// Number of events of the device.
    events: usize,
}

impl Program {
    fn event(&mut self, action: Action, address: u64, size: u64, stack: LogStack, metadata: Option<&str>) {
        self.events += 1;
        self.log.event(&LogEvent {
            device: 0,
            action,
            unknown_action: None,
            address_or_free: address,
            size,
            block_size: size,
            time_us: 1_700_000_000_000_000 + 1000 * self.events as i64,
            stack: Some(stack),
            stream: 0,
            pool: None,
            user_metadata: metadata,
            kind: SegmentKind::Large,
        });
    }

    /// Allocates, and returns the index of the event.
    fn allocate(&mut self, at: u64, mib: u64, stack: LogStack, metadata: Option<&str>) -> usize {
        self.event(Action::Alloc, BASE + at * MIB, mib * MIB, stack, metadata);
        self.events - 1
    }

    fn free(&mut self, at: u64, mib: u64, stack: LogStack) {
        for action in [Action::FreeRequested, Action::FreeCompleted] {
            self.event(action, BASE + at * MIB, mib * MIB, stack, None);
        }
    }

    fn accesses(&mut self, allocation: usize, first: usize, last: usize) {
        let longest_idle = (first, last);
        let count = if first == last { 1 } else { 2 };
        self.log.accesses(&AllocationAccesses { device: 0, allocation, first, last, count, longest_idle });
    }
}

fn log() -> Vec<u8> {
    let mut log = LogWriter::create_run(Vec::new(), 7).unwrap();
    log.process();
    let mut site = |name, line| log.site(LogFrame { name, filename: "/home/user/train.py", line });
    let sites = [("main", 30), ("make_model", 5), ("forward", 12), ("backward", 18), ("0x5581e0c2f0", 0)];
    let [main, model, forward, backward, native] = sites.map(|(name, line)| site(name, line));
    let mut stack = |sites: &[LogSite]| log.stack(sites);
    let [model, forward, backward] = [model, forward, backward].map(|site| stack(&[native, site, main]));
    log.driver_event(&LogDriverEvent {
        device: 0,
        memory: DriverMemory::Device,
        is_free: false,
        address: BASE + 4096 * MIB,
        size: 96 * MIB,
        time_us: 1_700_000_000_000_500,
        library: "libnccl.so.2",
        stack: Some(model),
    });
    let mut of = Program { log, events: 0 };
    of.event(Action::SegmentAlloc, BASE, 1024 * MIB, model, None);
    let weight = of.allocate(0, 64, model, Some("vramscope:category=parameter;module=net.fc;phase=init"));
    let state = of.allocate(64, 256, model, None);
    let activation =
        of.allocate(320, 128, forward, Some("vramscope:category=activation;module=net.fc;phase=forward"));
    let lost = of.allocate(448, 32, forward, None);
    let gradient = of.allocate(512, 64, backward, None);
    of.free(320, 128, backward);
    let temporary = of.allocate(320, 192, backward, None);
    of.free(320, 192, backward);
    of.free(64, 256, model);
    // Symbols found after the first use.
    of.log.symbols(native, &[LogFrame { name: "at::empty", filename: "at.cpp", line: 3 }]);
    of.log.reading(&MemoryReading {
        device: 0,
        time_us: 1_700_000_000_100_000,
        used: 1400 * MIB,
        total: 80 << 30,
        ..MemoryReading::default()
    });
    for (allocation, first, last) in
        [(weight, 3, 8), (state, 3, 3), (activation, 4, 5), (lost, 5, 5), (gradient, 6, 9), (temporary, 9, 9)]
    {
        of.accesses(allocation, first, last);
    }
    of.log.launches(40, 1);
    of.log.finish().unwrap()
}

#[test]
fn the_log_of_the_pages_tests_is_as_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../viewer/browser/data/log.vramscope");
    let written = log();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, &written).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == written, "update it: INSTA_UPDATE=always");
}

#[test]
fn a_page_has_a_log_as_a_log() {
    let written = log();
    let read = |keeps_log| {
        let options = ReadOptions { keeps_log, ..ReadOptions::default() };
        Reader::new(&written[..]).options(options).read().unwrap()
    };
    assert_eq!(read(true).log.as_deref(), Some(&written[..]));
    assert!(read(false).log.is_none());
    let compressed = zstd::encode_all(&written[..], 3).unwrap();
    let options = ReadOptions { keeps_log: true, ..ReadOptions::default() };
    let recording = Reader::new(&compressed[..]).options(options).read().unwrap();
    assert_eq!(recording.log.as_deref(), Some(&written[..]));
    let size = |keeps_log| self_contained(&[PageFile::new("log", &read(keeps_log))], &[]).unwrap().len();
    assert_ne!(size(true), size(false));
}
