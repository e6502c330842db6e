//! Damaged or malicious input gives an error with its place, never a panic, a hang or running code.

use proptest::prelude::*;
use vramscope_trace::ReadError;
use vramscope_trace::formats::log::{LogEvent, LogWriter};
use vramscope_trace::formats::{ReadOptions, Reader, write_operators, write_pickle};
use vramscope_trace::{Action, SegmentKind, Trace};

use crate::{everything, read, read_json};

fn error(bytes: &[u8]) -> String {
    let message = read(bytes).unwrap_err().to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

fn pickled() -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pickle(&read_json(&everything()).trace, &mut bytes).unwrap();
    bytes
}

#[test]
fn opcodes_that_can_run_code_are_refused_by_name() {
    // os.system("true"), as pickle.dumps writes an object with __reduce__.
    let attack = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.";
    assert_eq!(
        error(attack),
        "refused opcode STACK_GLOBAL at byte 17: it imports a Python function or class, and a memory snapshot \
         never needs it; this is another kind of pickle, or a hostile one"
    );
    for opcode in [b'c', b'i', b'o', b'b', b'R', b'P', b'Q', 0x81, 0x82, 0x83, 0x84, 0x92, 0x93] {
        let refused = read(&[0x80, 4, b'N', b'N', opcode, 0, 0, 0, 0, b'.']);
        assert!(matches!(refused, Err(ReadError::Refused { offset: 4, .. })), "{opcode:#x}: {refused:?}");
    }
}

#[test]
fn the_end_of_the_file_is_named_wherever_it_is_cut() {
    let whole = pickled();
    for length in 1..whole.len() {
        let message = error(&whole[..length]);
        if length >= 2 {
            assert!(message.starts_with(&format!("the file ends at byte {length}, inside")), "{message}");
        }
    }
}

#[test]
fn shared_containers_do_not_unfold() {
    // Thirty lists, each with two references to the previous one: 2^30 elements if they were copied.
    let mut bomb = vec![0x80, 4, b']', 0x94];
    for i in 0..30u8 {
        bomb.extend([b']', 0x94, b'(', b'h', i, b'h', i, b'e']);
    }
    bomb.push(b'.');
    assert!(error(&bomb).starts_with("holds a list, not a memory snapshot"), "{}", error(&bomb));

    // A trace of references to the same event, in batches as `pickle` writes them.
    let mut bomb = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](".to_vec();
    bomb.extend(b"}\x94(\x8c\x06action\x8c\x04free\x8c\x04addrK\x01\x8c\x04sizeK\x01u");
    for i in 0..100_000 {
        bomb.extend(if i % 1000 == 999 { b"e(".as_slice() } else { b"h\0" });
    }
    bomb.extend(b"eeu.");
    assert_eq!(error(&bomb), "device_traces: contains the same entry twice, which no recorder writes");

    // Values that never become a list must not fill the memory either.
    let endless = [b"\x80\x04](".as_slice(), &b"N".repeat(1_000_000)].concat();
    assert!(error(&endless).contains("a list or dictionary that never closes"), "{}", error(&endless));
}

/// A pickle with memoized keys and many copies of `dictionary`, so that each copy takes few bytes.
fn many(keys: &[&str], dictionary: &[u8], times: usize) -> Vec<u8> {
    let mut bytes = b"\x80\x04](".to_vec();
    for key in keys {
        bytes.extend([0x8c, key.len() as u8]);
        bytes.extend(key.as_bytes());
        bytes.push(0x94);
    }
    for i in 0..times {
        bytes.extend(dictionary);
        if i % 1000 == 999 {
            bytes.extend(b"e(");
        }
    }
    bytes.extend(b"e.");
    bytes
}

#[test]
fn small_dictionaries_that_mean_much_may_not_fill_the_memory() {
    let cases: [(&str, Vec<u8>); 7] = [
        ("settings", many(&["expandable_segments"], b"}(h\0\x88u", 300_000)),
        ("roots", many(&["segments"], b"}(h\0Nu", 700_000)),
        ("segments", many(&["total_size"], b"}(h\0K\0u", 300_000)),
        ("divisions", many(&["1"], b"}(h\0K\0u", 500_000)),
        ("lists inside each other", many(&["x"], &[b"h\0".as_slice(), &[0x85; 1000]].concat(), 4_000)),
        (
            "one value in the memo again and again",
            many(&["x"], &[b"K\0".as_slice(), &[0x94; 1000]].concat(), 6_000),
        ),
        (
            "a memo with gaps",
            (0..2_000_000u32).fold(b"\x80\x04N".to_vec(), |mut bytes, i| {
                bytes.push(b'r');
                bytes.extend((i * 2 + 1).to_le_bytes());
                bytes
            }),
        ),
    ];
    for (name, bytes) in cases {
        let message = error(&bytes);
        assert!(message.contains("would take more than 8 times as much memory"), "{name}: {message}");
    }
}

/// A batch of references to frames is inspected before it is consumed.
#[test]
fn a_batch_that_is_cut_anywhere_is_an_error() {
    let mut bytes = b"\x80\x04]\x94(}\x94(".to_vec();
    for text in ["name", "f", "filename", "f.py"] {
        bytes.extend([0x8c, text.len() as u8]);
        bytes.extend(text.as_bytes());
        bytes.push(0x94);
    }
    bytes.extend(b"u]\x94(h\x01j\x01\0\0\0\x95\x05\0\0\0\0\0\0\0h\x01ee.");
    assert!(error(&bytes).contains("not a"), "whole, it is a list of a frame and a stack: {}", error(&bytes));
    for length in 2..bytes.len() {
        let message = error(&bytes[..length]);
        assert!(message.contains("truncated"), "{length}: {message}");
    }
}

#[test]
fn a_text_that_many_dictionaries_refer_to_is_copied_once() {
    // Four MiB of text in ten thousand settings would be 40 GiB to copy and to parse.
    let conf = "x".repeat(4 << 20);
    let zeros = "0".repeat(4 << 20);
    let mut bytes = b"\x80\x04](".to_vec();
    for text in ["PYTORCH_CUDA_ALLOC_CONF", &conf, &zeros] {
        bytes.push(b'X');
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.push(0x94);
    }
    for _ in 0..10_000 {
        bytes.extend(b"}(h\0h\x01u}(h\x02K\0u");
    }
    bytes.extend(b"e.");
    assert!(error(&bytes).starts_with("holds a list"), "{}", error(&bytes));
}

#[test]
fn frames_that_change_in_the_memo_cost_the_same_however_many_stacks_there_are() {
    // Regression test: each change forgot every stack, and each following stack reserved space for all of them again.
    let mut bytes = b"\x80\x04](\x8c\x04name\x94\x8c\x08filename\x94\x8c\x04line\x94".to_vec();
    for line in 0..=255u8 {
        bytes.extend(b"}(h\0h\x01h\x01h\0h\x02K");
        bytes.extend([line, b'u', b'r']);
        bytes.extend((3 + u32::from(line)).to_le_bytes());
    }
    let reference = |i: u32| [b"j".as_slice(), &(3 + i % 256).to_le_bytes()].concat();
    for i in 0..200_000u32 {
        bytes.extend(
            [b"](".as_slice(), &reference(i), &reference(i >> 8), &reference(i >> 16), b"e"].concat(),
        );
        if i >= 150_000 {
            // The same frame at the same index.
            bytes.extend([reference(7), b"r".to_vec(), 10u32.to_le_bytes().to_vec(), b"0".to_vec()].concat());
        }
        if i % 1000 == 999 {
            bytes.extend(b"e(");
        }
    }
    bytes.extend(b"e.");
    assert!(error(&bytes).starts_with("holds a list"), "{}", error(&bytes));
}

#[test]
fn a_string_of_json_is_bounded() {
    let long = format!("{{\"segments\": [\"{}\"]}}", "x".repeat(17 << 20));
    let message = error(long.as_bytes());
    assert!(message.contains("a string, number or space of more than 16777216 bytes"), "{message}");
    // Many short values are not one long value.
    let numbers = format!("{{\"segments\": [], \"other\": [0{}]}}", ",0".repeat(9 << 20));
    assert!(read(numbers.as_bytes()).is_ok());
}

#[test]
fn a_file_that_expands_beyond_the_limit_is_refused_by_default() {
    let space = " ".repeat(14 << 20);
    let snapshot = format!("{{\"segments\": [], \"other\": [{space}0,{space}0,{space}0]}}");
    let packed = zstd::encode_all(snapshot.as_bytes(), 1).unwrap();
    assert!(packed.len() < 8 << 10);
    let most = (16 << 20) + 250 * packed.len();
    assert_eq!(
        error(&packed),
        format!(
            "the zstd data expands to more than {most} bytes, more than any recording does; if you trust the file, \
             decompress it first and read the result"
        )
    );
    for (limit, fits) in [(u64::MAX, true), (snapshot.len() as u64, true), (snapshot.len() as u64 - 1, false)]
    {
        let options = ReadOptions { expanded_bytes: Some(limit), ..ReadOptions::default() };
        assert_eq!(Reader::new(&packed[..]).options(options).read().is_ok(), fits, "{limit}");
    }
}

/// The limit stops reading early, not after everything is in memory.
#[test]
fn a_limit_on_memory_ends_the_reading() {
    let event = r#"{"action": "alloc", "addr": 512, "size": 512, "stream": 0, "frames": []}"#;
    let json = format!(r#"{{"segments": [], "device_traces": [[{}]]}}"#, vec![event; 100_000].join(","));
    let mut pickle = Vec::new();
    write_pickle(&read(json.as_bytes()).unwrap().trace, &mut pickle).unwrap();
    let mut log = LogWriter::create_run(Vec::new(), 7).unwrap();
    for address in 0..100_000 {
        log.event(&LogEvent {
            device: 0,
            action: Action::Alloc,
            address_or_free: address << 9,
            size: 512,
            block_size: 512,
            time_us: 0,
            stack: None,
            stream: 0,
            pool: None,
            user_metadata: None,
            kind: SegmentKind::Small,
            unknown_action: None,
        });
    }
    let log = log.finish().unwrap();
    for file in [json.as_bytes(), &pickle, &log] {
        let read_in = |memory: u64| {
            let mut taken = 0;
            let options = ReadOptions { memory_bytes: Some(memory), ..ReadOptions::default() };
            let read = Reader::new(file).options(options).progress(|bytes| taken = bytes).read();
            (read.map(|_| ()), taken as usize)
        };
        let (read, taken) = read_in(1 << 20);
        assert_eq!(
            read.unwrap_err().to_string(),
            "takes more than 1048576 bytes of memory, the limit for a recording"
        );
        // A log with one chunk is read completely.
        assert!(taken <= file.len() / 2 || file.len() < 4 << 20, "{taken} of {}", file.len());
        assert!(read_in(64 << 20).0.is_ok());
    }
}

#[test]
fn devices_are_as_many_as_a_machine_may_have() {
    let at_most = "device_traces: has too many lists: a machine has at most 1024 devices";
    for (lists, most) in
        [(1024, None), (1025, Some(at_most)), (4096, Some(at_most)), (100_000, Some(at_most))]
    {
        let json = serde_json::json!({"segments": [], "device_traces": vec![[(); 0]; lists]}).to_string();
        assert_eq!(read(json.as_bytes()).err().map(|e| e.to_string()).as_deref(), most, "{lists}");
    }
    for (device, fits) in
        [(0, true), (1023, true), (1024, false), (100_000, false), (-2, false), (i64::MIN, false)]
    {
        let json = serde_json::json!({"segments": [{"device": device, "address": 512, "total_size": 512, "blocks": []}]});
        let error = read(json.to_string().as_bytes()).err().map(|e| e.to_string());
        let beyond = format!("segments[0]: segment of device {device}, which no machine has");
        assert_eq!(error, (!fits).then_some(beyond));
    }
    let json = serde_json::json!({"segments": vec![0; 5000], "device_traces": []}).to_string();
    assert_eq!(error(json.as_bytes()), "segments: is a list of thousands of values that are not records");
}

#[test]
fn nesting_is_bounded() {
    let deep = |opcode: &[u8]| [b"\x80\x04".as_slice(), &opcode.repeat(100_000)].concat();
    for opcode in [b"]".as_slice(), b"](", b"}(N", b"("] {
        let message = error(&deep(opcode));
        assert!(message.contains("nested too deep"), "{message}");
    }
    let json = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(error(json.as_bytes()).starts_with("not a JSON snapshot: recursion limit exceeded"));
}

#[test]
fn lengths_are_not_trusted() {
    let string = [b"\x80\x04\x8d".as_slice(), &(1u64 << 60).to_le_bytes(), b"short"].concat();
    assert!(
        error(&string).starts_with("byte 2: a string of 1152921504606846976 bytes"),
        "{}",
        error(&string)
    );
    for opcode in [0x8e, 0x96] {
        let mut claim = vec![0x80, 4, opcode];
        claim.extend((1u64 << 60).to_le_bytes());
        claim.extend(b"short");
        assert!(error(&claim).starts_with("the file ends at byte 16, inside a string"), "{}", error(&claim));
    }
    let integer = b"\x80\x04\x8b\xff\xff\xff\x7f\x00.";
    assert_eq!(
        error(integer),
        "byte 2: an integer beyond 64 bits; the file is damaged or not a memory snapshot"
    );
    let memo = b"\x80\x04Nr\xff\xff\xff\xff.";
    assert_eq!(error(memo).split(',').next(), Some("holds `None`"));
}

#[test]
fn integers_of_nine_bytes_are_addresses_and_longer_ones_errors() {
    let with = |integer: &[u8]| {
        let start =
            b"\x80\x04}(\x8c\x0ddevice_traces](](}(\x8c\x06action\x8c\x08snapshot\x8c\x04addr".to_vec();
        [start, integer.to_vec(), b"ueeu.".to_vec()].concat()
    };
    let highest = with(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00");
    assert_eq!(read(&highest).unwrap().trace.devices[0].events.get(0).address(), u64::MAX);
    for beyond in [b"\x8a\x09\0\0\0\0\0\0\0\0\x01".as_slice(), b"\x8a\x0a\0\0\0\0\0\0\0\0\0\0"] {
        assert!(error(&with(beyond)).contains("an integer beyond 64 bits"));
    }
}

#[test]
fn values_of_the_wrong_kind_are_named_with_their_place() {
    let wrong = |pointer: &str, value: serde_json::Value| {
        let mut snapshot = everything();
        *snapshot.pointer_mut(pointer).unwrap() = value;
        error(snapshot.to_string().as_bytes())
    };
    let text = serde_json::Value::from("big");
    assert_eq!(
        wrong("/device_traces/0/1/size", text.clone()),
        "device_traces[0][1]: trace entry whose `size` is \"big\""
    );
    assert_eq!(
        wrong("/device_traces/0/2/addr", (-0.5).into()),
        "device_traces[0][2]: trace entry whose `addr` is -0.5"
    );
    assert_eq!(
        wrong("/segments/0/blocks/1/size", (-1).into()),
        "segments[0].blocks[1]: block whose `size` is -1"
    );
    assert_eq!(wrong("/segments/0", 3.into()), "segments[0]: is not a segment");
    assert_eq!(wrong("/device_traces", text.clone()), "device_traces: is not a list");
    assert_eq!(
        wrong("/device_traces/0/1/frames/0/line", text),
        "device_traces[0][1]: frame whose `line` is \"big\""
    );
    let pickle = b"\x80\x04}(\x8c\x12allocator_settings}(\x8c\x0emax_split_sizeK\x01\
        \x8c\x1cgarbage_collection_thresholdG\x7f\xf8\0\0\0\0\0\0u\x8c\x08segments]u.";
    assert_eq!(
        error(pickle),
        "allocator_settings (byte 25): settings whose `garbage_collection_threshold` is NaN"
    );
    assert_eq!(
        wrong("/device_traces/0/1/size", (1u64 << 62).into()),
        "device 0: has sizes that sum to more than 2^61 bytes, beyond any device"
    );
}

#[test]
fn other_kinds_of_files_are_named() {
    for (bytes, start) in [
        (b"".as_slice(), "the file is empty"),
        (b"PK\x03\x04rest", "not a memory snapshot but a zip archive"),
        (b"hello world", "not a memory snapshot but text that begins \"hello world\""),
        (b"<!DOCTYPE html>", "not a memory snapshot but a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a memory snapshot but a Git LFS pointer"),
        (b"(dp0\n", "not a memory snapshot but a pickle of protocol 0 or 1"),
        (
            b"\x00\x01\x02\x03\xff",
            "not a memory snapshot but an unknown kind of file that begins with the bytes 00 01 02 03",
        ),
        (b"\x80\x07.", "byte 0: pickle protocol 7; supported are 2 to 5"),
        (b"\x80\x04}.", "holds neither `segments` nor `device_traces`, not a memory snapshot"),
        (b"{\"model\": 3}", "holds neither `segments` nor `device_traces`, not a memory snapshot"),
        (b"{\"segments\": [", "not a JSON snapshot: EOF while parsing a list"),
    ] {
        assert!(error(bytes).starts_with(start), "{}", error(bytes));
    }
}

/// The fuzzer's initial files, and its former findings.
#[test]
fn the_fuzzers_corpus_is_read_or_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/read");
    let mut traces = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        let path = file.unwrap().path();
        let Ok(recording) = read(&std::fs::read(&path).unwrap()) else { continue };
        let mut written = Vec::new();
        write_pickle(&recording.trace, &mut written).unwrap();
        // A pickle has no memory of other libraries.
        let trace = Trace { process: None, ..Trace::clone(&recording.trace) };
        assert!(*read(&written).unwrap().trace == trace, "{}", path.display());
        traces += 1;
    }
    assert!(traces > 5);
}

#[test]
fn a_changed_trace_of_operators_is_read_or_refused() {
    let text = br#"{"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::\u00e4", "pid": 1, "tid": 7, "ts": 12.5, "dur": 2.0, "args": {"a": [1], "External id": 4}},
        {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 7, "ts": 13, "dur": 1, "args": {"correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 1e3, "dur": 2.0,
            "args": {"device": 0, "stream": 7, "correlation": 5, "External id": 4}},
        {"ph": "M", "name": "thread_name", "tid": 7, "args": {"name": "thread 7 (python)"}},
        {"ph": "i", "name": "[memory]", "tid": 7, "ts": 13, "args": {"Bytes": 8, "Addr": 9, "Device Type": 1, "Device Id": 0}}
    ], "baseTimeNanoseconds": 9000}"#;
    let mut read = 0;
    for at in 0..text.len() {
        for byte in [b'"', b'\\', b'9', b'-', b'[', b'}', b' ', 0, 0xff] {
            let mut changed = text.to_vec();
            changed[at] = byte;
            match Reader::new(&changed[..]).read_operators() {
                Ok(trace) => {
                    let spans = trace.lanes.iter().flat_map(|lane| &lane.spans);
                    assert!(spans.clone().all(|span| span.start_ns <= span.end_ns));
                    let count = spans.count();
                    assert!(count <= 3 && trace.memory.len() <= 1 && trace.launches.len() <= 1);
                    let mut written = Vec::new();
                    write_operators(&trace, &mut written).unwrap();
                    let again = Reader::new(&written[..]).read_operators().unwrap();
                    let spans = again.lanes.iter().flat_map(|lane| &lane.spans);
                    assert_eq!((spans.count(), again.launches), (count, trace.launches));
                    read += 1;
                }
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
        }
    }
    assert!(read > 1000, "{read}");
}

#[test]
fn a_name_longer_than_any_is_refused_before_it_is_held() {
    let start = br#"{"schemaVersion": 1, "traceEvents": [{"name": ""#;
    for filler in [b'x', b'\\', b' '] {
        let long = std::io::Read::chain(&start[..], std::io::Read::take(std::io::repeat(filler), 1 << 30));
        let error = Reader::new(long).read_operators().unwrap_err().to_string();
        assert!(error.contains("a string, number or space of more than 16777216 bytes"), "{error}");
    }
}

#[test]
fn bytes_after_the_pickle_are_ignored_and_reported() {
    let mut bytes = pickled();
    bytes.extend(b"more");
    let recording = read(&bytes).unwrap();
    assert!(recording.notices.trailing_bytes);
    assert!(recording.trace == read_json(&everything()).trace);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_pickles_end_in_a_trace_or_an_error(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let mut bytes = pickled();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        // Either is fine; a panic or a hang is not.
        read(&bytes).ok();
    }
}
