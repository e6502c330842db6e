//! Errors of starting a tracker.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::thresholds::Threshold;
use crate::monitor::MonitorError;

/// The reason why a tracker did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A threshold could never be crossed, or its alert could never end.
    #[error(
        "invalid threshold: `above` and `until` must be numbers, `until` at most `above`, percentages at most 100: {0:?}"
    )]
    Threshold(Threshold),
    /// A limit is 0, so nothing would be kept.
    #[error("{0} is 0, so none would be kept; set it to 1 or more")]
    NothingKept(&'static str),
    /// The watchdog's percentage is not between 0 and 100, so it would always or never act.
    #[error("the watchdog's percentage must be between 0 and 100: {0}")]
    Watchdog(f64),
    /// The monitor did not start.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// Another tracker writes to the log.
    #[error("{path}: another tracker writes to this file; choose another name", path = path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The log cannot be written.
    #[error("{path}: {why}", path = path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
}
