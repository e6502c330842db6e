//! Combines the recordings of all ranks of a job: which ranks differ, and why.
//!
//! ```text
//!   paths --> files --> ranks --> summaries --> Fleet --> text, JSON, JUnit
//!      listing   naming     work, cache    pure
//! ```
//!
//! # Modules
//! - `listing`: paths to files. `naming`: files to ranks, with one rule for all names. Ranks recorded beside the files (`bundle`) take
//!   precedence over names. `**` in a pattern follows no links to folders.
//! - `work`: several recordings at once, largest first. A recording is in memory only while it is summarized.
//! - `summary`: a few kilobytes of plain data with a version; the whole output is computed from summaries. `summarize` defines no rules: it
//!   uses the analysis. Summaries contain no sentences; the functions of the report make them for the output.
//! - `cache`: summaries in the user's cache folder, by version of the recording. Nothing is written beside recordings, and files that
//!   another user owns or can write to are not read.
//! - `fleet`: a pure function of the rows. `kinds` takes ranks in the order of their peaks and adds each to the kind whose first rank is
//!   most similar. The result does not depend on the order of files.
//! - `sentences`: the main findings as sentences, for text and page. `place`: on this machine, or in a store.
//! - `answers`: the input of the output formats.
//! - `budgets`: budgets of a fleet and their verdicts.
//! - `json`: JSON of `vramscope fleet --json`.
//! - `junit`: verdicts on a fleet's budgets as JUnit XML.
//! - `numbers`: formats lists of ranks.
//! - `pattern`: finds the paths that match a shell pattern, such as `runs/**/rank*.pickle`.
//! - `rows`: one row per rank, even if its recording could not be read.
//! - `text`: the text of a fleet.

mod answers;
mod budgets;
mod bundle;
mod cache;
mod fleet;
mod json;
mod junit;
mod listing;
mod naming;
mod numbers;
mod pattern;
mod place;
mod rows;
mod sentences;
mod summarize;
mod summary;
mod text;
mod work;

pub use answers::FleetAnswers;
pub use budgets::{Budgets, Status, Verdict};
pub use fleet::{
    Card, Differs, Fleet, GroupPeaks, Imbalance, Imbalances, Kind, LeakOfFleet, Mixed, OomOfRank, PeakOfRank,
    ProgramOf, Relation, Spread, UnreadRank, UnusedOfFleet, UnusedOfRank, Variety,
};
pub use json::FleetJson;
pub use junit::fleet_junit;
pub use listing::{Listing, NoFiles, is_called_recording, list};
pub use naming::{Candidate, NoRank, Rank, Ranks, ranks};
pub use place::{RecordingPlace, Store, Stored, read};
pub use rows::RankRow;
pub use sentences::{Different, Sentence, different, kinds_of_ranks, sentences};
pub use summarize::summarize;
pub use summary::{
    CELLS, Course, DeviceUsed, Held, Holders, Leak, Oom, Over, PeakAt, Program, RankSummary, StepsTold,
    Unused, VERSION,
};
pub use text::fleet_text;
pub use work::{RankFile, WorkOptions, summaries};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
