#![doc = include_str!("../README.md")]

mod log;
mod mapped;
#[allow(dead_code, reason = "fields that only the library writes")]
mod record;
mod records;
#[allow(dead_code, reason = "what only the library does")]
mod ring;
mod run;

pub use run::{RecordError, Recorded, RecorderRun};
