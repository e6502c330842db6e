#![doc = include_str!("../README.md")]
//!
//! # Modules
//! - `phantom`: runs of a program on phantom GPUs, and the GPUs on which it fits.
//! - `fit`: the search for changes, each measured by such a run.
//! - `control`: what runs tell their caller, and ask it. `error`: why they fail.

// Programs are ended with signals.
#![cfg(unix)]

mod control;
mod error;
mod fit;
mod phantom;

pub use control::{Control, Ends};
pub use error::FitError;
pub use fit::{FitAnswer, FitJson, FitRequest, Vary, fit};
pub use phantom::{
    GpuRequest, GpuSpeed, ListedGpu, Routing, RunAnswer, RunJson, RunRequest, Values, list_text, listed_gpus,
    run,
};
