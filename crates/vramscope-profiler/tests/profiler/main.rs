//! The profiler as a program uses it. Pools of the host's memory, or of addresses alone, stand in for GPUs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod calls;
mod flight_recorder;
mod gpus;
mod json;
mod leaks;
#[cfg(unix)]
mod live;
#[cfg(feature = "prometheus")]
mod prometheus;
mod random;
mod sources;
mod tracker;
mod wrapped;
