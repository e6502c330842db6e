//! Basics of all analyses.
//!
//! - `both`: a pair of values, for two recordings or two moments.
//! - `cancel`: cancellation. Long loops check it, and a canceled question ends without an answer.
//! - `parallel`: work on a second thread, if the system has one.

mod both;
mod cancel;
mod parallel;

pub use both::{Both, Side};
pub use cancel::Cancel;
pub use parallel::at_once;
pub(crate) use parallel::beside;
