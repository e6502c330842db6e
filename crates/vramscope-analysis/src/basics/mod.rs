//! Basics of all analyses.
//!
//! - `both`: a pair of values, for two recordings or two moments.
//! - `column`: a memory-efficient column of numbers. `range_max`: the maximum of any range of it.
//! - `cancel`: cancellation. Long loops check it, and a canceled question ends without an answer.
//! - `parallel`: work on a second thread, if the system has one.

mod both;
mod cancel;
mod column;
mod parallel;
mod range_max;

pub use both::{Both, Side};
pub use cancel::Cancel;
pub(crate) use column::Column;
pub use parallel::at_once;
pub(crate) use parallel::beside;
pub(crate) use range_max::RangeMax;
