//! Recordings written while the program runs: the reader returns what was written, however the file ends.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vramscope_trace::formats::log::{
    LogBlock, LogDriverEvent, LogEvent, LogFrame, LogSegment, LogSite, LogStack, LogWriter,
};
use vramscope_trace::formats::{Compression, Format, write_pickle};
use vramscope_trace::{
    Action, AllocatorSettings, BlockState, Damage, DriverEvent, DriverMemory, HostReading, LogCut, LogFact,
    MemoryReading, Notices, PoolId, PowerOfTwoDivisions, SegmentKind, StackId, Stage, TorchSettings, Trace,
};

use crate::read;

/// A recording of version 1 with chunks of these payloads.
fn chunks(payloads: &[&[u8]]) -> Vec<u8> {
    let mut log = b"\x93vramscp\x01\0\0\0".to_vec();
    for payload in payloads {
        log.extend((payload.len() as u32).to_le_bytes());
        log.extend(crc32fast::hash(payload).to_le_bytes());
        log.extend(*payload);
    }
    log
}

/// The run of the recordings in these tests.
const RUN: u64 = 0x0123_4567_89ab_cdef;

/// Sizes in bytes of the file header and of a chunk header.
const HEADER: usize = 20;
const CHUNK_HEADER: usize = 20;

/// A chunk of a run, with this number and payload.
fn chunk(run: u64, number: u32, payload: &[u8]) -> Vec<u8> {
    let sealed = [&run.to_le_bytes()[..], &number.to_le_bytes(), payload].concat();
    let seal = [payload.len() as u32, crc32fast::hash(&sealed)].map(u32::to_le_bytes).concat();
    [seal, sealed].concat()
}

/// A recording of [`RUN`] with one chunk of these records, after the names at the start of every file.
fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
    log.flush().unwrap();
    let mut bytes = log.finish().unwrap();
    bytes.truncate(chunks_of(&bytes)[1].start);
    bytes.extend(chunk(RUN, 1, payload));
    bytes
}

/// Byte ranges of a recording's chunks.
fn chunks_of(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let mut start = HEADER;
    while let Some(length) = bytes.get(start..).and_then(|rest| rest.first_chunk()) {
        let end = start + CHUNK_HEADER + u32::from_le_bytes(*length) as usize;
        out.push(start..end);
        start = end;
    }
    out
}

fn error(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

const BASE: u64 = 0x7f00_0000_0000;

fn event(action: Action, address: u64, size: u64, time_us: i64) -> LogEvent<'static> {
    LogEvent {
        device: 0,
        action,
        address_or_free: address,
        size,
        block_size: size.next_multiple_of(512),
        time_us,
        stack: None,
        stream: 0,
        pool: Some(PoolId(0, 0)),
        user_metadata: None,
        kind: SegmentKind::Small,
        unknown_action: None,
    }
}

/// A small recording with all kinds of records, and a flush after each step.
fn sample() -> Vec<u8> {
    sample_of(RUN)
}

fn sample_of(run: u64) -> Vec<u8> {
    let mut log = LogWriter::create_run(Vec::new(), run).unwrap();
    log.settings(&AllocatorSettings {
        conf_text: Some("max_split_size_mb:128".to_owned()),
        recorded: TorchSettings {
            max_split_size: Some(128 << 20),
            garbage_collection_threshold: Some(0.5),
            expandable_segments: Some(false),
            roundup_power2_divisions: Some(PowerOfTwoDivisions([8; 16])),
            ..TorchSettings::default()
        },
        ..AllocatorSettings::default()
    });
    log.device(0);
    log.device(1);
    let sites =
        ["0x5581e0c2f0", "0x5581e0c300"].map(|name| log.site(LogFrame { name, filename: "??", line: 0 }));
    let stack = Some(log.stack(&sites));
    log.segment(
        0,
        &LogSegment {
            address: BASE,
            total_size: 2 << 20,
            stream: 0,
            kind: SegmentKind::Small,
            pool: Some(PoolId(0, 0)),
            is_expandable: false,
            stack,
        },
    );
    let state = BlockState::ActiveAllocated;
    log.block(&LogBlock { address: BASE, size: 512, requested_size: 24, state, stack: None });
    log.flush().unwrap();
    log.annotation(Stage::Start, "step", 0, 1_700_000_000_000_000);
    let new = BASE + 512;
    let steps = [
        event(Action::SegmentMap, BASE + (4 << 20), 2 << 20, 1_700_000_000_000_001),
        LogEvent {
            stack,
            user_metadata: Some("weights"),
            ..event(Action::Alloc, new, 700, 1_700_000_000_000_009)
        },
        event(Action::FreeRequested, new, 700, 1_700_000_000_000_010),
        event(Action::FreeCompleted, new, 700, 1_700_000_000_000_010),
        LogEvent { stack, stream: 7, ..event(Action::Alloc, new, 100, 1_700_000_000_000_012) },
        event(Action::Oom, 4096, 1 << 30, 1_700_000_000_000_013),
    ];
    for step in &steps {
        log.event(step);
        log.flush().unwrap();
    }
    log.process();
    for (is_free, time_us) in [(false, 1_700_000_000_000_014), (true, 1_700_000_000_000_015)] {
        log.driver_event(&LogDriverEvent {
            device: 0,
            memory: DriverMemory::Physical,
            is_free,
            address: 0x7f,
            size: 4 << 20,
            time_us,
            library: "libnccl.so.2",
            stack,
        });
    }
    let (time_us, used, total) = (1_700_000_000_000_016, 9 << 30, 80 << 30);
    log.reading(&MemoryReading { device: 0, time_us, used, total, ..MemoryReading::default() });
    let main = LogFrame { name: "main", filename: "/src/main.rs", line: 3 };
    log.symbols(sites[0], &[LogFrame { name: "allocate", filename: "/src/alloc.rs", line: 90 }, main]);
    log.symbols(sites[1], &[LogFrame { name: "start", ..main }]);
    log.annotation(Stage::End, "step", 0, 1_700_000_000_000_013);
    log.finish().unwrap()
}

/// The fuzzer's initial files also pin the format. If they are missing, this test creates them.
#[test]
fn the_bytes_of_version_5_never_change() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read");
    let whole = sample();
    for (name, bytes) in [("log5", &whole[..]), ("log5-cut", &whole[..whole.len() - 40])] {
        let path = std::path::Path::new(corpus).join(name);
        if !path.exists() {
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: another version of the format");
    }
}

#[test]
fn a_written_log_is_read_back() {
    let recording = read(&sample()).unwrap();
    assert_eq!(recording.format, Format::Log { version: 5 });
    assert_eq!(recording.notices, Notices::default());
    let trace = &recording.trace;
    let settings = trace.settings.as_ref().unwrap();
    assert_eq!(settings.conf.max_split_size, Some(128 << 20));
    let [d, other] = &trace.devices[..] else { panic!("two devices") };
    assert_eq!((d.device, other.device, other.events.len()), (0, 1, 0));
    assert_eq!((d.events.len(), d.overflowed), (6, Some(false)));
    let alloc = d.events.get(1);
    assert_eq!((alloc.address(), alloc.size, alloc.time_us), (BASE + 512, 700, Some(1_700_000_000_000_009)));
    assert_eq!(
        stack_of(trace, alloc.stack).unwrap().iter().map(|f| f.0.as_str()).collect::<Vec<_>>(),
        ["allocate", "main", "start"]
    );
    let sizes: Vec<Vec<u64>> =
        d.segments.iter().map(|s| d.blocks_of(s).iter().map(|b| b.size).collect()).collect();
    assert_eq!(sizes, [vec![512, 512, (2 << 20) - 1024], vec![2 << 20]]);
    assert_eq!(trace.annotations.as_ref().unwrap().len(), 2);
    let process = trace.process.as_ref().unwrap();
    let [taken, freed] = process.events[..] else { panic!("two events") };
    assert_eq!((taken.memory, taken.is_free, taken.size), (DriverMemory::Physical, false, 4 << 20));
    assert_eq!(trace.strings.get(taken.library), "libnccl.so.2");
    assert_eq!(stack_of(trace, taken.stack), stack_of(trace, alloc.stack));
    assert_eq!(freed, DriverEvent { is_free: true, time_us: 1_700_000_000_000_015, ..taken });
    let (time_us, used, total) = (1_700_000_000_000_016, 9 << 30, 80 << 30);
    let read = MemoryReading { device: 0, time_us, used, total, device_events: 6, driver_events: 2 };
    assert_eq!(process.readings, [read]);
}

/// The fuzzer's initial files have such a log too.
#[test]
fn host_memory_is_read_as_it_was_written() {
    let reading = |time_us, page_cache| HostReading {
        time_us,
        anonymous: 5 << 30,
        files: 300 << 20,
        shared: 4096,
        page_cache,
    };
    let readings = [reading(1_700_000_000_000_000, Some(9 << 30)), reading(1_700_000_060_000_000, None)];
    let mut log = LogWriter::create(Vec::new()).unwrap();
    log.process();
    readings.iter().for_each(|reading| log.host(reading));
    let bytes = log.finish().unwrap();
    let recording = read(&bytes).unwrap();
    assert_eq!(recording.notices, Notices::default());
    assert_eq!(recording.trace.process.as_ref().unwrap().host, readings);
    assert_eq!(readings[1].resident(), (5 << 30) + (300 << 20) + 4096);
    // Cut within the second reading.
    let cut = read(&bytes[..bytes.len() - 20]).map(|cut| cut.trace.process.as_ref().map(|p| p.host.len()));
    assert!(matches!(cut, Ok(None | Some(0..=2))), "{cut:?}");
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read/log4-host");
    if !std::path::Path::new(corpus).exists() {
        std::fs::write(corpus, &bytes).unwrap();
    }
    assert!(read(&std::fs::read(corpus).unwrap()).unwrap().trace.process.is_some());
}

#[test]
fn the_last_statement_of_its_kind_counts() {
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let facts = [
        LogFact::AttachedAt(1_700_000_000_000_000),
        LogFact::StacksFrom(7),
        LogFact::StacksFrom(1 << 20),
        LogFact::NotFollowed("cuMemFrobnicate", 1),
        LogFact::NotFollowed("cuMemTwiddle", 2),
        LogFact::NotFollowed("cuMemFrobnicate", 3),
    ];
    facts.into_iter().for_each(|fact| log.fact(fact));
    let recording = read(&log.finish().unwrap()).unwrap();
    assert_eq!(recording.notices, Notices::default());
    let process = recording.trace.process.as_ref().unwrap();
    assert_eq!((process.attached_us, process.stacks_from), (Some(1_700_000_000_000_000), Some(1 << 20)));
    let calls = process.not_followed.iter().map(|&(name, n)| (recording.trace.strings.get(name), n));
    assert!(calls.eq([("cuMemFrobnicate", 3), ("cuMemTwiddle", 2)]));
}

#[test]
fn a_log_may_be_compressed() {
    let compressed = zstd::encode_all(&sample()[..], 3).unwrap();
    let recording = read(&compressed).unwrap();
    assert_eq!((recording.format, recording.compression), (Format::Log { version: 5 }, Compression::Zstd));
    assert!(recording.trace == read(&sample()).unwrap().trace);
}

#[test]
fn a_recording_is_readable_wherever_it_is_cut() {
    let whole = sample();
    let trace = read(&whole).unwrap().trace;
    let all: Vec<_> = trace.devices[0].events.iter().collect();
    let mut most = 0;
    for length in HEADER..whole.len() {
        let recording = read(&whole[..length]).unwrap();
        let events: Vec<_> = recording.trace.devices.iter().flat_map(|d| d.events.iter()).collect();
        for (cut, whole) in events.iter().zip(&all) {
            assert_eq!(
                (cut.action, cut.address_or_free, cut.time_us),
                (whole.action, whole.address_or_free, whole.time_us)
            );
        }
        assert!(events.len() >= most, "{length}");
        most = events.len();
        assert!(recording.notices.unclosed, "{length}");
        let read_bytes = length - recording.notices.cut_off_bytes as usize;
        assert!(recording.trace == read(&whole[..read_bytes]).unwrap().trace, "{length}");
    }
    assert_eq!(most, all.len());
    // The last chunk may also have the right length but wrong contents.
    let mut torn = whole.clone();
    let last = torn.len() - 1;
    torn[last] ^= 1;
    let recording = read(&torn).unwrap();
    assert_eq!(
        recording.notices.to_string(),
        format!(
            "ignored the last {} bytes, an incomplete write\n\
             the program did not close the recording: it was killed or is still running\n",
            recording.notices.cut_off_bytes
        )
    );
}

#[test]
fn a_cut_header_and_other_versions_are_named() {
    assert_eq!(
        error(&sample()[..10]),
        "the file ends at byte 10, inside the header: it is truncated; copy or record it again"
    );
    assert_eq!(
        error(&sample()[..19]),
        "the file ends at byte 19, inside the header: it is truncated; copy or record it again"
    );
    for version in [6, 9] {
        let mut other = sample();
        other[8] = version;
        let end = "and this vramscope reads versions 1 to 5; update vramscope";
        assert_eq!(error(&other), format!("byte 8: the recording has version {version}, {end}"));
    }
    // No release has this version: the header is damaged.
    let mut other = sample();
    other[8] = 0;
    assert_eq!(read(&other).unwrap().notices.damage, Damage { places: 1, bytes: 4, first: 8 });
}

#[test]
fn damage_is_named_with_its_place() {
    let end = "; the recording is damaged: copy it again from where it was written";
    for (payload, message) in [
        (&b"\x63"[..], "byte 20: a record of unknown kind 99"),
        (b"\x01\x03ab", "byte 22: a record goes beyond its chunk"),
        (b"\x01\x01\xff", "byte 21: a string that is not UTF-8"),
        (b"\x01\xff\xff\xff\x7f", "byte 21: a string of 268435455 bytes"),
        (b"\x02\x00\x00\x00", "byte 21: string 0, but there are only 0"),
        (b"\x01\x00\x02\x00\x00\x00\x04\x02\x00\x01", "byte 29: site 1, but there are only 1"),
        (b"\x04\xff\xff\xff\xff\x0f", "byte 21: a list of 4294967295 items in a chunk with 0 bytes left"),
        (b"\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", "byte 21: a number beyond 64 bits"),
        (b"\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "byte 21: a number beyond 64 bits"),
        (b"\x06\x80\x20", "byte 21: device 2048, which no machine has"),
        (b"\x08\0\0\0\0\0\0\0\0\x01\x01\x00\x00", "byte 21: a block before any segment"),
        (b"\x09\x0c", "byte 21: action 12, but there are only 12"),
        (b"\x0a\x02", "byte 21: stage 2, but there are only 2"),
    ] {
        assert_eq!(error(&chunks(&[payload])), format!("{message}{end}"));
    }
    let mut long = chunks(&[]);
    long.extend([0xff; 8]);
    let damage = Damage { places: 1, bytes: 8, first: 12 };
    assert_eq!(read(&long).unwrap().notices, Notices { damage, unclosed: true, ..Notices::default() });
    // Even a plausible length must not allocate memory before the bytes arrive.
    let mut long = chunks(&[]);
    long.extend((60u32 << 20).to_le_bytes());
    assert_eq!(read(&long).unwrap().notices.cut_off_bytes, 4);
    long.extend([0; 5]);
    assert_eq!(read(&long).unwrap().notices.cut_off_bytes, 9);
}

#[test]
fn stacks_and_frames_do_not_unfold() {
    // One site with a thousand frames, a thousand times in each of a hundred stacks.
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let f = LogFrame { name: "f", filename: "f.c", line: 1 };
    let site = log.site(f);
    log.symbols(site, &[f; 1000]);
    for _ in 0..100 {
        log.stack(&[site; 1000]);
    }
    assert_eq!(
        error(&log.finish().unwrap()),
        "stacks: have more than 4401524 frames, which no recorder writes"
    );
    let mut log = LogWriter::create(Vec::new()).unwrap();
    for line in 0..1_000_000 {
        log.site(LogFrame { line, ..f });
    }
    assert!(error(&log.finish().unwrap()).starts_with("sites: have more than "));
}

#[test]
fn the_writer_respects_the_limits_of_the_reader() {
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let long = format!("x{}", "ä".repeat(1 << 20));
    let site = log.site(LogFrame { name: &long, filename: "", line: u32::MAX });
    let stack = Some(log.stack(&vec![site; 100_000]));
    log.event(&LogEvent { stack, ..event(Action::Alloc, u64::MAX, u64::MAX >> 4, i64::MIN) });
    let trace = read(&log.finish().unwrap()).unwrap().trace;
    let events = &trace.devices[0].events;
    assert_eq!((events.len(), events.get(0).time_us), (1, None));
    assert_eq!(trace.stacks.get(events.get(0).stack.unwrap()).len(), 1 << 16);
    let (_, frame) = trace.frames.iter().next().unwrap();
    assert_eq!((trace.strings.get(frame.name).len(), frame.line), ((1 << 20) - 1, u32::MAX));
}

type Frames = Vec<(String, String, u32)>;

fn stack_of(trace: &Trace, id: Option<StackId>) -> Option<Frames> {
    let text = |id| trace.strings.get(id).to_owned();
    let frame =
        |f| (text(trace.frames.get(f).name), text(trace.frames.get(f).filename), trace.frames.get(f).line);
    id.map(|id| trace.stacks.get(id).iter().map(|&id| frame(id)).collect())
}

/// A step of a random program. A step that is impossible at its turn is skipped.
#[derive(Debug, Clone)]
struct Step {
    what: usize,
    device: usize,
    at: usize,
    units: usize,
    place: usize,
    stack: Option<usize>,
    text: Option<String>,
    time_us: i64,
}

fn step() -> impl Strategy<Value = Step> {
    let texts = option::of("[a-cä]{0,2}");
    (0usize..14, 0usize..2, 0..UNITS, 1usize..7, 0usize..3, option::of(0usize..4), texts, any::<i64>())
        .prop_map(|(what, device, at, units, place, stack, text, time_us)| Step {
            what,
            device,
            at,
            units,
            place,
            stack,
            text,
            time_us,
        })
}

/// Device memory of the model, in units.
const UNITS: usize = 40;
const UNIT: u64 = 512;

/// Streams and pools of segments, with a kind for each.
const PLACES: [(u64, Option<PoolId>, SegmentKind); 3] = [
    (0, None, SegmentKind::Unknown),
    (0, Some(PoolId(0, 0)), SegmentKind::Large),
    (0x5555_0000_1234, Some(PoolId(1, u64::MAX)), SegmentKind::Small),
];

/// State of each unit in the naive model: its segment and its block.
#[derive(Default, Clone)]
struct Model {
    /// Index in [`PLACES`], and number of its `cudaMalloc`; 0 if it is mapped.
    segments: Vec<Option<(usize, usize)>>,
    blocks: Vec<Option<ModelBlock>>,
    count: usize,
}

#[derive(Clone, Copy, PartialEq)]
struct ModelBlock {
    number: usize,
    requested: u64,
    pending: bool,
    stack: Option<usize>,
}

/// A segment and its blocks, in a form common to the model and the trace.
type Plain = (LogSegment, [Option<u64>; 3], Vec<(u64, u64, u64, BlockState, Option<usize>)>);

impl Model {
    fn new() -> Self {
        Self { segments: vec![None; UNITS], blocks: vec![None; UNITS], count: 0 }
    }

    /// Applies a step. Returns its event, or `None` if the step is impossible.
    fn apply(&mut self, s: &Step) -> Option<(Action, usize, u64, u64)> {
        let range = s.at..(s.at + s.units).min(UNITS);
        let size = range.len() as u64 * UNIT;
        let all_of = |segment: Option<(usize, usize)>| range.clone().all(|u| self.segments[u] == segment);
        let unused = range.clone().all(|u| self.blocks[u].is_none());
        let here = self.segments[s.at];
        let block = self.blocks[s.at];
        self.count += 1;
        Some(match s.what {
            0 | 1 if all_of(None) => {
                let (action, number) = [(Action::SegmentAlloc, self.count), (Action::SegmentMap, 0)][s.what];
                self.segments[range].fill(Some((s.place, number)));
                (action, s.at, size, 0)
            }
            2 => {
                let here = here.filter(|&(_, number)| number != 0)?;
                let of_segment: Vec<usize> = (0..UNITS).filter(|&u| self.segments[u] == Some(here)).collect();
                if of_segment.iter().any(|&u| self.blocks[u].is_some()) {
                    return None;
                }
                for &u in &of_segment {
                    self.segments[u] = None;
                }
                (Action::SegmentFree, of_segment[0], of_segment.len() as u64 * UNIT, 0)
            }
            3 if unused && range.clone().all(|u| self.segments[u].is_some_and(|(_, number)| number == 0)) => {
                self.segments[range].fill(None);
                (Action::SegmentUnmap, s.at, size, 0)
            }
            4..=6 if unused && here.is_some() && all_of(here) => {
                let requested = size - s.time_us.unsigned_abs() % UNIT;
                let stack = s.stack;
                let block = ModelBlock { number: self.count, requested, pending: false, stack };
                self.blocks[range].fill(Some(block));
                (Action::Alloc, s.at, requested, size)
            }
            7..=9 => {
                let block = block?;
                let first = (0..UNITS).find(|&u| self.blocks[u] == Some(block))?;
                let (action, after) = match s.what {
                    7 => (Action::FreeRequested, Some(ModelBlock { pending: true, ..block })),
                    8 => (Action::FreeCompleted, None),
                    _ => (Action::Free, None),
                };
                for b in self.blocks.iter_mut().filter(|b| **b == Some(block)) {
                    *b = after;
                }
                (action, first, block.requested, 0)
            }
            10 => (Action::Oom, s.at, size, 0),
            _ => return None,
        })
    }

    fn end_state(&self) -> Vec<Plain> {
        let address = |unit: usize| BASE + unit as u64 * UNIT;
        let mut out = Vec::new();
        let mut start = 0;
        while start < UNITS {
            let here = self.segments[start];
            let length = self.segments[start..].iter().take_while(|s| **s == here).count();
            if let Some((place, number)) = here {
                let (stream, pool, kind) = PLACES[place];
                let (total_size, is_expandable) = (length as u64 * UNIT, number == 0);
                let segment = LogSegment {
                    address: address(start),
                    total_size,
                    stream,
                    kind,
                    pool,
                    is_expandable,
                    stack: None,
                };
                let mut blocks = Vec::new();
                let mut sums = [0; 3];
                let mut unit = start;
                while unit < start + length {
                    let block = self.blocks[unit];
                    let units = self.blocks[unit..start + length].iter().take_while(|b| **b == block).count();
                    let size = units as u64 * UNIT;
                    let (requested, state, stack) = match block {
                        None => (0, BlockState::Inactive, None),
                        Some(b) if b.pending => (b.requested, BlockState::ActivePendingFree, b.stack),
                        Some(b) => (b.requested, BlockState::ActiveAllocated, b.stack),
                    };
                    sums[0] += if state == BlockState::ActiveAllocated { size } else { 0 };
                    sums[1] += if state.is_active() { size } else { 0 };
                    sums[2] += requested;
                    blocks.push((address(unit), size, requested, state, stack));
                    unit += units;
                }
                out.push((segment, sums.map(Some), blocks));
            }
            start += length;
        }
        out
    }
}

/// Runs random programs on devices 0 and 2 and records them from step `begin` on.
fn recorded(steps: &[Step], begin: usize, settings: Option<&AllocatorSettings>) -> Result<(), TestCaseError> {
    const DEVICES: [i64; 2] = [0, 2];
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let mut symbols: Vec<Frames> = (0..4).map(|i| vec![(format!("0x{i}"), "??".to_owned(), 0)]).collect();
    let sites: Vec<LogSite> =
        symbols.iter().map(|f| log.site(LogFrame { name: &f[0].0, filename: &f[0].1, line: 0 })).collect();
    // Stack i has i sites.
    let stacks: Vec<LogStack> = (0..4).map(|i| log.stack(&sites[..i])).collect();
    let mut models = [Model::new(), Model::new()];
    let begin = begin.min(steps.len());
    for s in &steps[..begin] {
        models[s.device].apply(s);
    }
    for (model, device) in models.iter().zip(DEVICES) {
        log.device(device);
        for (segment, _, blocks) in model.end_state() {
            log.segment(device, &segment);
            for (address, size, requested_size, state, stack) in blocks {
                let stack = stack.map(|i| stacks[i]);
                log.block(&LogBlock { address, size, requested_size, state, stack });
            }
        }
    }
    if let Some(settings) = settings {
        log.settings(settings);
    }
    let mut events = [Vec::new(), Vec::new()];
    let mut annotations = Vec::new();
    for s in &steps[begin..] {
        let text = s.text.as_deref().unwrap_or_default();
        let (stream, pool, kind) = PLACES[s.place];
        match s.what {
            11 => log.flush().unwrap(),
            12 => {
                let stage = [Stage::Start, Stage::End][s.device];
                log.annotation(stage, text, DEVICES[s.device], s.time_us);
                annotations.push((stage, text.to_owned(), DEVICES[s.device], Some(s.time_us)));
            }
            13 => {
                let frames: Vec<LogFrame<'_>> =
                    (0..s.units as u32).map(|line| LogFrame { name: text, filename: "a.rs", line }).collect();
                log.symbols(sites[s.place], &frames);
                symbols[s.place] =
                    frames.iter().map(|f| (f.name.to_owned(), f.filename.to_owned(), f.line)).collect();
            }
            _ => {
                let Some((action, unit, size, block_size)) = models[s.device].apply(s) else { continue };
                let address = BASE + unit as u64 * UNIT;
                log.event(&LogEvent {
                    device: DEVICES[s.device],
                    action,
                    address_or_free: address,
                    size,
                    block_size,
                    time_us: s.time_us,
                    stack: s.stack.filter(|_| block_size > 0).map(|i| stacks[i]),
                    stream,
                    pool,
                    user_metadata: s.text.as_deref(),
                    kind,
                    unknown_action: None,
                });
                let stack = s.stack.filter(|_| block_size > 0);
                let time_us = Some(s.time_us).filter(|&t| t != i64::MIN);
                events[s.device].push((action, address, size, time_us, stack, stream, pool, s.text.clone()));
            }
        }
    }
    let recording = read(&log.finish().unwrap()).unwrap();
    let trace = &recording.trace;
    prop_assert_eq!(&recording.notices, &Notices::default());
    prop_assert_eq!(trace.settings.as_ref(), settings);
    let read_annotations: Vec<_> = trace
        .annotations
        .iter()
        .flatten()
        .map(|a| (a.stage, trace.strings.get(a.name).to_owned(), a.device, a.time_us))
        .collect();
    prop_assert_eq!(read_annotations, annotations);
    prop_assert_eq!(trace.devices.iter().map(|d| d.device).collect::<Vec<_>>(), [0, 1, 2]);
    let resolved = |stack: Option<usize>| stack.map(|i| symbols[..i].concat());
    // As the release of the settings writes it: unset metadata is an empty text or missing.
    let contexts = settings.is_some_and(AllocatorSettings::with_contexts);
    let written = |text: Option<String>| text.or_else(|| contexts.then(String::new));
    for ((model, events), number) in models.iter().zip(events).zip([0, 2]) {
        let d = &trace.devices[number];
        prop_assert_eq!(d.events.len(), events.len());
        for (e, (action, address, size, time_us, stack, stream, pool, text)) in d.events.iter().zip(events) {
            let tags = trace.tags.get(e.tags);
            let user_metadata = tags.user_metadata.map(|id| trace.strings.get(id).to_owned());
            prop_assert_eq!(
                (e.action, e.address_or_free, e.size, e.time_us),
                (action, address, size, time_us)
            );
            prop_assert_eq!((tags.stream, tags.pool, user_metadata), (stream, pool, written(text)));
            let context = tags.compile_context.map(|id| trace.strings.get(id));
            prop_assert_eq!(context, contexts.then_some("N/A"));
            prop_assert_eq!(stack_of(trace, e.stack), resolved(stack));
        }
        let end_state = model.end_state();
        prop_assert_eq!(d.segments.len(), end_state.len());
        for (s, (segment, sums, blocks)) in d.segments.iter().zip(end_state) {
            prop_assert_eq!((s.address, s.total_size), (segment.address, segment.total_size));
            prop_assert_eq!((s.stream, s.pool, s.kind), (segment.stream, segment.pool, segment.kind));
            prop_assert_eq!(s.is_expandable, Some(segment.is_expandable));
            prop_assert_eq!([s.allocated_size, s.active_size, s.requested_size], sums);
            let read_blocks: Vec<_> = d
                .blocks_of(s)
                .iter()
                .map(|b| (b.address, b.size, b.requested_size, b.state, stack_of(trace, b.stack)))
                .collect();
            let blocks: Vec<_> = blocks.into_iter().map(|b| (b.0, b.1, b.2, b.3, resolved(b.4))).collect();
            prop_assert_eq!(read_blocks, blocks);
        }
    }
    Ok(())
}

prop_compose! {
    fn settings()(
        conf in "(max_split_size_mb:[1-9]{1,3})?",
        numbers in proptest::array::uniform4(option::of(any::<i64>())),
        bools in proptest::array::uniform4(option::of(any::<bool>())),
        threshold in option::of(0.0f64..1.0),
        divisions in option::of(proptest::array::uniform16(option::of(0u32..64))),
    ) -> AllocatorSettings {
        AllocatorSettings {
            conf: TorchSettings::parse(&conf).unwrap(),
            conf_text: Some(conf),
            recorded: TorchSettings {
            max_split_size: numbers[0],
            garbage_collection_threshold: threshold,
            expandable_segments: bools[0],
            pinned_num_register_threads: numbers[1],
            release_lock_on_cudamalloc: bools[1],
            pinned_use_cuda_host_register: bools[2],
            graph_capture_record_stream_reuse: bools[3],
            max_round_threshold: numbers[2],
            max_cached_size: numbers[3],
            roundup_power2_divisions:
                divisions.map(|d| PowerOfTwoDivisions(d.map(|log2| log2.map_or(0, |log2| 1 << log2)))),
            ..TorchSettings::default()
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: vramscope_testing::times(300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_is_read_back_with_the_state_it_ends_in(
        steps in vec(step(), 0..200), begin in 0usize..100, settings in option::of(settings()),
    ) {
        recorded(&steps, begin, settings.as_ref())?;
    }

    /// Damage hidden by correct checksums does no more harm than visible damage. Every readable recording can be written as a snapshot.
    #[test]
    fn damaged_recordings_end_in_a_trace_or_an_error(
        changes in vec((any::<usize>(), any::<u8>()), 1..8), sealed in any::<bool>(),
    ) {
        let mut bytes = sample();
        let places = chunks_of(&bytes);
        for (at, byte) in changes {
            let at = HEADER + at % (bytes.len() - HEADER);
            bytes[at] = byte;
        }
        if sealed {
            for (place, number) in places.into_iter().zip(0..) {
                let whole = chunk(RUN, number, &bytes[place.start + CHUNK_HEADER..place.end]);
                bytes[place].copy_from_slice(&whole);
            }
        }
        if let Ok(recording) = read(&bytes) {
            let mut written = Vec::new();
            write_pickle(&recording.trace, &mut written).unwrap();
            // A pickle has no memory of other libraries.
            let trace = Trace { process: None, ..Trace::clone(&recording.trace) };
            prop_assert!(*read(&written).unwrap().trace == trace);
        }
    }
}

/// Unknown names are kept, and do not stop the reader.
#[test]
fn names_of_a_future_version_are_kept() {
    let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
    let unknown = |name| LogEvent { unknown_action: name, ..event(Action::Unknown, BASE, 9, 1) };
    for name in [Some("segment_move"), None, Some("alloc"), Some("segment_move")] {
        log.event(&unknown(name));
    }
    log.event(&event(Action::Alloc, BASE, 24, 2));
    let recording = read(&log.finish().unwrap()).unwrap();
    let trace = &recording.trace;
    let names: Vec<_> = trace.devices[0]
        .events
        .iter()
        .map(|e| (e.action.name(), trace.tags.get(e.tags).unknown_action.map(|id| trace.strings.get(id))))
        .collect();
    let moved = ("unknown", Some("segment_move"));
    assert_eq!(
        names,
        [moved, ("unknown", Some("unknown")), ("unknown", Some("unknown")), moved, ("alloc", None)]
    );
    assert_eq!(
        recording.notices.to_string(),
        "2 events have the unknown action `segment_move`; they have no effect\n\
         2 events have the unknown action `unknown`; they have no effect\n"
    );
    // Three strings of a future version: a kind, a state and a stage.
    let names = b"\x01\x04huge\x01\x06frozen\x01\x06MIDDLE";
    let first = 20;
    let mut payload = names.to_vec();
    payload.extend([7, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x80, 0x20, 0, first, 0, 0, 0]);
    payload.extend([8, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x80, 4, 24, first + 1, 0]);
    payload.extend([10, first + 2, 0, 0, 8]);
    payload.push(11);
    let recording = read(&sealed(&payload)).unwrap();
    let d = &recording.trace.devices[0];
    assert_eq!((d.segments[0].kind, d.segments[0].total_size), (SegmentKind::Unknown, 4096));
    assert_eq!((d.blocks[0].state, d.blocks[0].requested_size), (BlockState::ActiveAllocated, 24));
    assert!(recording.trace.annotations.as_ref().is_none_or(Vec::is_empty));
    assert_eq!(
        recording.notices.to_string(),
        "unknown kind of segment `huge`: 1 occurrences\n\
         unknown stage of a region `MIDDLE`: 1 occurrences\n\
         unknown state of a block `frozen`: 1 occurrences\n"
    );
}

/// Every value of every list is read back unchanged, whatever its position in the list.
#[test]
fn every_value_is_written_as_itself() {
    let mut log = LogWriter::create(Vec::new()).unwrap();
    let kinds = [SegmentKind::Unknown, SegmentKind::Large, SegmentKind::Small];
    for (i, kind) in (0..).zip(kinds) {
        let (address, total_size) = (BASE + i * 4096, 4096);
        let segment = LogSegment {
            address,
            total_size,
            stream: 0,
            kind,
            pool: None,
            is_expandable: false,
            stack: None,
        };
        log.segment(0, &segment);
        for (j, state) in
            (0..).zip([BlockState::Inactive, BlockState::ActivePendingFree, BlockState::ActiveAllocated])
        {
            log.block(&LogBlock {
                address: address + j * 512,
                size: 512,
                requested_size: 500,
                state,
                stack: None,
            });
        }
    }
    for action in Action::KNOWN {
        log.event(&event(action, BASE + (1 << 30), 512, 0));
    }
    let trace = read(&log.finish().unwrap()).unwrap().trace;
    let d = &trace.devices[0];
    assert_eq!(d.events.actions(), Action::KNOWN);
    let of_start: Vec<_> = d.segments.iter().take(3).collect();
    assert_eq!(of_start.iter().map(|s| s.kind).collect::<Vec<_>>(), kinds);
    for s in of_start {
        let states: Vec<_> = d.blocks_of(s).iter().map(|b| b.state).collect();
        assert_eq!(
            states,
            [
                BlockState::Inactive,
                BlockState::ActivePendingFree,
                BlockState::ActiveAllocated,
                BlockState::Inactive
            ]
        );
    }
}

/// Two runs in one file: the bytes of the other run are ignored and reported, never mixed in.
#[test]
fn chunks_of_another_run_are_left_out() {
    let (mine, theirs) = (sample(), sample_of(RUN + 1));
    let alone = read(&mine).unwrap();
    let (my_chunks, their_chunks) = (chunks_of(&mine), chunks_of(&theirs));
    // Both append: chunks of one run are between those of the other.
    let mut both = mine[..HEADER].to_vec();
    let mut foreign = 0;
    for (my, their) in my_chunks.iter().zip(&their_chunks) {
        both.extend(&mine[my.clone()]);
        if my.end < mine.len() {
            both.extend(&theirs[their.clone()]);
            foreign += their.len() as u64;
        }
    }
    let recording = read(&both).unwrap();
    assert!(recording.trace == alone.trace);
    assert_eq!(recording.notices, Notices { foreign_bytes: foreign, ..Notices::default() });
    assert_eq!(
        recording.notices.to_string(),
        format!(
            "ignored {foreign} bytes: another run wrote into the file; use a separate file for each run\n"
        )
    );
    // It is readable wherever it is cut, too.
    for length in HEADER..both.len() {
        read(&both[..length]).unwrap();
    }
    // One run overwrites a chunk of the other.
    let mut over = mine.clone();
    over[my_chunks[3].clone()].copy_from_slice(&theirs[their_chunks[3].clone()]);
    let recording = read(&over).unwrap();
    let all = alone.trace.devices[0].events.len();
    assert_eq!(recording.trace.devices[0].events.len(), all - 1);
    assert_eq!(recording.notices.foreign_bytes, their_chunks[3].len() as u64);
    let damage = Damage { places: 1, bytes: 0, first: my_chunks[4].start as u64 };
    assert_eq!((recording.notices.damage, recording.notices.unclosed), (damage, false));
    // The same without the chunk of the other run.
    let lacks = [&mine[..my_chunks[3].start], &mine[my_chunks[3].end..]].concat();
    let damage = Damage { first: my_chunks[3].start as u64, ..damage };
    let lacking = read(&lacks).unwrap();
    assert_eq!(lacking.notices, Notices { damage, ..Notices::default() });
    assert!(lacking.trace == recording.trace);
    // A recording after a complete one, and after a truncated one.
    for mine in [&mine[..], &mine[..my_chunks[5].start]] {
        let recording = read(&[mine, &theirs].concat()).unwrap();
        assert!(recording.trace == read(mine).unwrap().trace);
        assert_eq!(recording.notices.foreign_bytes, theirs.len() as u64);
    }
}

#[test]
fn zeros_at_the_end_are_ignored() {
    let mine = sample();
    let cut = chunks_of(&mine)[5].start;
    for (whole, zeros) in [(&mine[..], 8), (&mine[..cut], 8), (&mine[..cut], 1 << 20), (&mine[..cut], 27)] {
        let recording = read(&[whole, &vec![0; zeros]].concat()).unwrap();
        assert_eq!(recording.notices.cut_off_bytes, zeros as u64);
        assert!(recording.trace == read(whole).unwrap().trace);
    }
    let inside = [&mine[..cut], &[0; 8], &mine[cut..]].concat();
    let damage = Damage { places: 1, bytes: 8, first: cut as u64 };
    assert_eq!(read(&inside).unwrap().notices, Notices { damage, ..Notices::default() });
}

/// Events of device 0, as their time and the names of the frames of their stacks.
fn told(trace: &Trace) -> Vec<(i64, Vec<&str>)> {
    let names = |stack: Option<StackId>| -> Vec<&str> {
        let frames = stack.map(|id| trace.stacks.get(id)).unwrap_or_default();
        frames.iter().map(|&frame| trace.strings.get(trace.frames.get(frame).name)).collect()
    };
    trace.devices[0].events.iter().map(|e| (e.time_us.unwrap(), names(e.stack))).collect()
}

/// A recording with a chunk for each of ten allocations. Each has a stack of its own, and each second one that of the first.
fn of_ten_chunks() -> Vec<u8> {
    let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
    let mut stacks = Vec::new();
    for i in 0..10u64 {
        let site = log.site(LogFrame { name: &format!("f{i}"), filename: "a.py", line: i as u32 });
        stacks.push(log.stack(&[site]));
        let stack = Some(if i % 2 == 0 { stacks[i as usize] } else { stacks[0] });
        log.event(&LogEvent { stack, ..event(Action::Alloc, BASE + 512 * i, 512, i as i64) });
        log.flush().unwrap();
    }
    log.finish().unwrap()
}

#[test]
fn what_follows_a_damaged_chunk_is_read() {
    let whole = of_ten_chunks();
    let (chunks, all) = (chunks_of(&whole), read(&whole).unwrap());
    let all = told(&all.trace);
    // Chunk 0 has the names, chunks 1 to 10 an allocation each, and chunk 11 the end.
    for (number, chunk) in chunks.iter().enumerate().skip(1).take(10) {
        // A bit of its length, checksum, run, number and records.
        for at in [0, 1, 2, 3, 5, 9, 17, 25, chunk.len() - 1] {
            let mut damaged = whole.clone();
            damaged[chunk.start + at] ^= 0x10;
            let recording = read(&damaged).unwrap();
            let damage = Damage { places: 1, bytes: chunk.len() as u64, first: chunk.start as u64 };
            assert_eq!(recording.notices, Notices { damage, ..Notices::default() }, "{number}, {at}");
            let mut expected = all.clone();
            expected.remove(number - 1);
            if number == 1 {
                // The stack of the first allocation is missing.
                expected.iter_mut().filter(|(time, _)| time % 2 == 1).for_each(|(_, frames)| frames.clear());
            }
            // The file's name is a string of the first chunk, too.
            assert_eq!(told(&recording.trace), expected, "{number}, {at}");
            assert_eq!(recording.trace.devices[0].gap, Some(number - 1..number - 1));
            assert!(!recording.trace.ends_early);
        }
    }
    // Without the last one, the recording was not closed.
    let mut torn = whole.clone();
    torn[chunks[11].start + 9] ^= 1;
    let recording = read(&torn).unwrap();
    assert_eq!((recording.notices.damage.places, recording.trace.ends_early), (0, true));
    assert_eq!(told(&recording.trace), all);
    // Without the first one, names are those of every log.
    let mut torn = whole.clone();
    torn[chunks[0].start + 30] ^= 1;
    assert_eq!(told(&read(&torn).unwrap().trace), all);
    // A chunk that stands twice, and the number of the run in the header.
    let twice = [&whole[..chunks[3].end], &whole[chunks[3].clone()], &whole[chunks[3].end..]].concat();
    let recording = read(&twice).unwrap();
    assert_eq!((recording.notices.damage.places, told(&recording.trace)), (1, all.clone()));
    let mut header = whole.clone();
    header[13] ^= 4;
    let recording = read(&header).unwrap();
    assert_eq!((recording.notices.damage.places, told(&recording.trace)), (1, all.clone()));
    assert_eq!(recording.trace.devices[0].gap, None);
}

/// Older logs lack the numbers of strings, sites and stacks behind a damaged chunk: those that are new there are unknown.
#[test]
fn names_behind_damage_in_an_older_log_are_unknown() {
    let old = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read/log4")).unwrap();
    let (chunks, whole) = (chunks_of(&old), read(&old).unwrap());
    let mut damaged = old.clone();
    damaged[chunks[3].start + 3] ^= 1;
    let recording = read(&damaged).unwrap();
    assert_eq!(recording.notices.damage.places, 1);
    assert!(recording.trace.devices[0].events.len() + 1 >= whole.trace.devices[0].events.len());
    assert!(recording.trace.devices[0].events.len() > 2);
}

/// Hostile bytes that name the run everywhere, each with the length of all that follow.
#[test]
fn the_search_for_the_next_chunk_is_bounded() {
    let mut log = of_ten_chunks();
    let entry = [&(3u32 << 20).to_le_bytes()[..], &[1; 4], &RUN.to_le_bytes()].concat();
    log.extend(entry.repeat((8 << 20) / entry.len()));
    let end = chunks_of(&of_ten_chunks())[11].start;
    log.drain(end..end + 21);
    let recording = read(&log).unwrap();
    assert_eq!(recording.trace.devices[0].events.len(), 10);
    assert_eq!(recording.notices.damage.places, 1);
}

/// Runs that begin in one process or at one moment have different numbers.
#[test]
fn each_recording_is_a_run_of_its_own() {
    let run = || LogWriter::create(Vec::new()).unwrap().finish().unwrap()[12..20].to_vec();
    let runs: std::collections::BTreeSet<_> = (0..1000).map(|_| run()).collect();
    assert_eq!(runs.len(), 1000);
}

/// Segments take far more memory than bytes in the file.
#[test]
fn segments_do_not_unfold_either() {
    let mut log = LogWriter::create(Vec::new()).unwrap();
    for i in 0..400_000 {
        log.event(&event(Action::SegmentAlloc, i * 512, 512, 0));
    }
    let error = error(&log.finish().unwrap());
    assert!(error.starts_with("devices: have more than ") && error.contains(" segments"), "{error}");
}

#[test]
fn events_before_a_cut_are_those_of_older_memory() {
    let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
    log.process();
    log.event(&LogEvent { device: 1, ..event(Action::SegmentAlloc, BASE, 2 << 20, 5) });
    log.event(&LogEvent { device: 1, ..event(Action::Alloc, BASE, 512, 6) });
    log.driver_event(&LogDriverEvent {
        device: 1,
        memory: DriverMemory::Device,
        is_free: false,
        address: 0x7f,
        size: 4096,
        time_us: 7,
        library: "libnccl.so.2",
        stack: None,
    });
    log.cut(99);
    log.event(&event(Action::SegmentAlloc, BASE, 2 << 20, 100));
    // Only the first one counts.
    log.cut(101);
    let trace = read(&log.finish().unwrap()).unwrap().trace;
    let cut = trace.process.as_ref().unwrap().cut.as_ref();
    let expected = LogCut { time_us: 99, device_events: vec![(1, 2)], driver_events: 1 };
    assert_eq!(cut, Some(&expected));
    assert_eq!(trace.devices.iter().map(|d| d.overflowed).collect::<Vec<_>>(), [Some(true); 2]);
}

#[test]
fn a_text_replaces_that_of_an_earlier_allocation() {
    let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
    for device in [0, 1] {
        let own = LogEvent { device, user_metadata: Some("own"), ..event(Action::Alloc, BASE, 512, 5) };
        log.event(&own);
        log.event(&LogEvent { address_or_free: BASE + 512, ..own });
        log.event(&LogEvent { device, ..event(Action::Free, BASE, 512, 6) });
    }
    log.metadata(1, 0, "later");
    log.metadata(0, 1, "first");
    log.metadata(0, 1, "last");
    let trace = read(&log.finish().unwrap()).unwrap().trace;
    let texts = |device: usize| {
        let tags = trace.devices[device].events.iter().map(|event| trace.tags.get(event.tags));
        tags.map(|tags| tags.user_metadata.map_or("", |text| trace.strings.get(text))).collect::<Vec<_>>()
    };
    assert_eq!([texts(0), texts(1)], [["own", "last", ""], ["later", "own", ""]]);
    // Only allocations have a text: neither frees nor events that are missing.
    for (device, number) in [(0, 0), (0, 7), (3, 0)] {
        let mut log = LogWriter::create_run(Vec::new(), RUN).unwrap();
        log.event(&event(Action::Free, BASE, 512, 6));
        log.metadata(device, number, "text");
        assert!(error(&log.finish().unwrap()).contains("a text for an allocation that does not exist"));
    }
}
