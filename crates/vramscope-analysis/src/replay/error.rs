//! Why a recording is not replayed.

use thiserror::Error;
use vramscope_engine::DeviceError;

/// The most pools and streams, taken together, that a replay follows: programs have some dozen, and the time
/// of a new peak grows with them.
pub(super) const MOST_ARENAS: usize = 256;

/// Why a recording is not replayed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The settings ask for what no device does.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// There are too many pools and streams.
    #[error("it names {0} combinations of pool and stream, and a replay follows at most {MOST_ARENAS}")]
    TooManyArenas(usize),
    /// Whoever asked no longer wants the answer, see [`Cancel`](crate::Cancel).
    #[error("the replay was cancelled")]
    Cancelled,
}
