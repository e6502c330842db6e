//! Searches for changes with which a program fits. Every number comes from a run of the changed program on a phantom GPU.
//!
//! `runner` is one run with changes, `change` the changes with their costs and lines, `vary` the search for a number in the program's
//! arguments, `checkpoints` the choice of modules to checkpoint, `search` the search for changes, `together` runs at the same time. The changes are made in
//! the program by `phantom/changes.py`.

mod bisect;
mod change;
mod checkpoints;
mod json;
mod request;
mod runner;
mod search;
mod text;
mod together;
mod vary;

use crate::control::Control;
use crate::error::FitError;

pub use json::Json as FitJson;
pub use request::{FitRequest, Vary};
use runner::Runner;
use search::Found;

/// The result of a search.
pub struct FitAnswer<'a> {
    runner: Runner<'a>,
    found: Found,
}

impl FitAnswer<'_> {
    /// Whether the program fits, with or without changes.
    pub fn fits(&self) -> bool {
        self.found.fits()
    }

    /// Whether it is unknown if the program fits, with or without changes: what the runs showed fits, but they may not show all.
    pub fn is_unknown(&self) -> bool {
        !self.fits() && self.found.may_fit()
    }

    /// The answer as JSON.
    pub fn json(&self) -> FitJson {
        json::json(&self.runner, &self.found)
    }

    /// The answer as text.
    pub fn text(&self) -> String {
        // Writing to a `String` does not fail.
        text::text(&self.runner, &self.found).unwrap_or_default()
    }
}

/// Runs a program unchanged and, if it does not fit, with changes.
///
/// # Errors
/// The request contradicts itself, or the unchanged program fails for another reason than memory.
pub fn fit<'a>(request: &'a FitRequest, control: &'a dyn Control) -> Result<FitAnswer<'a>, FitError> {
    request.check()?;
    vary::check(request)?;
    let runner = Runner::new(request, control)?;
    let found = search::search(&runner)?;
    Ok(FitAnswer { runner, found })
}
