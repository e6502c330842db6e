//! The contract of the pool, its hooks and its history, tested through the public API.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cuda;
mod cupy;
mod failures;
#[cfg(unix)]
mod fork;
mod history;
mod hooks;
mod invariants;
mod kill;
mod limits;
mod line_profile;
mod memory_summary;
mod plan;
mod python;
mod recordings;
mod release;
mod schema;
mod shared_streams;
mod stream;
mod threads;
mod waiting;

use vramscope_allocator::{Policy, TorchRelease};
use vramscope_trace::TorchSettings;

const MIB: u64 = 1 << 20;

/// PyTorch's policy under a configuration string.
fn torch(conf: &str, release: TorchRelease) -> Policy {
    Policy::torch(&TorchSettings::parse(conf).unwrap(), release)
}

/// PyTorch 2.11 with default settings.
fn torch_2_11() -> Policy {
    torch("", TorchRelease::new(2, 11))
}
