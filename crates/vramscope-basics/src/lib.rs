//! Locks, cancellation, units and a table of GPUs, shared by the crates of vramscope.

mod cancel;
pub mod gpus;
mod sync;
pub mod units;

pub use cancel::Cancel;
pub use sync::lock;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
