//! The allocator's events, in columns.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Deserialize, Serialize};

use crate::error::TableFull;
use crate::ids::{StackId, StringId, StringListId, TagsId};
use crate::strings::INDEX_ENTRY;

/// Type of an event, by PyTorch's names (`TraceEntry::Action` in `c10/cuda/CUDACachingAllocator.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// The owner freed a block.
    FreeRequested,
    /// A block became available again: at once, or when the other streams that used it had finished.
    FreeCompleted,
    /// `cudaMalloc`.
    SegmentAlloc,
    /// `cudaFree`.
    SegmentFree,
    /// Physical memory mapped into an expandable segment.
    SegmentMap,
    /// Physical memory unmapped from an expandable segment.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request failed with out of memory.
    Oom,
    /// Text was attached to a live allocation (mid 2026 and later).
    Annotate,
    /// The start or end of a region as an event (only 2.4; later releases use `external_annotations`).
    UserDefined,
    /// `free`: requested and completed at once. Only other tools write it.
    Free,
    /// An action unknown to this version. Its name is in [`Tags::unknown_action`].
    Unknown,
}

impl Action {
    /// All known actions, in the order of their discriminants.
    pub const KNOWN: [Self; 12] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
        Self::Annotate,
        Self::UserDefined,
        Self::Free,
    ];

    /// Returns the action's name in a snapshot; `unknown` for [`Action::Unknown`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
            Self::UserDefined => "user_defined",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }
}

/// Id of a memory pool. `(0, 0)` is the default pool, `(n, 0)` a CUDA graph's private pool, `(0, n)` a `torch.cuda.MemPool`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u64, pub u64);

/// Value of [`Tags::compile_context`] outside a compiled region.
pub const NO_COMPILE_CONTEXT: &str = "N/A";

/// Additional data of an event. It is interned, because consecutive events share it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tags {
    /// The raw `cudaStream_t`; 0 is the default stream.
    pub stream: u64,
    /// The pool (March 2026 and later).
    pub pool: Option<PoolId>,
    /// The `torch.compile` region, or [`NO_COMPILE_CONTEXT`] outside a region (2.10 and later).
    pub compile_context: Option<StringId>,
    /// Text that the program set with `_set_memory_metadata` (October 2025 and later).
    pub user_metadata: Option<StringId>,
    /// A note of the allocator, such as `mallocWithAddress`.
    pub internal_metadata: Option<StringId>,
    /// The profiler's category (`parameter`, `gradient`, ...), in files made from a Kineto profile.
    pub category: Option<StringId>,
    /// The forward pass that anomaly mode recorded for the event.
    pub forward_frames: Option<StringListId>,
    /// Name of an action unknown to this version.
    pub unknown_action: Option<StringId>,
}

/// All distinct [`Tags`].
#[derive(Debug, Default, Clone)]
pub struct TagsTable {
    tags: Vec<Tags>,
    index: HashTable<TagsId>,
    hasher: DefaultHashBuilder,
}

impl TagsTable {
    /// Returns the id of `tags`. Adds them if they are new.
    pub fn intern(&mut self, tags: Tags) -> Result<TagsId, TableFull> {
        let hash = self.hasher.hash_one(tags);
        if let Some(&id) = self.index.find(hash, |&id| self.tags[id.index()] == tags) {
            return Ok(id);
        }
        let id = TagsId::new(self.tags.len())?;
        self.tags.push(tags);
        let Self { tags, index, hasher } = self;
        index.insert_unique(hash, id, |&id| hasher.hash_one(tags[id.index()]));
        Ok(id)
    }

    /// Approximate memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tags.len() * (size_of::<Tags>() + INDEX_ENTRY)
    }

    /// Returns the tags with this id.
    pub fn get(&self, id: TagsId) -> Tags {
        self.tags[id.index()]
    }

    /// Returns all distinct tags, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = Tags> + '_ {
        self.tags.iter().copied()
    }
}

/// One event, as a row of [`Events`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Type of the event.
    pub action: Action,
    /// For [`Action::Oom`], the free bytes that the driver reported; otherwise the device address. [`address`](Self::address) and
    /// [`device_free`](Self::device_free) tell them apart.
    pub address_or_free: u64,
    /// Size in bytes. For `alloc` and the frees: as requested by the caller. For segment events: as taken from the device. For `oom`:
    /// the request after rounding. For `snapshot`: active bytes.
    pub size: u64,
    /// Microseconds since the Unix epoch (October 2023 and later).
    pub time_us: Option<i64>,
    /// Stack, innermost frame first; `None` if no stack was captured.
    pub stack: Option<StackId>,
    /// Stream, pool and texts.
    pub tags: TagsId,
}

impl Event {
    /// Device address; 0 for [`Action::Oom`], which has none.
    #[inline]
    pub fn address(&self) -> u64 {
        if self.action == Action::Oom { 0 } else { self.address_or_free }
    }

    /// For [`Action::Oom`]: the free bytes of the device that the driver reported.
    #[inline]
    pub fn device_free(&self) -> Option<u64> {
        (self.action == Action::Oom).then_some(self.address_or_free)
    }
}

/// Events in columns, oldest first. An event takes 33 bytes.
///
/// All columns have the same length; only this type appends to them.
#[derive(Debug, Default, Clone)]
pub struct Events {
    actions: Vec<Action>,
    addresses_or_free: Vec<u64>,
    sizes: Vec<u64>,
    times: Vec<i64>,
    stacks: Vec<Option<StackId>>,
    tags: Vec<TagsId>,
}

/// Represents a missing time in the column of times.
const NO_TIME: i64 = i64::MIN;

impl Events {
    /// Memory per event, in bytes.
    pub const BYTES_PER_EVENT: usize = size_of::<Action>()
        + 2 * size_of::<u64>()
        + size_of::<i64>()
        + size_of::<Option<StackId>>()
        + size_of::<TagsId>();

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Appends an event.
    pub fn push(&mut self, e: Event) {
        self.actions.push(e.action);
        self.addresses_or_free.push(e.address_or_free);
        self.sizes.push(e.size);
        self.times.push(e.time_us.unwrap_or(NO_TIME));
        self.stacks.push(e.stack);
        self.tags.push(e.tags);
    }

    /// Returns the event at index `i`.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    #[inline]
    pub fn get(&self, i: usize) -> Event {
        Event {
            action: self.actions[i],
            address_or_free: self.addresses_or_free[i],
            size: self.sizes[i],
            time_us: Some(self.times[i]).filter(|&t| t != NO_TIME),
            stack: self.stacks[i],
            tags: self.tags[i],
        }
    }

    /// Replaces the tags of event `i`.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    pub(crate) fn set_tags(&mut self, i: usize, tags: TagsId) {
        self.tags[i] = tags;
    }

    /// Replaces all actions `from`, if there is no action `other`.
    pub(crate) fn rename_without(&mut self, other: Action, from: Action, to: Action) {
        if !self.actions.contains(&other) {
            self.actions.iter_mut().filter(|action| **action == from).for_each(|action| *action = to);
        }
    }

    /// Returns all events, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Returns the column of actions.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the column of sizes in bytes, see [`Event::size`].
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Returns the column of times, see [`Event::time_us`].
    pub fn times(&self) -> impl ExactSizeIterator<Item = Option<i64>> + '_ {
        self.times.iter().map(|&t| Some(t).filter(|&t| t != NO_TIME))
    }

    /// Returns the time of event `i`, or `None` if there is no such event or its time is unknown; see [`Event::time_us`].
    #[inline]
    pub fn time(&self, i: usize) -> Option<i64> {
        self.times.get(i).copied().filter(|&t| t != NO_TIME)
    }

    /// Appends the events `range` of `other`, a recording with the same tables.
    ///
    /// # Panics
    /// If `range` is not within the events of `other`.
    pub fn extend_from(&mut self, other: &Self, range: std::ops::Range<usize>) {
        self.actions.extend_from_slice(&other.actions[range.clone()]);
        self.addresses_or_free.extend_from_slice(&other.addresses_or_free[range.clone()]);
        self.sizes.extend_from_slice(&other.sizes[range.clone()]);
        self.times.extend_from_slice(&other.times[range.clone()]);
        self.stacks.extend_from_slice(&other.stacks[range.clone()]);
        self.tags.extend_from_slice(&other.tags[range]);
    }

    /// Returns the column of stacks, for a reader that gets the stacks at the end.
    pub(crate) fn stacks_mut(&mut self) -> impl Iterator<Item = &mut Option<StackId>> {
        self.stacks.iter_mut()
    }

    /// Releases unused capacity.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.actions.shrink_to_fit();
        self.addresses_or_free.shrink_to_fit();
        self.sizes.shrink_to_fit();
        self.times.shrink_to_fit();
        self.stacks.shrink_to_fit();
        self.tags.shrink_to_fit();
    }
}

impl FromIterator<Event> for Events {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        let mut out = Self::default();
        for e in events {
            out.push(e);
        }
        out
    }
}
