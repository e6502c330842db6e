//! [`Trace`]: one recording.

use std::ops::Range;
use std::sync::Arc;

use crate::accesses::Accesses;
use crate::annotations::Annotation;
use crate::devices::{DeviceKind, OtherAllocator};
use crate::end_state::{Block, Segment};
use crate::events::{Events, TagsTable};
use crate::process::ProcessEvents;
use crate::release::TorchRelease;
use crate::settings::AllocatorSettings;
use crate::stacks::{FrameTable, StackTable};
use crate::strings::{StringListTable, StringTable};

/// A recording: the history of each device, and the tables that its ids refer to.
///
/// Two traces are equal if their contents are equal. Their ids may differ.
#[derive(Debug, Default, Clone)]
pub struct Trace {
    /// All strings of the recording.
    pub strings: StringTable,
    /// All lists of strings.
    pub string_lists: StringListTable,
    /// All frames.
    pub frames: FrameTable,
    /// All stacks.
    pub stacks: StackTable,
    /// Additional data of events.
    pub tags: TagsTable,
    /// Devices in ascending order. A device is included if the file has a trace for it, even an empty one, or a segment. The last one is
    /// the host (-1) with its pinned memory, if the program used any and it was recorded.
    pub devices: Vec<DeviceTrace>,
    /// The kind of the devices.
    pub kind: DeviceKind,
    /// Whether the recorder also records pinned host memory (mid 2026 and later), used or not.
    pub records_host: bool,
    /// The allocator's settings at the time of the snapshot (February 2024 and later).
    pub settings: Option<AllocatorSettings>,
    /// Regions that the program named, in recorded order (July 2024 and later); `None` if the key is absent.
    pub annotations: Option<Vec<Annotation>>,
    /// Memory of the process beside PyTorch's allocator, in logs of the recorder.
    pub process: Option<ProcessEvents>,
    /// Accesses of allocations, in recordings on a phantom GPU that have them.
    pub accesses: Option<Accesses>,
    /// Whether the recording ends before the recorded program did: its last write is incomplete, or the recorder did not close it.
    pub ends_early: bool,
    /// A trace of `torch.profiler` that a log has, compressed with gzip.
    /// [`Reader::read_operators`](crate::formats::Reader::read_operators) reads it.
    pub operators: Option<Arc<[u8]>>,
}

impl Trace {
    /// Returns the release of PyTorch that made the recording: the oldest release known to write its contents. Snapshots do not record
    /// the release. The keys of the settings are the best evidence. Without settings, events with a pool show a release after 2.11
    /// (#177717).
    pub fn shown_release(&self) -> TorchRelease {
        let names_pools = || self.tags.iter().any(|tags| tags.pool.is_some());
        match self.settings.as_ref().and_then(AllocatorSettings::oldest_release) {
            Some(release) => release,
            None if names_pools() => TorchRelease::WITH_HOST_MEMORY,
            None => TorchRelease::WITH_CONTEXTS,
        }
    }

    /// Returns the allocator that made the recording, if its rules are unknown here.
    pub fn other_allocator(&self) -> Option<OtherAllocator> {
        let settings = self.settings.as_ref()?;
        let backend = settings.recorded.backend.as_deref().or(settings.conf.backend.as_deref());
        backend.and_then(OtherAllocator::of_name)
    }

    /// Returns the name of a device: `device 0`, `XPU 0` or `pinned host memory`, for example.
    pub fn device_name(&self, number: i64) -> String {
        if number < 0 { "pinned host memory".to_owned() } else { self.kind.device(number) }
    }

    /// Adds the host, unless it was not used.
    pub(crate) fn push_host(&mut self, host: DeviceTrace) {
        self.records_host = true;
        if host.was_used() {
            self.devices.push(host);
        }
    }

    /// Approximate memory use of the tables of strings, frames, stacks and tags in bytes, without the devices.
    pub fn memory(&self) -> usize {
        self.strings.memory()
            + self.string_lists.memory()
            + self.frames.memory()
            + self.stacks.memory()
            + self.tags.memory()
            + self.operators.as_ref().map_or(0, |trace| trace.len())
    }
}

/// The history and the end state of one device.
#[derive(Debug, Default, Clone)]
pub struct DeviceTrace {
    /// The device's number; -1 for the host.
    pub device: i64,
    /// Events, oldest first. A ring buffer may have dropped the oldest ones.
    pub events: Events,
    /// Whether the ring buffer dropped events (`trace_alloc_overflowed` in some builds of 2026), or a log was [cut](crate::LogCut).
    pub overflowed: Option<bool>,
    /// Capacity of the ring buffer in events (`trace_alloc_max_entries` in the same builds).
    pub max_entries: Option<u64>,
    /// Size of the device in bytes, as the driver reports it. Only recorders of this project write it (`device_total_bytes`); PyTorch's
    /// snapshots lack it.
    pub total_bytes: Option<u64>,
    /// Highest allocated bytes that the recorder counted by itself, in formats that have its count at each event. If events are missing,
    /// it may be higher than the bytes of all events.
    pub counted_peak: Option<u64>,
    /// Where events are missing because the file is damaged: before the event at `start`, before the one at `end`, and possibly between
    /// them. The number of events is the position after the last event. `None` if no event is missing.
    pub gap: Option<Range<usize>>,
    /// Segments at the time of the snapshot, in address order.
    pub segments: Vec<Segment>,
    /// Blocks of all segments, concatenated.
    pub blocks: Vec<Block>,
    /// Blocks that were active before the first event and that an event frees, in address order. Only a part of a split recording has them
    /// (`start_blocks`); PyTorch's snapshots lack them.
    pub start_blocks: Option<Vec<Block>>,
}

impl DeviceTrace {
    /// Whether this is the host's pinned memory.
    pub fn is_host(&self) -> bool {
        self.device < 0
    }

    /// Whether the recording has anything for the device. Snapshots also list devices that the program never used.
    pub fn was_used(&self) -> bool {
        !self.events.is_empty() || !self.segments.is_empty()
    }

    /// Appends a segment with its blocks.
    pub fn push_segment(&mut self, segment: Segment, blocks: impl IntoIterator<Item = Block>) {
        let first = self.blocks.len();
        self.blocks.extend(blocks);
        self.segments.push(Segment { blocks: first..self.blocks.len(), ..segment });
    }

    /// Returns the blocks that are recorded without an event. The [`start_blocks`](Self::start_blocks) are last.
    pub fn recorded_blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().chain(self.start_blocks.iter().flatten())
    }

    /// Returns the blocks of one segment of this device.
    pub fn blocks_of(&self, segment: &Segment) -> &[Block] {
        &self.blocks[segment.blocks.clone()]
    }
}
