//! The queries of the page and the answers to them, as plain data.
//!
//! The page's types are generated from these structs, including the comments (`viewer/src/source/generated/view.ts`). To add a
//! field, add it here only.
//!
//! Events are numbered from 0. A moment is a position between events: moment 0 is before the first event, moment n is after
//! event n - 1, so there is one more moment than there are events. Times of a device are microseconds after its first event.
//! Columns contain [`NONE`] for missing values.

mod allocations;
mod comparison;
mod contents;
mod findings;
mod groups;
mod held;
mod holes;
mod notes;
mod operators;
#[cfg(feature = "fleet")]
mod ranks;
mod recording;
mod search;
mod source;
mod spent;
#[cfg(feature = "server")]
mod sql;
mod timeline;
mod transforms;

pub(crate) use allocations::*;
pub(crate) use comparison::*;
pub(crate) use contents::*;
pub(crate) use findings::*;
pub(crate) use groups::*;
pub(crate) use held::*;
pub(crate) use holes::*;
pub use notes::*;
pub(crate) use operators::*;
#[cfg(feature = "fleet")]
pub(crate) use ranks::*;
pub(crate) use recording::*;
pub(crate) use search::*;
pub(crate) use source::*;
pub(crate) use spent::*;
#[cfg(feature = "server")]
pub use sql::*;
pub(crate) use timeline::*;
pub(crate) use transforms::*;

/// Marks a missing value in columns of numbers.
pub(crate) const NONE: u32 = u32::MAX;
