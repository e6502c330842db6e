//! The report as text: the verdict first, then the evidence. One file per section.
//!
//! Styles are ANSI codes; the caller removes them for output without colors. A style never carries a meaning that the words lack.

mod allocator_findings;
mod brief;
mod bytes_table;
mod chart;
mod check;
mod churn;
mod collectives;
mod diff;
mod estimates;
mod fragmentation;
mod holders;
mod host_memory;
mod idle;
mod info;
mod leaks;
mod libraries;
mod lines;
mod oom;
mod page;
mod private_pools;
mod referrers;
mod regions;
mod replay;
mod report;
mod rows;
mod samples;
mod spent;
mod steps;

pub use brief::{OomInBrief, oom_in_brief};
pub use check::check;
pub(crate) use check::evidence;
pub use diff::diff;
pub use info::info;
pub use lines::{BAD, BOLD, DIM, GOOD, Lines};
pub use page::TextOptions;
pub use replay::replay;
pub use report::report;
pub use samples::samples_report;
pub use spent::span_report;
