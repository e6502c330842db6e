//! An open recording, and the questions that can be asked about it.
//!
//! The command, the MCP server, the Python package and the page ask here for reports, replays, comparisons and checks. Each parses a
//! request, and renders the answer. A [`Session`] owns
//! a recording and what is derived from it. A request is plain data, one type for each question. The same type is the options of the command
//! (feature `command`), the arguments of a tool (feature `schema`), and a query of the page.
//!
//! ```
//! use vramscope_analysis::Cancel;
//! use vramscope_session::{ADVICE, ReportRequest, Session};
//! use vramscope_trace::formats;
//!
//! let snapshot = br#"{"segments": [], "device_traces": [[
//!     {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": []}]]}"#;
//! let recording = formats::read(&snapshot[..])?;
//! let session = Session::new("run.json".to_owned(), recording, ADVICE);
//!
//! let request = ReportRequest { top: Some(5), ..ReportRequest::default() };
//! let answer = session.report(&request, &Cancel::default())?;
//! println!("{}", serde_json::to_string(&answer.json())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//! - `session`: the open recording: its devices, frames and histories.
//! - `requests`: one file for each question: the request, its rules, and the answer.
//! - `questions`: the questions of the page, one file for each. Their answers are binary for the page, and JSON for others.
//! - `values`: sizes, groupings, GPUs and other values of requests, parsed from text.
//! - `error`: why a request fails.
//! - `typescript`: generates the TypeScript types and tables with which the page reads answers.

mod error;
mod questions;
mod requests;
mod session;
#[cfg(test)]
mod typescript;
pub mod values;

pub use error::SessionError;
pub use questions::{
    About, Answer, OpenRecording, PAGE_ADVICE, Pace, Question, columns, operators_fit, own_operators,
};
pub use requests::{
    CheckRequest, DiffRequest, GroupsAnswer, HoldersRequest, LeaksRequest, ReplayRequest, ReportAnswer,
    ReportRequest, StateAnswer, StateRequest, difference,
};
pub use session::Session;
use vramscope_report::Advice;

/// The names of options for Rust programs that ask a session: fields of requests.
pub const ADVICE: Advice = Advice {
    any_moment: "`ReportRequest::at`",
    replay: "`Session::replay`",
    capacity: "`ReplayRequest::capacity` or `gpu`",
    capacity_alone: "`ReplayRequest::capacity`",
    overhead: "`ReplayRequest::overhead`",
    release: "`ReplayRequest::torch`",
    device: "the field `device`",
    no_oom: "`CheckRequest::no_oom`",
    option_prefix: "",
};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
