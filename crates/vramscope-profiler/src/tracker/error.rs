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
    /// A threshold that can never be crossed, or never be over.
    #[error(
        "a threshold's marks must be numbers, `until` not above `above`, and percentages at most 100: {0:?}"
    )]
    Threshold(Threshold),
    /// A bound of nothing.
    #[error("{0} is 0, so that none would be kept; name 1 or more")]
    NothingKept(&'static str),
    /// A watchdog that would never or always clean up.
    #[error("a watchdog's mark must be a percentage: {0}")]
    Watchdog(f64),
    /// The monitor's.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The log could not be written.
    #[error("{path}: {why}", path = path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}
