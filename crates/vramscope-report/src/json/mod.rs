//! The answers as JSON. Keys are stable, sizes are in bytes, times in microseconds since the Unix epoch. One file per section.

mod allocator_findings;
mod check;
mod collectives;
mod diff;
mod difference;
mod estimates;
mod fragmentation;
mod holders;
mod host_memory;
mod idle;
mod info;
mod leaks;
mod libraries;
mod oom;
mod private_pools;
mod quality;
mod referrers;
mod regions;
mod replay;
mod report;
mod samples;
mod spent;
mod stacks;
mod steps;
#[cfg(test)]
mod typescript;
mod writer;

pub use check::CheckJson;
pub use diff::DiffJson;
pub use difference::DifferenceJson;
pub use holders::HoldersJson;
pub use info::InfoJson;
pub use leaks::LeaksJson;
pub use replay::ReplayJson;
pub use report::ReportJson;
pub use samples::SamplesJson;
pub use spent::SpanJson;
pub use writer::{write_json, write_json_line};
