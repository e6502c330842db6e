//! The report of a log of samples.

mod json;
mod sentences;
mod text;

pub use json::SamplesJson;
pub use sentences::device_source;
pub use text::samples_report;
