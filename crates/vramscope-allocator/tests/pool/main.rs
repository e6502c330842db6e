//! What the pool, its hooks and its history promise, seen from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod cuda;
mod cupy;
#[cfg(unix)]
mod fork;
mod history;
mod hooks;
mod invariants;
mod kill;
mod limits;
mod line_profile;
mod python;
mod recordings;
mod stream;

use std::path::PathBuf;

use vramscope_allocator::{Policy, TorchRelease};
use vramscope_trace::{AllocatorSettings, Conf};

const MIB: u64 = 1 << 20;

/// PyTorch's policy under a configuration text.
fn torch(conf: &str, release: TorchRelease) -> Policy {
    let settings = AllocatorSettings { conf: Conf::parse(conf).unwrap(), ..AllocatorSettings::default() };
    Policy::torch(&settings, release)
}

/// PyTorch 2.11 as it comes.
fn torch_2_11() -> Policy {
    torch("", TorchRelease::new(2, 11))
}

/// The folder of larger recordings; `None`, with a word on stderr, where it is not.
fn data() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("VRAMSCOPE_DATA").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("skipped: no recordings at {}; VRAMSCOPE_DATA may name another folder", folder.display());
        return None;
    }
    Some(folder)
}
