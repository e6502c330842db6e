//! One recording, whole.

use crate::annotations::Annotation;
use crate::end_state::{Block, Segment};
use crate::events::{Events, TagsTable};
use crate::release::TorchRelease;
use crate::settings::AllocatorSettings;
use crate::stacks::{FrameTable, StackTable};
use crate::strings::{StringListTable, StringTable};

/// A recording: what happened on each device, and the tables its ids refer to.
///
/// Two traces are equal where they say the same, whatever numbers their ids have.
#[derive(Debug, Default, Clone)]
pub struct Trace {
    /// Every string of the recording.
    pub strings: StringTable,
    /// Lists of strings.
    pub string_lists: StringListTable,
    /// Every frame.
    pub frames: FrameTable,
    /// Every stack.
    pub stacks: StackTable,
    /// What events carry beside numbers and stack.
    pub tags: TagsTable,
    /// Devices in order of their number. A device is here where the file has a trace for it, even an empty
    /// one, or a segment.
    pub devices: Vec<DeviceTrace>,
    /// Pinned host memory, where it was recorded (mid 2026 and later).
    pub host: Option<DeviceTrace>,
    /// The allocator's settings when the snapshot was taken (February 2024 and later).
    pub settings: Option<AllocatorSettings>,
    /// Regions the program named, in recorded order (July 2024 and later; `None` where the key is absent).
    pub annotations: Option<Vec<Annotation>>,
}

impl Trace {
    /// The release of PyTorch that made the recording, as far as its rules can be told from what is in it: the oldest
    /// that was seen to write it. Snapshots do not name it. The keys of the settings tell most. Where there are none,
    /// events with a pool came after 2.11 (#177717).
    pub fn shown_release(&self) -> TorchRelease {
        let names_pools = || self.tags.iter().any(|tags| tags.pool.is_some());
        match self.settings.as_ref().and_then(AllocatorSettings::oldest_release) {
            Some(release) => release,
            None if names_pools() => TorchRelease::WITH_HOST_MEMORY,
            None => TorchRelease::WITH_CONTEXTS,
        }
    }

    /// About how many bytes of memory its tables take: those of strings, frames, stacks and tags, and not those of devices.
    pub fn memory(&self) -> usize {
        self.strings.memory()
            + self.string_lists.memory()
            + self.frames.memory()
            + self.stacks.memory()
            + self.tags.memory()
    }
}

/// What happened on one device, and how it ended.
#[derive(Debug, Default, Clone)]
pub struct DeviceTrace {
    /// The device's number; -1 for the host.
    pub device: i64,
    /// Events, oldest first. A ring buffer may have dropped the oldest.
    pub events: Events,
    /// The ring buffer dropped events (`trace_alloc_overflowed` of some builds of 2026).
    pub overflowed: Option<bool>,
    /// How many events the ring buffer holds (`trace_alloc_max_entries` of the same builds).
    pub max_entries: Option<u64>,
    /// Bytes of memory that the device has, as the driver says (`device_total_bytes`, which this project's recorders write; PyTorch's
    /// own snapshots lack it).
    pub total_bytes: Option<u64>,
    /// Segments when the snapshot was taken, in address order.
    pub segments: Vec<Segment>,
    /// Their blocks, end to end.
    pub blocks: Vec<Block>,
}

impl DeviceTrace {
    /// Whether anything was recorded of the device: snapshots list devices that the program never touched, too.
    pub fn was_used(&self) -> bool {
        !self.events.is_empty() || !self.segments.is_empty()
    }

    /// Adds a segment and its blocks at the end.
    pub fn push_segment(&mut self, segment: Segment, blocks: impl IntoIterator<Item = Block>) {
        let first = self.blocks.len();
        self.blocks.extend(blocks);
        self.segments.push(Segment { blocks: first..self.blocks.len(), ..segment });
    }

    /// The blocks of one segment of this device.
    pub fn blocks_of(&self, segment: &Segment) -> &[Block] {
        &self.blocks[segment.blocks.clone()]
    }
}
