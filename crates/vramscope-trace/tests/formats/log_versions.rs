//! Logs of every version are read completely.

use std::fmt::Write as _;

use vramscope_trace::formats::Format;
use vramscope_trace::{Damage, Notices, Trace};

use crate::read;

/// A log of version 1, written by the code of that version. It has every action, kind, state and stage.
const VERSION_1: &[u8] = include_bytes!("data/version1.vramscope");

/// Events, segments and regions, one per line.
fn said(trace: &Trace) -> String {
    let mut out = String::new();
    let text = |id| trace.strings.get(id);
    for d in &trace.devices {
        writeln!(out, "device {}", d.device).unwrap();
        for e in d.events.iter() {
            let tags = trace.tags.get(e.tags);
            let (address, pool) = (e.address_or_free - BASE.min(e.address_or_free), tags.pool.map(|p| p.1));
            let (text, frames) = (tags.user_metadata.map(text), e.stack.map(|s| trace.stacks.get(s).len()));
            let (name, size, time) = (e.action.name(), e.size, e.time_us.unwrap() - TIME);
            writeln!(
                out,
                "{name} {address} {size} at {time} on {} {pool:?} {text:?} {frames:?}",
                tags.stream
            )
            .unwrap();
        }
        for s in &d.segments {
            let (kind, at, pool) = (s.kind, s.address - BASE, s.pool.map(|p| p.1));
            let (size, stream, expandable) = (s.total_size, s.stream, s.is_expandable);
            writeln!(out, "{kind:?} segment {at} {size} on {stream} {pool:?} {expandable:?}").unwrap();
            for b in d.blocks_of(s) {
                let (at, state) = (b.address - BASE, b.state.name());
                writeln!(out, "  {at} {} {} {state}", b.size, b.requested_size).unwrap();
            }
        }
    }
    for a in trace.annotations.iter().flatten() {
        writeln!(out, "{:?} {} {} {:?}", a.stage, text(a.name), a.device, a.time_us.map(|t| t - TIME))
            .unwrap();
    }
    out
}

const BASE: u64 = 0x7f00_0000_0000;
const TIME: i64 = 1_700_000_000_000_000;

#[test]
fn version_1_reads_as_it_did_when_it_was_written() {
    let recording = read(VERSION_1).unwrap();
    assert_eq!(recording.format, Format::Log { version: 1 });
    assert_eq!(recording.notices, Notices::default());
    let trace = &recording.trace;
    assert_eq!(said(trace), include_str!("data/version1.txt"));
    let settings = trace.settings.as_ref().unwrap();
    assert_eq!(
        (settings.recorded.max_split_size, settings.recorded.expandable_segments),
        (Some(128 << 20), Some(true))
    );
    assert_eq!(settings.recorded.roundup_power2_divisions.unwrap().0, [8; 16]);
    let (_, frame) = trace.frames.iter().next().unwrap();
    assert_eq!((trace.strings.get(frame.name), frame.line), ("main", 3));
    assert!(trace.records_host);
}

/// Its checksums only cover the payloads, and its chunks belong to no run. As in later versions, zeros are not a chunk.
#[test]
fn version_1_may_be_cut_and_may_end_in_zeros() {
    for length in 12..VERSION_1.len() {
        let notices = read(&VERSION_1[..length]).unwrap().notices;
        assert!(notices.unclosed, "{length}");
    }
    let zeros = [VERSION_1, &[0; 4096]].concat();
    let recording = read(&zeros).unwrap();
    assert_eq!(recording.notices.cut_off_bytes, 4096);
    assert!(recording.trace == read(VERSION_1).unwrap().trace);
    let followed = [&VERSION_1[..12], &[0; 8], &VERSION_1[12..]].concat();
    let recording = read(&followed).unwrap();
    let damage = Damage { places: 1, bytes: followed.len() as u64 - 12, first: 12 };
    assert_eq!(recording.notices, Notices { damage, unclosed: true, ..Notices::default() });
    assert!(recording.trace.ends_early);
}

/// The fuzzer's corpus has the same small recording, written by versions 2 and 3.
#[test]
fn versions_2_and_3_of_a_recording_read_the_same() {
    let corpus = |name: &str| {
        std::fs::read(format!("{}/../../fuzz/corpus/read/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let recording = read(&corpus("log2")).unwrap();
    assert_eq!(recording.format, Format::Log { version: 2 });
    assert_eq!(recording.notices, Notices::default());
    let now = read(&corpus("log3")).unwrap();
    assert_eq!((now.format, &now.notices), (Format::Log { version: 3 }, &Notices::default()));
    assert_eq!(recording.trace.settings, now.trace.settings);
    assert_eq!(recording.trace.settings.as_ref().unwrap().recorded.garbage_collection_threshold, Some(0.5));
    assert!(recording.trace == now.trace);
}
