//! Stacks and their frames.
//!
//! - `frames`: whose code a frame is (the user's, a library's, or compiled code), and the frame that names a stack.
//! - `filter`: the stacks that a regular expression accepts.

mod filter;
mod frames;

pub(crate) use filter::StackFilter;
pub use frames::{Code, Frames};
