//! The verdicts on budgets: `vramscope check`.

mod json;
mod junit;
pub(crate) mod sentences;
pub(crate) mod text;

pub use json::CheckJson;
pub use junit::{harmless_xml, junit};
pub use text::check;
