//! Out-of-memory events, fragmentation, regions and holders, computed by hand.

use serde_json::json;
use vramscope_analysis::{
    By, Fragmentation, Frames, History, HolderKey, Options, Request, Summary, Unusable, holders_at, ooms,
    regions,
};
use vramscope_trace::Category;

use crate::{at_line, defaults, event, recording, segment};

const MIB: u64 = 1 << 20;
const BASE: u64 = 1 << 30;

#[test]
fn why_reserved_memory_could_not_serve_a_request() {
    let with = |mut e: serde_json::Value, key: &str, value: serde_json::Value| {
        e[key] = value;
        e
    };
    let oom = json!({"action": "oom", "device_free": 7 * MIB, "size": 12 * MIB, "stream": 0, "pool_id": [0, 0], "frames": []});
    let mut private = segment(BASE + 400 * MIB, 20 * MIB, "large", &[]);
    private["segment_pool_id"] = json!([0, 1]);
    let mut other_stream = segment(BASE + 200 * MIB, 30 * MIB, "large", &[]);
    other_stream["stream"] = json!(77);
    let segments = vec![
        segment(BASE, 20 * MIB, "large", &[(BASE + 10 * MIB, 2 * MIB, 2 * MIB, "active_allocated")]),
        segment(BASE + 100 * MIB, 2 * MIB, "small", &[]),
        other_stream,
        private,
    ];
    let trace = recording(vec![with(oom, "time_us", json!(5))], segments, defaults());
    let history = History::of(&trace, 0);
    let (explained, more) = ooms(&history, &Frames::of(&trace));
    let [oom] = explained.as_slice() else { panic!("expected one failed request") };
    assert_eq!((more, oom.device_free, oom.request.bytes), (None, 7 * MIB, 12 * MIB));
    assert_eq!((oom.counters.reserved, oom.counters.active), (72 * MIB, 2 * MIB));
    let f = &oom.fragmentation;
    assert_eq!((f.external, f.usable, f.unusable_bytes()), (70 * MIB, 0, 70 * MIB));
    let why: Vec<_> =
        f.unusable.iter().map(|u| (u.why, u.bytes / MIB, u.blocks, u.largest.size / MIB)).collect();
    assert_eq!(
        why,
        [
            (Unusable::OtherStream, 30, 1, 30),
            (Unusable::OtherPool, 20, 1, 20),
            (Unusable::TooSmall, 18, 2, 10),
            (Unusable::OtherSize, 2, 1, 2),
        ]
    );
    assert!(oom.enough_in_total());
    assert_eq!(oom.holders.iter().map(|h| h.bytes).sum::<u64>(), 2 * MIB);
    assert_eq!(f.whole_segments, 52 * MIB);
}

#[test]
fn fragmentation_is_two_numbers() {
    let blocks = [(BASE, 512, 10, "active_allocated"), (BASE + 1024, 1024, 1000, "active_pending_free")];
    let trace = recording(Vec::new(), vec![segment(BASE, 2 * MIB, "small", &blocks)], defaults());
    let history = History::of(&trace, 0);
    let f = Fragmentation::at(&history, history.end(), Request { bytes: 512, stream: 0, pool: None });
    assert_eq!((f.internal, f.external), (502, 2 * MIB - 1536));
    assert_eq!((f.usable, f.free_blocks), (2 * MIB - 1536, 2));
    assert_eq!(f.largest.unwrap().address, BASE + 2048);
    assert_eq!(f.whole_segments, 0);
}

#[test]
fn pieces_of_an_expandable_segment_join() {
    let events = vec![
        event("segment_map", BASE, 20 * MIB),
        event("segment_map", BASE + 20 * MIB, 20 * MIB),
        event("alloc", BASE, 4 * MIB),
        event("segment_unmap", BASE + 20 * MIB, 20 * MIB),
    ];
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": true});
    let trace = recording(events, Vec::new(), settings);
    let history = History::of(&trace, 0);
    let request = Request { bytes: 30 * MIB, stream: 0, pool: None };
    let at = |event| Fragmentation::at(&history, vramscope_analysis::Moment::after(event), request);
    assert_eq!((at(2).usable, at(2).free_blocks), (36 * MIB, 1));
    assert_eq!((at(3).usable, at(3).external), (0, 16 * MIB));
    assert_eq!(history.peaks().reserved.bytes, 40 * MIB);
}

#[test]
fn holders_by_every_key_sum_to_the_peak() {
    let mut events: Vec<_> =
        (0..40).map(|i| at_line("alloc", BASE + i * MIB, 1000 * (i + 1), (i % 7) as u32)).collect();
    events.push(event("alloc", BASE + 90 * MIB, 5));
    events.push(at_line("free", BASE + 99 * MIB, 600, 3));
    let trace = recording(events, Vec::new(), defaults());
    let frames = Frames::of(&trace);
    let history = History::of(&trace, 0);
    let peak = history.peaks().allocated;
    for by in By::ALL {
        let holders = holders_at(&history, &frames, peak.moment, by);
        assert_eq!(holders.iter().map(|h| h.bytes).sum::<u64>(), peak.bytes, "{by:?}");
        assert!(holders.is_sorted_by(|a, b| a.bytes >= b.bytes), "{by:?}");
    }
    let module = &holders_at(&history, &frames, peak.moment, By::Module)[0].key;
    assert_eq!(*module, HolderKey::Module("train".to_owned()));
    let summary = Summary::of(&trace, 0, &frames, &Options::default());
    assert_eq!(summary.tree.roots.iter().map(|&n| summary.tree.nodes[n].bytes).sum::<u64>(), peak.bytes);
}

#[test]
fn purposes_say_what_the_peak_was_for() {
    let of = |text: &str, at: u64, size: u64| {
        let mut e = event("alloc", BASE + at * MIB, size);
        e["user_metadata"] = json!(text);
        e
    };
    let mut profilers = event("alloc", BASE + 5 * MIB, 512);
    profilers["category"] = json!("GRADIENT");
    let events = vec![
        of("the program's own\nvramscope:category=activation;module=h.0;phase=forward", 0, 4096),
        of("vramscope:category=activation;module=h.0;phase=backward", 1, 1024),
        of("vramscope:category=temporary;module=", 2, 2048),
        of("the program's own", 3, 512),
        profilers,
    ];
    let blocks = json!([
        {"address": BASE + 10 * MIB, "size": 8192, "requested_size": 8192, "state": "active_allocated", "frames": [],
         "user_metadata": "vramscope:category=parameter;module=h.0"},
        {"address": BASE + 10 * MIB + 8192, "size": MIB - 8192, "requested_size": 0, "state": "active_allocated", "frames": []},
    ]);
    let live = json!({"device": 0, "address": BASE + 10 * MIB, "total_size": MIB, "stream": 0, "segment_type": "large",
        "blocks": blocks});
    let trace = recording(events, vec![live], defaults());
    let summary = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    let of = |c: Category| {
        let mut found = summary.categories.iter().filter(|h| h.key == HolderKey::Category(c));
        found.next().map_or((0, 0), |h| (h.requested, h.count))
    };
    assert_eq!(of(Category::Activation), (4096 + 1024, 2));
    assert_eq!(of(Category::Temporary), (2048, 1));
    assert_eq!(of(Category::Gradient), (512, 1));
    assert_eq!(of(Category::Unknown), (512, 1));
    assert_eq!(of(Category::Parameter), (8192, 1));
    assert_eq!(of(Category::Preexisting).1, 1);
    let by_layer =
        Summary::of(&trace, 0, &Frames::of(&trace), &Options { by: Some(By::Layer), ..Options::default() });
    let of = |path: &str| {
        let mut found = by_layer.holders.iter().filter(|h| h.key == HolderKey::Layer(Some(path.into())));
        found.next().map_or((0, 0), |h| (h.requested, h.count))
    };
    assert_eq!(of("h.0"), (4096 + 1024 + 8192, 3));
    assert_eq!(of(""), (2048, 1));
}

#[test]
fn regions_know_their_peak_and_what_they_left_behind() {
    let timed = |action: &str, addr: u64, size: u64, time: i64| {
        let mut e = event(action, addr, size);
        e["time_us"] = json!(time);
        e
    };
    let events = vec![
        timed("alloc", 512, 512, 10),
        timed("alloc", 4096, 2048, 20),
        timed("free", 4096, 2048, 30),
        timed("alloc", 8192, 1024, 40),
        timed("alloc", 16384, 512, 50),
    ];
    let region = |stage: &str, name: &str, time: i64| json!({"stage": stage, "name": name, "device": 0, "time_us": time});
    let snapshot = json!({"segments": [], "device_traces": [events], "external_annotations": [
        region("START", "step#1", 15), region("START", "inner", 18), region("END", "inner", 25),
        region("END", "step#1", 35), region("START", "step#2", 36), region("END", "step#2", 60),
        region("END", "never began", 61), region("START", "never ended", 62),
    ]});
    let trace = vramscope_trace::formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    let regions = regions(&History::of(&trace, 0));
    let told: Vec<_> = regions
        .iter()
        .map(|r| (r.name.as_str(), r.count, r.peak, r.peak_above_start, r.net, r.total_us))
        .collect();
    assert_eq!(told, [("inner", 1, 2560, 2048, 2048, 7), ("step", 2, 2560, 2048, 1536, 44)]);
    // A region's figures belong to one run.
    let runs: Vec<_> = [regions[1].first, regions[1].typical, regions[1].largest]
        .map(|r| (r.peak, r.above_start, r.net, r.us))
        .into();
    assert_eq!([regions[1].first.events, regions[1].largest.events], [Some((1, 3)), Some((1, 3))]);
    assert_eq!(regions[1].typical.events, None);
    assert_eq!(runs, [(2560, 2048, 0, 20), (2048, 1536, 1536, 24), (2560, 2048, 0, 20)]);
}
