//! Locks, cancellation, units, a table of GPUs and counts of steps for tests, shared by the crates of vramscope.
//!
//! # Modules
//! - `cancel`: cancels a computation from another thread.
//! - `gpus`: GPUs by name, and their memory.
//! - `steps`: counts of steps, with which tests bound the cost of a computation.
//! - `sync`: locks that ignore panics of other threads.
//! - `units`: bytes and durations as text.

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
