//! Reasons why a recording cannot be replayed.

use thiserror::Error;
use vramscope_engine::DeviceError;
use vramscope_trace::OtherAllocator;

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
    /// The recording comes from an allocator whose rules are unknown here.
    #[error(
        "the recording comes from {}, whose rules are unknown here; recordings of PyTorch's caching allocators and of CuPy's pools can be replayed",
        .0.title()
    )]
    UnknownRules(OtherAllocator),
    /// The program set `pinned_max_round_threshold_mb` or `pinned_max_cached_size_mb`.
    #[error(
        "pinned host memory under `pinned_max_round_threshold_mb` or `pinned_max_cached_size_mb` cannot be replayed: the order in which blocks above the limit are reused is unknown"
    )]
    HostLimits,
    /// The replay was cancelled; see [`Cancel`](crate::Cancel).
    #[error("the replay was cancelled")]
    Cancelled,
}
