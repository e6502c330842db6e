//! Why a tracker does not start.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::thresholds::Threshold;
use crate::monitor::MonitorError;

/// Why a tracker did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A threshold could never be crossed, or its alert could never be over.
    #[error(
        "a threshold's marks must be numbers, `until` not above `above`, and percentages at most 100: {0:?}"
    )]
    Threshold(Threshold),
    /// A bound is 0, so that nothing would be kept.
    #[error("{0} is 0, so that none would be kept; name 1 or more")]
    NothingKept(&'static str),
    /// The watchdog's percentage is not between 0 and 100, so that it would always or never act.
    #[error("a watchdog's mark must be a percentage: {0}")]
    Watchdog(f64),
    /// The monitor did not start.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The log is being written by another tracker.
    #[error("{path}: is being written already; give another name", path = path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The log could not be written.
    #[error("{path}: {why}", path = path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}
