//! The replay of a recording under other settings: `vramscope replay`.

pub(crate) mod json;
pub mod sentences;
pub(crate) mod text;

pub use json::ReplayJson;
pub use text::replay;
