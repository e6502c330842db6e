//! One file for each question: the request, its rules, and the answer.

mod check;
mod diff;
mod holders;
mod leaks;
mod replay;
mod report;
mod state;

pub use check::CheckRequest;
pub use diff::{DiffRequest, difference};
pub use holders::{GroupsAnswer, HoldersRequest};
pub use leaks::LeaksRequest;
pub use replay::ReplayRequest;
pub use report::{ReportAnswer, ReportRequest};
pub use state::{StateAnswer, StateRequest};
