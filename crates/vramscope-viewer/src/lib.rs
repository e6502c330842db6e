//! The page of `vramscope view`, and the local server behind it.
//!
//! ```text
//!   recording.rs   a loaded file, with analyses        page/      the built page, from viewer/
//!   open_file.rs   the answering threads                   |
//!        |                                                |
//!   answers.rs     answers to the page's queries       page.rs    served, or self-contained
//!        |                                                |
//!        +------------------> server.rs <-----------------+       guard.rs   access control
//! ```
//!
//! # Modules
//! - `columns`: columns of numbers in answers.
//! - `questions`: every question of the page. Each has its own file: the query, the answer, and the computation. Tests write the
//!   page's types from these structs. The server and the engine in a worker use it.
//! - `recording`: a file with everything derived from it; `device`, `tags`, `purposes`: one device. `purposes` has one byte for each
//!   allocation. A short recording includes it. For a long one, the page requests it after its first picture.
//! - `transforms`: the transforms of the call tree, for its nodes and as a condition of a search.
//! - `answers`, `picture`, `search`, `held`, `allocations`, `lines`, `holes`, `pools`, `what_if`: answers by subject.
//! - `operators`: the operators and kernels of a trace beside the recording; `lanes` has their rows.
//! - `ranks` (feature `fleet`): the answer about all ranks, from a `Fleet`. The page adds up nothing. The first files of the library are
//!   the ranks' files, read on first use by position, never by path (`JobFiles`).
//! - `server`: routes, the threads of open files, access checks. An open file has threads that share its data; some answer quick
//!   questions, some slow ones. Closing the page's request cancels a question. Closing the file ends its threads and frees its memory.
//!   The command brings the engine of the SQL console (`SqlEngine`).
//! - `page`, `letters`: self-contained pages. `page/`: the built page, committed.

mod about;
mod advice;
mod allocation;
mod allocations;
mod bits;
mod cached;
mod columns;
mod comparison;
mod conditions;
mod device;
mod error;
mod events;
mod groups;
mod held;
mod highest;
mod holes;
mod hues;
mod lanes;
mod layout;
mod lines;
mod markers;
mod names;
mod notes;
mod operators;
#[cfg(feature = "server")]
mod page;
mod parting;
mod picture;
mod pools;
mod purposes;
mod questions;
#[cfg(feature = "fleet")]
mod ranks;
mod recording;
mod regions;
mod regions_at;
mod report;
mod rows;
mod search;
#[cfg(feature = "server")]
mod server;
mod spent;
mod tables;
mod tags;
mod transforms;
#[cfg(all(test, feature = "fleet"))]
mod typescript;
mod what_if;

pub use about::About;
pub use columns::Answer;
pub use error::ViewError;
pub use notes::Note;
pub use operators::{operators_fit, own_operators};
#[cfg(feature = "server")]
pub use page::{PageFile, self_contained};
pub use questions::{Pace, Question};
#[cfg(feature = "fleet")]
pub use ranks::ranks_answer;
pub use recording::OpenRecording;
#[cfg(feature = "server")]
pub use server::sql::SqlAnswer;
pub use server::sql::SqlColumn;
pub use server::sql::SqlError;
pub use server::sql::SqlFile;
pub use server::sql::SqlTable;
#[cfg(feature = "server")]
pub use server::{JobFiles, LARGEST_UPLOAD, Library, OpenFile, Server, SourceFolders, SqlEngine};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
