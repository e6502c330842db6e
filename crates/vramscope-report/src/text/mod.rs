//! The parts of all texts: pages, lines and rows of tables.
//!
//! Styles are ANSI codes; the caller removes them for output without colors. A style never carries a meaning that the words lack.

pub(crate) mod lines;
pub(crate) mod page;
mod rows;

pub use lines::{BAD, BOLD, DIM, GOOD, Lines};
pub use page::{ROWS, TextOptions};
