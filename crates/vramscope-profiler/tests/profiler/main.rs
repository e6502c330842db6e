//! The profiler through its public API. Pools of host memory, or of addresses without memory, replace GPUs.
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
