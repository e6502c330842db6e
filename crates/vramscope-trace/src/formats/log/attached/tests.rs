#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;

use super::*;
use crate::formats::log::LogWriter;
use crate::formats::{ReadOptions, Reader, Recording};

const TRACE: &str = r#"{"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "tid": 1, "ts": 5.0, "dur": 2.0}]}"#;

/// A log with the trace.
fn log(folder: &Path) -> Vec<u8> {
    let (path, trace) = (folder.join("run.vramscope"), folder.join("trace.json"));
    fs::write(&path, LogWriter::create(Vec::new()).unwrap().finish().unwrap()).unwrap();
    fs::write(&trace, TRACE).unwrap();
    append_operators(&path, &trace).unwrap();
    assert_eq!(append_operators(&trace, &trace).unwrap_err().to_string(), "not a log of vramscope");
    fs::read(path).unwrap()
}

fn read(log: &[u8]) -> Recording {
    crate::formats::read(log).unwrap()
}

#[test]
fn a_log_has_the_operators_that_were_appended() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let recording = read(&log);
    assert_eq!(recording.notices.to_string(), "");
    let operators = recording.trace.operators.clone().unwrap();
    let lanes = Reader::new(&operators[..]).read_operators().unwrap().lanes;
    assert_eq!(lanes.iter().map(|lane| lane.spans.len()).collect::<Vec<_>>(), [1]);

    // A page has both: the log, and its operators.
    let options = ReadOptions { keeps_log: true, ..ReadOptions::default() };
    let kept = Reader::new(&log[..]).options(options).read().unwrap().log.unwrap();
    assert!(log.starts_with(&kept) && read(&kept).trace.operators.is_none());
    assert_eq!(read(&kept).notices.to_string(), "");
}

#[test]
fn a_trace_that_is_cut_or_damaged_leaves_the_log_readable() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let whole = log.windows(ATTACHED.len()).position(|bytes| bytes == ATTACHED).unwrap();
    for length in whole..log.len() {
        let recording = read(&log[..length]);
        assert!(recording.trace.operators.is_none());
        assert_eq!(recording.notices.cut_off_bytes, (length - whole) as u64, "{length}");
    }
    for at in whole + ATTACHED.len()..log.len() {
        let mut damaged = log.clone();
        damaged[at] ^= 0x40;
        let recording = read(&damaged);
        assert!(recording.trace.operators.is_none(), "{at}");
        assert!(recording.notices.cut_off_bytes > 0, "{at}");
    }
}
