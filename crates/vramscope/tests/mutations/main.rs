//! Snapshots that were changed with knowledge of their structure, written as JSON and as pickles of every style: each is
//! refused or read, both forms say the same, and every question is asked of what was read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "what a stuck test prints says where it stands")]

mod mutate;
mod pickle;
#[path = "../../../../fuzz/questions/mod.rs"]
mod questions;
#[path = "../../../../fuzz/questions/samples.rs"]
mod samples;
mod tree;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mutate::{Change, mutate};
use pickle::{Memo, Shared, Style};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tree::Tree;
use vramscope::trace::Notices;
use vramscope::trace::formats::{self, Opened, ReadOptions, Recording};

/// How many snapshots are tried, where `PROPTEST_CASES` does not say.
const CASES: u32 = 3000;

/// After so long a case is taken to hang. A case takes some milliseconds.
const HANGS: Duration = Duration::from_secs(300);

/// The case at hand, and when it began.
type AtHand = Arc<Mutex<Option<(Instant, String)>>>;

#[test]
fn mutated_snapshots_are_read_alike_from_json_and_pickle_or_refused() {
    let bases = bases();
    let at_hand = AtHand::default();
    watch(&at_hand);
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    let cases = asked.unwrap_or(CASES);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let read = Mutex::new(0);
    let outcome =
        TestRunner::new(config).run(&(0..bases.len(), changes(), style()), |(base, changes, style)| {
            let mut tree = bases[base].clone();
            mutate(&mut tree, &bases, &changes);
            let case = format!("base {base}, {changes:?}, {style:?}");
            *at_hand.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), case));
            *read.lock().unwrap() += u32::from(try_one(&tree, style));
            Ok(())
        });
    *at_hand.lock().unwrap_or_else(PoisonError::into_inner) = None;
    if let Err(e) = outcome {
        panic!("{e}");
    }
    let read = read.into_inner().unwrap();
    assert!(read > cases / 10, "of {cases} snapshots only {read} were read: the questions went unasked");
}

/// The fuzzer's logs of samples, with bytes changed by chance: each is refused or read, and everything is asked of it.
#[test]
fn mutated_logs_of_samples_are_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read");
    let log = |form: &str| std::fs::read(format!("{corpus}/samples-{form}")).unwrap();
    let logs = ["jsonl", "csv", "json", "results"].map(log);
    let ask = |bytes: &[u8]| match formats::read_any(ReadOptions::default(), bytes, &mut |_| {}) {
        Ok(Opened::Samples { log, .. }) => {
            samples::ask(&log);
            true
        }
        _ => false,
    };
    assert!(logs.iter().all(|log| ask(log)));
    let change = (
        any::<prop::sample::Index>(),
        prop_oneof![any::<u8>(), prop::sample::select(&b"0123456789-.e,\":{}[]\n"[..])],
    );
    let changes = prop::collection::vec(change, 1..30);
    let config = ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() };
    let read = Mutex::new(0);
    let outcome = TestRunner::new(config).run(&(0..logs.len(), changes), |(log, changes)| {
        let mut bytes = logs[log].clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        *read.lock().unwrap() += u32::from(ask(&bytes));
        Ok(())
    });
    if let Err(e) = outcome {
        panic!("{e}");
    }
    assert!(read.into_inner().unwrap() > 300, "most logs were refused: the questions went unasked");
}

/// Each base is a recording, in every style.
#[test]
fn what_is_not_mutated_is_read() {
    for (number, base) in bases().iter().enumerate() {
        for protocol in 2..=5 {
            for memo in [Memo::Never, Memo::BeforeFilling, Memo::AfterFilling] {
                for (one_by_one, long) in [(false, false), (true, false), (false, true)] {
                    let style = Style { protocol, memo, shared: Shared::Frames, one_by_one, long };
                    assert!(same(base, style).is_some(), "base {number}, {style:?}");
                }
            }
        }
    }
}

/// Reads both forms of `tree`, and asks everything of what was read. False where it was refused.
fn try_one(tree: &Tree, style: Style) -> bool {
    let recording = same(tree, style);
    if let Some(recording) = &recording {
        questions::ask(recording);
    }
    recording.is_some()
}

/// The recording that both forms of `tree` are; `None` where it was refused.
fn same(tree: &Tree, style: Style) -> Option<Recording> {
    let pickle = formats::read(&pickle::write(tree, style)[..], &mut |_| {});
    let json = formats::read(tree.json().as_bytes(), &mut |_| {});
    if !tree.is_common() || tree.depth() > 90 {
        return pickle.or(json).ok();
    }
    match (pickle, json) {
        (Ok(pickle), Ok(json)) => {
            assert!(pickle.trace == json.trace, "the pickle and the JSON of one tree are read as two traces");
            notices_agree(&pickle.notices, json.notices, style);
            Some(pickle)
        }
        (Err(_), Err(_)) => None,
        // What JSON writes twice, a pickle may refer to; what no recorder refers to is refused.
        (Err(e), Ok(json)) if style.shared != Shared::Nothing => {
            let e = e.to_string();
            assert!(e.contains("twice") || e.contains("a block of another segment"), "{e}");
            Some(json)
        }
        (Err(e), Ok(_)) => panic!("the pickle is refused, the JSON of the same tree is not: {e}"),
        (Ok(_), Err(e)) => panic!("the JSON is refused, the pickle of the same tree is not: {e}"),
    }
}

/// Notices count what a file writes. What JSON writes again and again, a pickle may write once and refer to: then it has
/// fewer of the same.
fn notices_agree(pickle: &Notices, mut json: Notices, style: Style) {
    if style.shared != Shared::Nothing && style.memo != Memo::Never {
        for (key, times) in &mut json.unknown_keys {
            let written = pickle.unknown_keys.get(key).copied().unwrap_or(0);
            assert!((1..=*times).contains(&written), "{key:?}: {written} in the pickle, {times} in the JSON");
            *times = written;
        }
        let (written, times) = (pickle.more_unknown_keys, json.more_unknown_keys);
        assert!(written <= times && (written == 0) == (times == 0), "{written} more, {times} in the JSON");
        json.more_unknown_keys = written;
    }
    assert_eq!(*pickle, json);
}

/// Ends the test and prints the case where one hangs: a test that is ended from outside says nothing.
fn watch(at_hand: &AtHand) {
    let at_hand = Arc::downgrade(at_hand);
    std::thread::spawn(move || {
        while let Some(at_hand) = at_hand.upgrade() {
            if let Some((began, case)) = &*at_hand.lock().unwrap_or_else(PoisonError::into_inner)
                && began.elapsed() > HANGS
            {
                eprintln!("this case hangs: {case}");
                std::process::exit(101);
            }
            drop(at_hand);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = any::<(u8, u32, u32)>().prop_map(|(kind, place, with)| Change { kind, place, with });
    proptest::collection::vec(change, 1..6)
}

fn style() -> impl Strategy<Value = Style> {
    let memo = prop_oneof![Just(Memo::Never), Just(Memo::BeforeFilling), Just(Memo::AfterFilling)];
    let shared = prop_oneof![Just(Shared::Nothing), Just(Shared::Frames), Just(Shared::Everything)];
    (2u8..=5, memo, shared, any::<bool>(), any::<bool>()).prop_map(
        |(protocol, memo, shared, one_by_one, long)| Style { protocol, memo, shared, one_by_one, long },
    )
}

/// Small snapshots that are read: everything that PyTorch writes, a program that allocates and frees, and the lists of
/// segments of before there were traces, with former occupants of blocks.
fn bases() -> Vec<Tree> {
    let everything = include_str!("../../../../fuzz/corpus/read/everything.json");
    let segments = serde_json::json!([{
        "device": 0, "address": 4 << 20, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512,
        "stream": 0, "segment_type": "small",
        "blocks": [
            {"size": 512, "state": "active_allocated", "history": [
                {"addr": 4 << 20, "real_size": 300, "frames": [{"name": "f", "filename": "a.py", "line": 1}]}]},
            {"size": (2 << 20) - 512, "state": "inactive"},
        ],
    }]);
    [serde_json::from_str(everything).unwrap(), program(), segments].iter().map(Tree::of).collect()
}

/// Two steps of a program: eight blocks are allocated in each, all but the last are freed.
fn program() -> serde_json::Value {
    let base = 0x7f00_0000_0000u64;
    let stack = |line: u64| {
        serde_json::json!([
            {"name": "forward", "filename": "/home/user/model.py", "line": line},
            {"name": "<module>", "filename": "/home/user/train.py", "line": 3},
        ])
    };
    let mut time = 0;
    let mut event = |action: &str, addr: u64, size: u64, line: u64| {
        time += 10;
        serde_json::json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time,
            "frames": stack(line)})
    };
    let mut events = vec![event("segment_alloc", base, 2 << 20, 1)];
    for step in 0..2 {
        for i in step..8 {
            events.push(event("alloc", base + 1024 * i, 1000, i));
        }
        for i in 1..8 {
            events.push(event("free_requested", base + 1024 * i, 1000, i));
            events.push(event("free_completed", base + 1024 * i, 1000, i));
        }
    }
    serde_json::json!({
        "segments": [{
            "device": 0, "address": base, "total_size": 2 << 20, "allocated_size": 1024, "active_size": 1024,
            "requested_size": 1000, "stream": 0, "segment_type": "small", "frames": [],
            "blocks": [
                {"address": base, "size": 1024, "requested_size": 1000, "state": "active_allocated",
                    "frames": stack(0)},
                {"address": base + 1024, "size": (2 << 20) - 1024, "requested_size": 0, "state": "inactive",
                    "frames": []},
            ],
        }],
        "device_traces": [events],
    })
}
