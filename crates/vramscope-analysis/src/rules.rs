//! Sizes at which PyTorch's caching allocator changes its ways (`c10/core/AllocatorConfig.h`, PyTorch 2.11).

/// Largest request that the small pool serves, and largest rest of a large block that is not split off
/// (`kSmallSize`).
pub(crate) const SMALL_REQUEST: u64 = 1 << 20;

/// Size of a small pool's segment (`kSmallBuffer`).
pub(crate) const SMALL_SEGMENT: u64 = 2 << 20;

/// Default size of a large pool's segment (`large_segment_size`; `kLargeBuffer` before).
pub(crate) const LARGE_SEGMENT: u64 = 20 << 20;
