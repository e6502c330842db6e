//! Locks, units and a table of GPUs that the crates of vramscope share.

pub mod gpus;
mod sync;
pub mod units;

pub use sync::lock;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
