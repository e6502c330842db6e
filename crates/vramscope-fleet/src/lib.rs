//! Recordings of all ranks of a job, as one answer: which ranks are different, and why.
//!
//! ```text
//!   paths --> ranks --> summaries --> Fleet --> text, JSON, JUnit
//!           naming     summarize     pure
//! ```

mod naming;
mod summarize;
mod summary;

pub use naming::{Candidate, NoRank, Rank, Ranks, ranks};
pub use summarize::summarize;
pub use summary::{
    CELLS, Course, Held, Holders, Leak, Oom, Over, PeakAt, Program, RankSummary, StepsTold, Unused, VERSION,
};
