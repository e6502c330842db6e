//! Snapshots with structural changes, written as JSON and as pickles of every style. Each is rejected or read, both formats give the same
//! result, and every analysis runs on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "a hanging test prints its case")]

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
use vramscope::trace::formats::{self, Opened, Reader, Recording};

/// Number of snapshots, unless `PROPTEST_CASES` is set, as in `./test --slow`.
const CASES: u32 = 1000;

/// A case counts as hanging after this time. A case takes some milliseconds.
const HANGS: Duration = Duration::from_secs(300);

/// The current case, and its start.
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
    assert!(read > cases / 10, "only {read} of {cases} snapshots were read, so the analyses did not run");
}

/// The fuzzer's sample logs with random byte changes: each is rejected or read, and every analysis runs on it.
#[test]
fn mutated_logs_of_samples_are_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read");
    let log = |form: &str| std::fs::read(format!("{corpus}/samples-{form}")).unwrap();
    let logs = ["jsonl", "csv", "json", "results"].map(log);
    let ask = |bytes: &[u8]| match Reader::new(bytes).read_any() {
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
    assert!(read.into_inner().unwrap() > 300, "most logs were rejected, so the analyses did not run");
}

/// Each base is a valid recording in every style.
#[test]
fn unchanged_snapshots_are_read() {
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

/// Reads both formats of `tree`, and runs every analysis on the result. Returns false if it was rejected.
fn try_one(tree: &Tree, style: Style) -> bool {
    let recording = same(tree, style);
    if let Some(recording) = &recording {
        questions::ask(recording);
    }
    recording.is_some()
}

/// Returns the recording that both formats of `tree` give; `None` if it was rejected.
fn same(tree: &Tree, style: Style) -> Option<Recording> {
    let pickle = formats::read(&pickle::write(tree, style)[..]);
    let json = formats::read(tree.json().as_bytes());
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
        // A pickle may refer to a value that JSON writes twice. References that no recorder writes are rejected.
        (Err(e), Ok(json)) if style.shared != Shared::Nothing => {
            let e = e.to_string();
            assert!(e.contains("twice") || e.contains("a block of another segment"), "{e}");
            Some(json)
        }
        (Err(e), Ok(_)) => panic!("the pickle is refused, the JSON of the same tree is not: {e}"),
        (Ok(_), Err(e)) => panic!("the JSON is refused, the pickle of the same tree is not: {e}"),
    }
}

/// Notices count written values. A pickle may write a value once and refer to it, where JSON repeats it: then it has fewer of the same
/// notices.
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

/// Stops the test and prints the case if it hangs: a test that is killed from outside prints nothing.
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

/// Small valid snapshots: everything that PyTorch writes, a program that allocates and frees, and segment lists from before traces existed,
/// with former occupants of blocks.
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

/// Two steps of a program: each allocates eight blocks, and all but the last are freed.
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
