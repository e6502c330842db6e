//! Differences between a replay and the recording.

use vramscope_trace::{Action, BlockState};

/// An allocation, or a segment allocated or released, as it was recorded or replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEvent {
    /// The action: a segment event or [`Action::Alloc`].
    pub action: Action,
    /// Device address of the first byte.
    pub address: u64,
    /// Bytes of the segment or range; for an allocation, the requested bytes.
    pub size: u64,
}

/// The first difference between a replay and the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayDifference {
    /// The replay did something different from the recording at an event.
    Event {
        /// The event index, from 0.
        event: usize,
        /// The recorded action; `None` for nothing.
        recorded: Option<MemoryEvent>,
        /// The replayed action; `None` for nothing.
        replayed: Option<MemoryEvent>,
    },
    /// All events were reproduced, but the layout at the end differs.
    EndState {
        /// The recorded block; `None` for none.
        recorded: Option<EndBlock>,
        /// The replayed block; `None` for none.
        replayed: Option<EndBlock>,
    },
}

/// A block of the layout at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndBlock {
    /// Start address of its segment.
    pub segment: u64,
    /// Device address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the block is allocated, waits for another stream, or is free.
    pub state: BlockState,
}
