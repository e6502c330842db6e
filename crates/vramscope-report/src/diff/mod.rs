//! The comparison of two recordings: `vramscope diff`.
//!
//! - `difference`: JSON of a single difference.
//! - `changes`: sentences about what changed, shared with the page and with `check --baseline`.

pub mod changes;
mod difference;
mod json;
mod text;

pub use difference::DifferenceJson;
pub use json::DiffJson;
pub use text::diff;
