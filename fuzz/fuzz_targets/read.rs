//! Reads any bytes and runs every query, the timeline, every report and every export. A trace must be equal after a write and a read.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;
#[path = "../questions/samples.rs"]
mod samples;

use libfuzzer_sys::fuzz_target;
use vramscope::trace::formats::{Opened, Reader};

fuzz_target!(|bytes: &[u8]| check(bytes));

/// Reads `bytes` and runs every query on the recording or the log of samples.
fn check(bytes: &[u8]) {
    match Reader::new(bytes).read_any() {
        Ok(Opened::Recording(recording)) => questions::ask(&recording),
        Ok(Opened::Samples { log, .. }) => samples::ask(&log),
        Err(_) => {}
    }
}
