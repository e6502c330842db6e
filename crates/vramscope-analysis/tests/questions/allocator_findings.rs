//! Known problems of the allocator, from the end state alone and from histories made by hand.

use serde_json::{Value, json};
use vramscope_analysis::{AllocatorFinding, Certainty, Frames, Options, Summary};
use vramscope_trace::formats;

use crate::{defaults, event, recording, segment};

const MIB: u64 = 1 << 20;

/// The cache of one stream in Megatron-LM#6885: 20.47 GiB.
const CACHE: u64 = 20_961 * MIB;

fn on_stream(mut of: Value, stream: u64) -> Value {
    of["stream"] = json!(stream);
    of
}

/// A segment of 30 GiB in use on the default stream.
fn in_use() -> Value {
    let size = 30 << 30;
    segment(1 << 40, size, "large", &[(1 << 40, size, size, "active_allocated")])
}

fn findings(events: Vec<Value>, segments: Vec<Value>) -> Vec<(&'static str, u64, Certainty)> {
    let trace = recording(events, segments, defaults());
    let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    let row = |f: &AllocatorFinding| (f.name(), f.bytes(), f.certainty());
    summary.findings.iter().map(row).collect()
}

#[test]
fn the_end_state_alone_shows_a_stranded_cache() {
    let cached = on_stream(segment(1 << 42, CACHE, "large", &[(1 << 42, CACHE, CACHE, "inactive")]), 7);
    let expected = [("stranded_cache", CACHE, Certainty::Possible)];
    assert_eq!(findings(Vec::new(), vec![in_use(), cached.clone()]), expected);
    // If no stream is in use, the program may have ended.
    assert_eq!(findings(Vec::new(), vec![cached]), []);
    // A block in use: the stream may make requests.
    let blocks = [(1 << 42, MIB, MIB, "active_allocated"), ((1 << 42) + MIB, CACHE - MIB, CACHE, "inactive")];
    let used = on_stream(segment(1 << 42, CACHE, "large", &blocks), 7);
    assert_eq!(findings(Vec::new(), vec![in_use(), used]), []);
    // A private pool serves its own requests.
    let mut private = on_stream(segment(1 << 42, CACHE, "large", &[(1 << 42, CACHE, CACHE, "inactive")]), 7);
    private["segment_pool_id"] = json!([0, 1]);
    assert_eq!(findings(Vec::new(), vec![in_use(), private]), []);
}

#[test]
fn a_stream_with_a_longer_pause_is_not_idle() {
    let request = |n: u64, stream: u64| {
        let address = (1 << 43) + n * (64 << 20);
        let of = ["segment_alloc", "alloc", "free_requested", "free_completed"];
        of.map(|action| on_stream(event(action, address, 32 * MIB), stream)).to_vec()
    };
    // The stream 7 makes two requests, `pause` requests apart; then `rest` requests follow.
    let program = |pause: u64, rest: u64| -> Vec<Value> {
        let streams = [vec![7], vec![0; pause as usize], vec![7], vec![0; rest as usize]].concat();
        streams.into_iter().enumerate().flat_map(|(n, stream)| request(n as u64, stream)).collect()
    };
    assert_eq!(findings(program(3, 20), Vec::new()), [("stranded_cache", 64 * MIB, Certainty::Likely)]);
    assert_eq!(findings(program(14, 20), Vec::new()), []);
}

/// The numbers of vLLM#33625: counters of 198 GB on a device of 140 GB.
#[test]
fn more_is_reserved_than_the_device_has() {
    const GB: u64 = 1_000_000_000;
    let findings_on = |total: u64| {
        let size = 198 * GB;
        let segments = [segment(1 << 40, size, "large", &[(1 << 40, size, size, "active_allocated")])];
        let snapshot = json!({"segments": segments, "device_traces": [[]], "device_total_bytes": [total]});
        let trace = formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
        let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
        summary.findings.iter().map(|f| (f.name(), f.bytes(), f.certainty())).collect::<Vec<_>>()
    };
    assert_eq!(findings_on(140 * GB), [("unbacked_bytes", 58 * GB, Certainty::Shown)]);
    assert_eq!(findings_on(200 * GB), []);
}
