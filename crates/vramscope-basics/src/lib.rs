//! Locks, cancellation, units, a table of GPUs and counts of steps for tests, shared by the crates of vramscope.

mod cancel;
pub mod gpus;
mod steps;
mod sync;
pub mod units;

pub use cancel::Cancel;
pub use steps::{count_steps, counted_steps};
pub use sync::lock;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
