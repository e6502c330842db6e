//! Combines the recordings of all ranks of a job: which ranks differ, and why.
//!
//! ```text
//!   paths --> files --> ranks --> summaries --> Fleet --> text, JSON, JUnit
//!      listing   naming     work, cache    pure
//! ```

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
mod summarize;
mod summary;
mod text;
mod told;
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
pub use place::{Place, Store, Stored, read};
pub use rows::RankRow;
pub use summarize::summarize;
pub use summary::{
    CELLS, Course, Held, Holders, Leak, Oom, Over, PeakAt, Program, RankSummary, StepsTold, Unused, VERSION,
};
pub use text::fleet_text;
pub use told::{Different, Told, different, kinds_of_ranks, told};
pub use work::{RankFile, WorkOptions, summaries};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
