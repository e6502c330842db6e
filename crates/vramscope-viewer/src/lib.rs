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

mod about;
mod advice;
mod allocations;
mod answers;
mod bits;
mod columns;
mod comparison;
mod conditions;
mod device;
mod error;
mod groups;
mod held;
mod highest;
mod holes;
mod hues;
#[cfg(feature = "server")]
mod markers;
mod names;
#[cfg(feature = "server")]
mod page;
mod picture;
mod pools;
mod protocol;
mod purposes;
mod questions;
#[cfg(feature = "fleet")]
mod ranks;
mod recording;
mod regions_at;
mod rows;
mod search;
#[cfg(feature = "server")]
mod server;
mod spent;
mod tables;
mod tags;
#[cfg(test)]
mod typescript;
mod what_if;

pub use about::About;
pub use columns::Answer;
pub use error::ViewError;
#[cfg(feature = "server")]
pub use page::self_contained;
pub use protocol::Note;
pub use questions::{Pace, Question};
#[cfg(feature = "fleet")]
pub use ranks::ranks_answer;
pub use recording::OpenRecording;
#[cfg(feature = "server")]
pub use server::{JobFiles, LARGEST_UPLOAD, Library, OpenFile, Server};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
