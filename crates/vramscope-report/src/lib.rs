//! Formats answers about GPU memory. A report computes nothing; all answers come from [`vramscope_analysis`].
//!
//! # Modules
//! - `report`: the report of a recording, one file for each section.
//! - `interval`, `samples`, `info`, `check`, `diff`, `replay`: the other answers, each with its JSON, its text and its sentences.
//! - `answers`: the inputs of all of them.
//! - `text`, `json`: the parts that all texts, and all JSON, have in common.
//! - `names`: labels of lines, blocks and pools. `shown`: the only module that makes a `Shown`, a foreign text that is safe to print.
//!   `spreadsheet`: cells that a spreadsheet does not execute. `fit`: texts of limited width.
//! - `advice`: how to record better, with the options of the recording program, and how to ask for more, with those of the program that
//!   shows the report.
//! - `typescript`: the TypeScript types of reports and replays for the page of `vramscope view`.

mod advice;
mod answers;
mod check;
mod diff;
mod fit;
mod info;
pub mod interval;
mod json;
mod names;
mod replay;
mod report;
mod samples;
mod shown;
mod spreadsheet;
mod text;
#[cfg(test)]
mod typescript;

pub use advice::Advice;
pub use answers::{
    Answers, CheckAnswers, Compared, DiffAnswers, IntervalAnswers, ReplayAnswers, SampleAnswers,
};
pub use check::{CheckJson, check, harmless_xml, junit};
pub use diff::{DiffJson, DifferenceJson, changes, diff};
pub use fit::{fit, fit_end};
pub use info::{InfoJson, info};
pub use interval::{IntervalJson, interval_report};
pub use json::{write_json, write_json_line};
pub use names::Names;
pub use replay::{ReplayJson, replay, sentences as replay_sentences};
pub use report::allocator_findings::FindingText;
pub use report::categories::because;
pub use report::holders::HoldersJson;
pub use report::leaks::LeaksJson;
pub use report::limitations::{Confidence, ReplayConfidence, not_followed};
pub use report::out_of_memory::{OomInBrief, oom_in_brief};
pub use report::private_pools::{graph_captures, private_pool, serving_parts};
pub use report::{ReportJson, SectionText, estimates, idle, out_of_memory, report, sections, steps};
pub use samples::{SamplesJson, device_source, samples_report};
pub use shown::{LONGEST_SHOWN, Shown};
pub use spreadsheet::harmless_cell;
pub use text::{BAD, BOLD, DIM, GOOD, Lines, ROWS, TextOptions};
pub use vramscope_basics::units::{bytes, count, counted, share, signed_bytes};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
