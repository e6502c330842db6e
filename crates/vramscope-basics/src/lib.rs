//! Locks and units that the crates of vramscope share.

mod sync;
pub mod units;

pub use sync::lock;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
