//! Basics of all analyses.
//!
//! - `both`: a pair of values, for two recordings or two moments.
//! - `column`: a memory-efficient column of numbers. `range_max`: the maximum of any range of it.
//! - `parallel`: work on a second thread, if the system has one.

mod both;
mod column;
mod parallel;
mod range_max;

pub use both::{Both, Side};
pub(crate) use column::Column;
pub use parallel::at_once;
pub(crate) use parallel::beside;
pub(crate) use range_max::RangeMax;
