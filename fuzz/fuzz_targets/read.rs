//! Any bytes, through the reader, every question, the timeline, every report and every export; what was read must be written and
//! read again as it was.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;
#[path = "../questions/samples.rs"]
mod samples;

use libfuzzer_sys::fuzz_target;
use vramscope::trace::formats::{self, Opened, ReadOptions};

fuzz_target!(|bytes: &[u8]| check(bytes));

/// Reads `bytes` and asks everything of the recording or the log that they are.
fn check(bytes: &[u8]) {
    match formats::read_any(ReadOptions::default(), bytes, &mut |_| {}) {
        Ok(Opened::Recording(recording)) => questions::ask(&recording),
        Ok(Opened::Samples { log, .. }) => samples::ask(&log),
        Err(_) => {}
    }
}
