//! Reasons why a recording cannot be replayed.

use thiserror::Error;
use vramscope_engine::DeviceError;

/// Limit on the combinations of pool and stream in a replay. Programs have a few dozen, and the time per new peak grows with
/// them.
pub(super) const MOST_ARENAS: usize = 256;

/// The reason why a recording cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// No device supports the settings.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There are too many combinations of pool and stream.
    #[error("the recording has {0} combinations of pool and stream; a replay supports at most {MOST_ARENAS}")]
    TooManyArenas(usize),
    /// The replay was cancelled; see [`Cancel`](crate::Cancel).
    #[error("the replay was cancelled")]
    Cancelled,
}
