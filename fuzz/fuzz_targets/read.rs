//! Any bytes, through the reader, every question, the timeline, every report and every export; what was read must be written and
//! read again as it was.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;

use libfuzzer_sys::fuzz_target;
use vramscope::trace::formats;

fuzz_target!(|bytes: &[u8]| check(bytes));

/// Reads `bytes` and, where they are a recording, asks everything of it.
fn check(bytes: &[u8]) {
    if let Ok(recording) = formats::read(bytes, &mut |_| {}) {
        questions::ask(&recording);
    }
}
