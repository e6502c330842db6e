//! The page of `vramscope view`, and the local server behind it.
//!
//! ```text
//!   OpenRecording      an open file, with analyses (vramscope-session)      page/    the built page, from viewer/
//!        |                                                                     |
//!   server/open_file   the answering threads                                 page     served, or self-contained
//!        |                                                                     |
//!        +-------------------------------> server <----------------------------+
//! ```
//!
//! The page's questions are those of [`vramscope_session::Question`]. The engine in a web worker answers the same ones.
//!
//! # Modules
//! - `server`: routes, the threads of open files, access checks. An open file has threads that share its data; some answer quick
//!   questions, some slow ones. Closing the page's request cancels a question. Closing the file ends its threads and frees its memory.
//!   The command brings the engine of the SQL console (`SqlEngine`).
//! - `page`: self-contained pages. `page/`: the built page, committed.
//! - `ranks` (feature `fleet`): the answer about all ranks, from a `Fleet`. The page adds up nothing. The first files of the library are
//!   the ranks' files, read on first use by position, never by path (`JobFiles`).
//! - `notes`: notes of a reader of the page.
//! - `error`: why a query fails.
//! - `typescript`: generates the TypeScript types of what the server answers beside questions.

mod error;
mod notes;
mod page;
#[cfg(feature = "fleet")]
mod ranks;
mod server;
#[cfg(all(test, feature = "fleet"))]
mod typescript;

pub use error::ViewError;
pub use notes::Note;
pub use page::{PageFile, self_contained};
#[cfg(feature = "fleet")]
pub use ranks::ranks_answer;
pub use server::sql::{SqlAnswer, SqlColumn, SqlError, SqlFile, SqlTable};
pub use server::{JobFiles, LARGEST_UPLOAD, Library, OpenFile, Server, SourceFolders, SqlEngine};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
