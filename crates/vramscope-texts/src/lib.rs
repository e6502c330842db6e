//! Reads out-of-memory errors from logs, notebooks and pasted texts.
//!
//! # Modules
//! - `lines`: lines without colours, quotes and prefixes, and the rank that wrote each.
//! - `wordings`: a table of the wordings of programs, with the fields of each.
//! - `scan`: finds the errors of a text in one pass.
//! - `error`: an error and its numbers.
//! - `cause`: the cause as far as the numbers show it.
//! - `told`: sentences, and a bar.
//! - `json`: the same as JSON.
//!
//! # Example
//! ```
//! let text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of \
//!             which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.15 GiB memory in use. Of the allocated memory \
//!             77.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.";
//! let found = vramscope_texts::read(text.as_bytes()).unwrap();
//! assert_eq!(found.errors[0].tried, Some(2 << 30));
//! assert_eq!(found.errors[0].cause().name(), "size");
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod cause;
mod error;
mod json;
mod lines;
mod scan;
mod told;
mod wordings;

pub use cause::Cause;
pub use error::{CauseKind, Found, TextError};
pub use json::{ErrorJson, FoundJson};
pub use scan::{MOST_ERRORS, read};
pub use told::told;
