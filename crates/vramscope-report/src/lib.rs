//! Formats answers about GPU memory, one file per format. A report computes nothing; all answers come from
//! [`vramscope_analysis`].
//!
//! # Modules
//! - `text`, `json`, `junit`: one folder or file for each form, and in it one file for each section.
//! - `names`, `changes`, `findings`, `estimates`, `doubts`, `trust`, `verdicts`: sentences that all forms and the page share.
//! - `allocator_findings`: sentences about known problems of programs with a caching allocator.
//! - `private_pools`: sentences about private pools and serving programs.
//! - `shown`: the only module that makes a `Shown`, a foreign text that is safe to print. `Names` returns nothing else.
//! - `advice`: how to record better, with the options of the recording program, and how to ask for more, with those of the program that
//!   shows the report.

mod advice;
mod allocator_findings;
mod answers;
mod causes;
pub mod changes;
mod doubts;
pub mod estimates;
pub mod findings;
mod fit;
mod json;
mod junit;
mod names;
mod private_pools;
mod purposes;
mod samples;
mod shown;
pub mod spent;
mod spreadsheet;
mod text;
mod trust;
mod verdicts;

pub use advice::Advice;
pub use allocator_findings::FindingText;
pub use answers::{Answers, CheckAnswers, Compared, DiffAnswers, ReplayAnswers, SampleAnswers, SpanAnswers};
pub use doubts::not_followed;
pub use fit::{fit, fit_end};
pub use json::{
    CheckJson, DiffJson, DifferenceJson, HoldersJson, InfoJson, LeaksJson, ReplayJson, ReportJson,
    SamplesJson, SpanJson, write_json, write_json_line,
};
pub use junit::{harmless_xml, junit};
pub use names::Names;
pub use private_pools::{graph_captures, private_pool, serving_parts};
pub use purposes::because;
pub use samples::device_source;
pub use shown::{LONGEST_SHOWN, Shown};
pub use spreadsheet::harmless_cell;
pub use text::{
    BAD, BOLD, DIM, GOOD, Lines, OomInBrief, TextOptions, check, diff, info, oom_in_brief, replay, report,
    samples_report, span_report,
};
pub use trust::{ReplayTrust, Trust};
pub use vramscope_basics::units::{bytes, count, counted, share, signed_bytes};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
