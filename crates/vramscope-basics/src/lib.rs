//! Locks and units that the crates of vramscope share.

mod sync;
pub mod units;

pub use sync::lock;
