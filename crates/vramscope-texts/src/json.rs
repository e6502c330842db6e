//! The output as JSON.

use serde::Serialize;

use crate::cause::Cause;
use crate::error::{Found, TextError};

/// An error with its cause, as in `vramscope report --json`.
#[derive(Serialize)]
pub struct ErrorJson<'f> {
    #[serde(flatten)]
    error: &'f TextError,
    cause: Cause,
}

/// What a text has, as in `vramscope report --json`.
#[derive(Serialize)]
pub struct FoundJson<'f> {
    lines: u64,
    errors: Vec<ErrorJson<'f>>,
    more_errors: u64,
    followed: u64,
}

impl Found {
    /// The output as JSON.
    #[must_use]
    pub fn json(&self) -> FoundJson<'_> {
        let error = |error| ErrorJson { error, cause: TextError::cause(error) };
        let Self { lines, more_errors, followed, .. } = *self;
        FoundJson { lines, errors: self.errors.iter().map(error).collect(), more_errors, followed }
    }
}
