//! The places of planned blocks.

/// The place of a planned block in its segment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPlace {
    /// First byte of the block in the segment.
    pub offset: u64,
    /// Size of the block.
    pub size: u64,
    /// Size of the segment.
    pub segment: u64,
    /// The stream of the block, if all streams of the plan share the segment.
    pub shared_by: Option<StreamUse>,
}

/// The use of a place in a segment that streams share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamUse {
    /// The stream of the block.
    pub stream: u64,
    /// Whether another stream uses the place next, so that an event is recorded when the block is freed.
    pub is_handed_over: bool,
}

/// Why a block could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPlaced {
    /// Another block uses a part of the place, or another stream used it last and the device cannot wait for that stream now.
    InUse,
    /// The device has no memory or no addresses for it, or the limit would be exceeded.
    NoMemory,
}
