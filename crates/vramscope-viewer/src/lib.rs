//! The page of `vramscope view`, and the local server behind it.
//!
//! ```text
//!   recording          a loaded file, with analyses      page/     the built page, from viewer/
//!   server/open_file   the answering threads                 |
//!        |                                                  |
//!   questions          the page's queries, by subject     page      served, or self-contained
//!        |                                                  |
//!        +---------------------> server <-------------------+
//! ```
//!
//! # Modules
//! - `columns`: columns of numbers in answers.
//! - `questions`: every question of the page. Each has its own file: the query, the answer, and the computation. Tests write the
//!   page's types from these structs. The server and the engine in a worker use it.
//! - `recording`: a file with everything derived from it; `device`, `tags`, `purposes`: one device. `purposes` has one byte for each
//!   allocation. A short recording includes it. For a long one, the page requests it after its first picture.
//! - `transforms`: the transforms of the call tree, for its nodes and as a condition of a search.
//! - `picture`: the timeline in a window. `search`: allocations that match. `held`: live allocations at a moment, in groups and as a tree.
//! - `allocations`: the table of allocations. `lines`: the memory of source lines. `holes`: free memory between blocks. `pools`: pools and
//!   reserved ranges. `what_if`: other settings, other devices, and changes to the program.
//! - `operators`: the operators and kernels of a trace beside the recording; `lanes` has their rows.
//! - `ranks` (feature `fleet`): the answer about all ranks, from a `Fleet`. The page adds up nothing. The first files of the library are
//!   the ranks' files, read on first use by position, never by path (`JobFiles`).
//! - `server`: routes, the threads of open files, access checks. An open file has threads that share its data; some answer quick
//!   questions, some slow ones. Closing the page's request cancels a question. Closing the file ends its threads and frees its memory.
//!   The command brings the engine of the SQL console (`SqlEngine`).
//! - `page`: self-contained pages. `page/`: the built page, committed.
//! - `about`: facts about a file beyond its contents.
//! - `advice`: the page's names for the actions that a report advises.
//! - `allocation`: all facts about one allocation.
//! - `bits`: sets of numbers, for search results.
//! - `cached`: answers that a device computes once.
//! - `comparison`: compares two open recordings.
//! - `conditions`: the conditions of a search.
//! - `error`: why a query fails.
//! - `events`: events in a range.
//! - `groups`: groups of allocations, for the colors of pictures and for the legend.
//! - `highest`: groups in intervals of two recordings, each at its own peak.
//! - `hues`: colors of groups.
//! - `layout`: segments and blocks at a moment.
//! - `markers`: the markers along a recording, as a list.
//! - `names`: the names of frames, and the stacks of a file.
//! - `notes`: notes of a reader of the page.
//! - `parting`: the first difference between the outlines of two parts of recordings, such as two steps.
//! - `regions_at`: the annotated region in which an allocation was made.
//! - `regions`: the runs of annotated regions.
//! - `report`: the report of a device, as data and in sentences.
//! - `rows`: assigns rows to intervals so that no two drawn intervals overlap.
//! - `spent`: the memory that an interval of the recording allocated, freed and retained.
//! - `tables`: tables of names.
//! - `typescript`: generates the TypeScript types and tables with which the page reads answers.

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
pub use server::sql::{SqlAnswer, SqlColumn, SqlError, SqlFile, SqlTable};
#[cfg(feature = "server")]
pub use server::{JobFiles, LARGEST_UPLOAD, Library, OpenFile, Server, SourceFolders, SqlEngine};

/// Compiles the README's example with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
