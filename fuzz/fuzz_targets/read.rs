//! Any bytes, through the reader, every question, the timeline, every report and every export; what was read must be written and
//! read again as it was.
#![no_main]

#[path = "../questions/mod.rs"]
mod questions;

use libfuzzer_sys::fuzz_target;
use questions::check;

fuzz_target!(|bytes: &[u8]| check(bytes));
