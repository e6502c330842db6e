//! temporary
pub use vramscope_trace as trace;
