//! Where a replay leaves the recording.

use vramscope_trace::{Action, BlockState};

/// An allocation, or a segment taken or given back, as it was recorded or replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEvent {
    /// What happened: a segment event, or [`Action::Alloc`].
    pub action: Action,
    /// Address of its first byte on the device.
    pub address: u64,
    /// Bytes: of the segment or range; of an allocation, as asked for.
    pub size: u64,
}

/// The first place where a replay did something else than was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// The replay did something else than was recorded at an event.
    Event {
        /// The number of the event, from 0.
        event: usize,
        /// What was recorded there; `None` for nothing.
        recorded: Option<MemoryEvent>,
        /// What the replay did there; `None` for nothing.
        replayed: Option<MemoryEvent>,
    },
    /// Every event was followed, and the layout at the end is another.
    EndState {
        /// The recorded block; `None` for none.
        recorded: Option<EndBlock>,
        /// The block of the replay; `None` for none.
        replayed: Option<EndBlock>,
    },
}

/// A block of the layout at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndBlock {
    /// Address of the first byte of its segment.
    pub segment: u64,
    /// Address of its first byte.
    pub address: u64,
    /// How many bytes it has.
    pub size: u64,
    /// Whether it is allocated, waits for another stream, or is free.
    pub state: BlockState,
}
