//! Locks, units and a table of GPUs, shared by the crates of vramscope.

pub mod gpus;
mod sync;
pub mod units;

pub use sync::lock;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
