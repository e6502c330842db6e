//! The page of `vramscope view`, and the local server behind it.
//!
//! ```text
//!   recording.rs   an opened file, made ready          page/      the built page, from viewer/
//!   open_file.rs   the threads that answer                 |
//!        |                                                |
//!   answers.rs     answers to the page's questions     page.rs    served, or with the data inside
//!        |                                                |
//!        +------------------> server.rs <-----------------+       guard.rs   who may ask
//! ```

mod advice;
mod answers;
mod columns;
mod comparison;
mod device;
mod error;
mod guard;
mod library;
mod names;
mod open_file;
mod packed;
mod page;
mod picture;
mod protocol;
mod purposes;
mod recording;
mod search;
mod server;
mod tables;
mod tags;
#[cfg(test)]
mod typescript;
mod upload;

pub use error::ViewError;
pub use library::Library;
pub use open_file::OpenFile;
pub use page::self_contained;
pub use server::Server;
pub use upload::LARGEST_UPLOAD;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
