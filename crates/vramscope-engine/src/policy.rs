//! [`Policy`]: the differences between allocators as plain data.

use vramscope_trace::{
    AllocatorSettings, DeviceKind, DeviceTrace, OtherAllocator, PowerOfTwoDivisions, SegmentKind,
    TorchRelease, TorchSettings, Trace,
};

use crate::device::DEVICE_PAGE;

const MIB: u64 = 1 << 20;

/// Size of a large segment, if no setting chooses it (`kLargeBuffer` in PyTorch).
const DEFAULT_LARGE: u64 = 20 * MIB;

/// Unit of rounding in bytes. `ALLOCATION_UNIT_SIZE` in `cupy/cuda/memory.pyx` and `kMinBlockSize` in `c10/core/AllocatorConfig.h` have
/// the same value.
pub const BLOCK_UNIT: u64 = 512;

/// The rules of a caching allocator.
///
/// The engine has one algorithm; a policy sets its sizes and its order of steps. [`Policy::cupy`] and [`Policy::torch`] are plain
/// values of this type. For other rules, change fields of one of them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// The allocator with these rules.
    pub allocator: Allocator,
    /// How the size of a block follows from a request.
    pub rounding: Rounding,
    /// Extra rounding steps for requests, in addition to multiples of [`BLOCK_UNIT`]; see [`Rounding::Units`].
    pub roundup_power2_divisions: PowerOfTwoDivisions,
    /// Largest rounded request, in bytes, that the small pool serves; 0 if there is only one pool.
    pub small_request: u64,
    /// Sizes of segments taken from the device.
    pub segments: SegmentSizes,
    /// Smallest remainder, in bytes, that is split off a block of the small pool or of an expandable segment.
    pub small_remainder: u64,
    /// Smallest remainder, in bytes, that is split off any other block.
    pub large_remainder: u64,
    /// Blocks of at least this many bytes are never split, and only serve requests of at least this size.
    pub max_split_size: Option<u64>,
    /// A request of at least `max_split_size` only takes a cached block smaller than the request plus this many bytes.
    pub max_non_split_rounding: u64,
    /// Choice among free blocks of the best size.
    pub search_order: SearchOrder,
    /// Whether segments grow by mapping pages into reserved addresses instead of by separate allocations.
    pub expandable_segments: bool,
    /// Fraction of the limit above which unused blocks are released before new memory is taken. It has no effect without a limit.
    pub garbage_collection_threshold: Option<f64>,
    /// Initial limit, as a fraction of the device. A later limit on the pool replaces it.
    pub memory_fraction: Option<f64>,
    /// When the limit is checked.
    pub limit_check: LimitCheck,
    /// Whether callbacks that free memory run before memory is taken from the device, instead of only after a failure.
    pub callbacks_first: bool,
    /// Steps to take, in this order, when the device is out of memory. Each step is followed by another attempt.
    pub reclaims: &'static [Reclaim],
}

/// An allocator whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allocator {
    /// CuPy's `MemoryPool`.
    Cupy,
    /// PyTorch's caching allocator of device memory, of a release. Snapshots are written in the format of this release.
    Torch(TorchRelease),
    /// PyTorch's caching allocator of pinned host memory.
    TorchHost,
    /// An allocator whose rules are unknown here: blocks are as recorded, and nothing can be replayed.
    Other(OtherAllocator),
}

impl Allocator {
    /// Returns the release of PyTorch's allocator of device memory; `None` for any other allocator.
    pub fn release(self) -> Option<TorchRelease> {
        match self {
            Self::Torch(release) => Some(release),
            Self::Cupy | Self::TorchHost | Self::Other(_) => None,
        }
    }
}

impl std::fmt::Display for Allocator {
    /// Writes `CuPy`, or `PyTorch 2.11`, for example.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cupy => f.write_str("CuPy"),
            Self::Torch(release) => write!(f, "PyTorch {release}"),
            Self::TorchHost => f.write_str("PyTorch (pinned host memory)"),
            Self::Other(other) => f.write_str(other.title()),
        }
    }
}

/// How the size of a block follows from a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To a multiple of [`BLOCK_UNIT`], or to a step between powers of two
    /// ([`roundup_power2_divisions`](Policy::roundup_power2_divisions)).
    Units,
    /// As [`Units`](Self::Units), with this many bytes added first (`AddPadSize` in `NPUCachingAllocator.cpp` of torch_npu).
    PaddedUnits(u64),
    /// To a power of two (`CachingHostAllocatorImpl::allocate` in `aten/src/ATen/core/CachingHostAllocator.h`).
    PowersOfTwo,
    /// Not at all: the recorded size is the size of the block.
    None,
}

/// Number of bytes to take from the device for a request that no cached block can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentSizes {
    /// The request, rounded to [`BLOCK_UNIT`] (CuPy).
    Exact,
    /// By size class (`get_allocation_size` in `c10/cuda/CUDACachingAllocator.cpp`).
    Classes {
        /// Segment size for requests of the small pool, and page size of that pool's expandable segments (`kSmallBuffer`).
        small: u64,
        /// Segment size for other requests below `own_from`, and page size of their expandable segments (`large_segment_size`, before
        /// 2.11 `kLargeBuffer`).
        large: u64,
        /// Requests of at least this size get a dedicated segment (`kMinLargeAlloc`).
        own_from: u64,
        /// Dedicated segments are rounded up to a multiple of this (`kRoundLarge`).
        own_unit: u64,
    },
}

/// Choice among the free blocks of the smallest sufficient size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchOrder {
    /// The block at the lowest address (CuPy; PyTorch up to 2.11).
    Address,
    /// The block whose segment is oldest, then the lowest address (PyTorch from mid 2026, #183591).
    SegmentAge,
    /// The block that was freed last (`get_free_block` in `CachingHostAllocator.h`).
    LastFreed,
}

/// When the limit on reserved bytes is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitCheck {
    /// Once before memory is taken from the device: releases memory until the request fits (`_try_malloc` in CuPy). A request larger
    /// than the whole limit fails at once (v14).
    First,
    /// Before each attempt. At the limit the attempt fails as if the device were out of memory (`alloc_block` in PyTorch).
    EachAttempt,
}

/// Step of an allocator when the device is out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// Release cached blocks too large to be split, enough for the request (`release_available_cached_blocks`; only with
    /// `max_split_size`).
    Oversize,
    /// Wait for other streams and release all unsplit cached blocks (`release_cached_blocks`, `free_all_blocks`).
    Cached,
    /// Run the callbacks that free memory (CuPy: `gc.collect()`), then as [`Reclaim::Cached`].
    CallbacksThenCached,
}

/// The pool of blocks that serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Small requests (`small_pool`).
    Small,
    /// All other requests (`large_pool`).
    Large,
}

impl SearchOrder {
    /// Returns the search order of a release of PyTorch.
    fn of(release: TorchRelease) -> Self {
        if release.prefers_oldest_segment() { Self::SegmentAge } else { Self::Address }
    }
}

impl From<Class> for SegmentKind {
    fn from(class: Class) -> Self {
        match class {
            Class::Small => Self::Small,
            Class::Large => Self::Large,
        }
    }
}

/// Value of the `backend` setting for CuPy's rules, for which PyTorch has no name.
const CUPY: &str = "cupy";

/// Bytes that torch_npu adds to each request, except on new devices with a recent toolkit, which a recording does not name.
const NPU_PADDING: u64 = 32;

/// Whether a block of the end state is too small for a padded request.
fn is_without_padding(trace: &Trace) -> bool {
    let mut blocks =
        trace.devices.iter().flat_map(|device| &device.blocks).filter(|block| block.state.is_active());
    blocks.any(|block| block.size < block.requested_size.saturating_add(NPU_PADDING))
}

/// Returns a setting in bytes. Negative values and `i64::MAX` mean no limit.
fn bytes(setting: Option<i64>) -> Option<u64> {
    setting.and_then(|n| u64::try_from(n).ok()).filter(|&n| n < i64::MAX as u64)
}

impl Policy {
    /// CuPy's `MemoryPool` (`cupy/cuda/memory.pyx`, v13 and v14): one pool of blocks, segments of exactly the requested size, blocks
    /// always split, best fit by size, then address.
    pub fn cupy() -> Self {
        Self {
            allocator: Allocator::Cupy,
            rounding: Rounding::Units,
            roundup_power2_divisions: PowerOfTwoDivisions::default(),
            small_request: 0,
            segments: SegmentSizes::Exact,
            small_remainder: BLOCK_UNIT,
            large_remainder: BLOCK_UNIT,
            max_split_size: None,
            max_non_split_rounding: 0,
            search_order: SearchOrder::Address,
            expandable_segments: false,
            garbage_collection_threshold: None,
            memory_fraction: None,
            limit_check: LimitCheck::First,
            callbacks_first: false,
            reclaims: &[Reclaim::Cached, Reclaim::CallbacksThenCached],
        }
    }

    /// PyTorch's CUDA caching allocator of one release, with the settings that a snapshot records or a user gives
    /// (`c10/cuda/CUDACachingAllocator.cpp`).
    pub fn torch(settings: &TorchSettings, release: TorchRelease) -> Self {
        // A setting since 2.11 (#172056), a constant before.
        let large = bytes(settings.large_segment_size).filter(|_| release >= TorchRelease::new(2, 11));
        let large = large.unwrap_or(DEFAULT_LARGE);
        Self {
            allocator: Allocator::Torch(release),
            rounding: Rounding::Units,
            roundup_power2_divisions: settings.roundup_power2_divisions.unwrap_or_default(),
            small_request: MIB,
            segments: SegmentSizes::Classes { small: 2 * MIB, large, own_from: 10 * MIB, own_unit: 2 * MIB },
            small_remainder: BLOCK_UNIT,
            large_remainder: MIB + 1,
            max_split_size: bytes(settings.max_split_size),
            max_non_split_rounding: bytes(settings.max_non_split_rounding).unwrap_or(large),
            search_order: SearchOrder::of(release),
            expandable_segments: settings.expandable_segments.unwrap_or(false),
            garbage_collection_threshold: settings.garbage_collection_threshold.filter(|&x| x > 0.0),
            // A fraction of 1 is no limit (`setMemoryFraction`).
            memory_fraction: settings.per_process_memory_fraction.filter(|&fraction| fraction < 1.0),
            limit_check: LimitCheck::EachAttempt,
            callbacks_first: true,
            reclaims: &[Reclaim::Oversize, Reclaim::Cached],
        }
    }

    /// Returns the policy of a recording: its settings, PyTorch's defaults if it has none, and the release inferred from it
    /// ([`Trace::shown_release`]).
    pub fn recorded(trace: &Trace) -> Self {
        Self::recorded_by(trace, trace.shown_release())
    }

    /// Like [`recorded`](Self::recorded), for a known release.
    pub fn recorded_by(trace: &Trace, release: TorchRelease) -> Self {
        let settings = trace.settings.as_ref().map(AllocatorSettings::in_force).unwrap_or_default();
        if settings.backend.as_deref() == Some(CUPY) {
            return Self::cupy();
        }
        if let Some(other) = trace.other_allocator() {
            return Self::as_recorded(other);
        }
        let rules = Self::torch(&settings, release);
        match trace.kind {
            DeviceKind::Cuda | DeviceKind::Rocm => rules,
            DeviceKind::Xpu => Self { search_order: SearchOrder::Address, ..rules },
            DeviceKind::Npu => Self {
                search_order: SearchOrder::Address,
                rounding: Rounding::PaddedUnits(if is_without_padding(trace) { 0 } else { NPU_PADDING }),
                ..rules
            },
        }
    }

    /// Returns the policy of one device of a recording, for a known release: as [`recorded_by`](Self::recorded_by) for a device, and
    /// [`torch_host`](Self::torch_host) for the host.
    pub fn of_device(trace: &Trace, device: &DeviceTrace, release: TorchRelease) -> Self {
        match trace.other_allocator() {
            None if device.is_host() => Self::torch_host(),
            _ => Self::recorded_by(trace, release),
        }
    }

    /// PyTorch's caching allocator of pinned host memory (`aten/src/ATen/core/CachingHostAllocator.h`): blocks have sizes of powers of two,
    /// each is allocated from the system on its own and never split, and a request takes the block of its size that was freed last.
    pub fn torch_host() -> Self {
        Self {
            allocator: Allocator::TorchHost,
            rounding: Rounding::PowersOfTwo,
            // Snapshots list all of its segments as small.
            small_request: u64::MAX,
            small_remainder: u64::MAX,
            search_order: SearchOrder::LastFreed,
            ..Self::as_recorded(OtherAllocator::Unknown)
        }
    }

    /// An allocator whose rules are unknown: each block has its recorded size and is not split.
    pub fn as_recorded(other: OtherAllocator) -> Self {
        Self {
            allocator: Allocator::Other(other),
            rounding: Rounding::None,
            // Only a block of exactly the size of the request serves it.
            max_split_size: Some(0),
            max_non_split_rounding: 1,
            large_remainder: 0,
            limit_check: LimitCheck::EachAttempt,
            reclaims: &[Reclaim::Cached],
            ..Self::cupy()
        }
    }

    /// Whether the size of a block follows from the request alone, so that the layout does not matter.
    pub fn has_sizes_of_requests(&self) -> bool {
        matches!(self.rounding, Rounding::PowersOfTwo | Rounding::None)
    }

    /// Returns the same settings with the search order of another release. CuPy's policy stays unchanged.
    #[must_use]
    pub fn in_order_of(&self, release: TorchRelease) -> Self {
        let Some(_) = self.release() else { return self.clone() };
        Self { allocator: Allocator::Torch(release), search_order: SearchOrder::of(release), ..self.clone() }
    }

    /// Returns the release of PyTorch, or `None` if the rules are not PyTorch's.
    pub fn release(&self) -> Option<TorchRelease> {
        self.allocator.release()
    }

    /// Returns the policy as settings of a snapshot, which count in whole MiB. They have the keys that the release writes, with
    /// PyTorch's defaults for settings that do not concern a pool. [`Policy::torch`] turns them back into the same policy for the same
    /// release. CuPy's policy is `backend:cupy`, because PyTorch has no name for it.
    pub fn settings(&self) -> AllocatorSettings {
        let large = match self.segments {
            SegmentSizes::Exact => None,
            SegmentSizes::Classes { large, .. } => Some(large),
        };
        let int = u64::cast_signed;
        let divisions = self.roundup_power2_divisions;
        let conf = TorchSettings {
            backend: (self.allocator == Allocator::Cupy).then(|| CUPY.to_owned()),
            large_segment_size: large.filter(|&large| large != DEFAULT_LARGE).map(int),
            max_non_split_rounding: large
                .map(|_| self.max_non_split_rounding)
                .filter(|&rounding| Some(rounding) != large)
                .map(int),
            max_split_size: self.max_split_size.map(int),
            garbage_collection_threshold: self.garbage_collection_threshold,
            per_process_memory_fraction: self.memory_fraction,
            expandable_segments: self.expandable_segments.then_some(true),
            roundup_power2_divisions: Some(divisions).filter(|&divisions| divisions != Default::default()),
            ..TorchSettings::default()
        };
        let recorded = TorchSettings {
            max_split_size: Some(self.max_split_size.map_or(-1, int)),
            garbage_collection_threshold: Some(self.garbage_collection_threshold.unwrap_or(0.0)),
            expandable_segments: Some(self.expandable_segments),
            roundup_power2_divisions: Some(divisions),
            ..TorchSettings::defaults_of(self.release())
        };
        let text = conf.to_conf();
        AllocatorSettings {
            conf: TorchSettings::parse(&text).unwrap_or_default(),
            conf_text: Some(text),
            recorded,
        }
    }

    /// Returns the bytes of the block for a request of `size` bytes, before splitting (`_round_size`, `round_size`). At least one byte:
    /// requests of zero bytes never reach the engine.
    #[inline]
    pub fn round_size(&self, size: u64) -> u64 {
        match self.rounding {
            Rounding::Units => self.roundup_power2_divisions.round_size(size),
            Rounding::PaddedUnits(bytes) => {
                self.roundup_power2_divisions.round_size(size.saturating_add(bytes))
            }
            Rounding::PowersOfTwo => size.checked_next_power_of_two().unwrap_or(u64::MAX - 511),
            Rounding::None => size.max(1),
        }
    }

    /// Returns the pool of blocks that serves a request of `rounded` bytes, as a snapshot names it.
    pub fn kind(&self, rounded: u64) -> SegmentKind {
        self.class(rounded).into()
    }

    /// Returns the pool of blocks for which a segment of `size` bytes was taken.
    pub fn kind_of_segment(&self, size: u64) -> SegmentKind {
        match self.segments {
            SegmentSizes::Classes { small, .. } if small == size => SegmentKind::Small,
            SegmentSizes::Exact if self.small_request == u64::MAX => SegmentKind::Small,
            _ => SegmentKind::Large,
        }
    }

    /// Whether any remainder of at least [`BLOCK_UNIT`] bytes is split off the block for a request of `rounded` bytes.
    pub fn always_splits(&self, rounded: u64) -> bool {
        self.splits(rounded, BLOCK_UNIT)
    }

    /// Whether `remaining` bytes of a free block are split off the block for a request of `rounded` bytes (`should_split`).
    #[inline]
    pub fn splits(&self, rounded: u64, remaining: u64) -> bool {
        self.should_split(self.class(rounded), rounded, remaining)
    }

    /// Returns the pool of blocks that serves a request of `rounded` bytes.
    #[inline]
    pub(crate) fn class(&self, rounded: u64) -> Class {
        if rounded <= self.small_request { Class::Small } else { Class::Large }
    }

    /// Returns the bytes to take from the device for a request of `rounded` bytes.
    pub fn segment_size(&self, rounded: u64) -> u64 {
        match self.segments {
            SegmentSizes::Exact => rounded,
            SegmentSizes::Classes { small, .. } if self.class(rounded) == Class::Small => small,
            // A segment must hold the request; PyTorch rejects a smaller setting.
            SegmentSizes::Classes { large, own_from, .. } if rounded < own_from => large.max(rounded),
            SegmentSizes::Classes { own_unit, .. } => {
                rounded.checked_next_multiple_of(own_unit).unwrap_or(rounded)
            }
        }
    }

    /// Returns these rules for the requests beside a plan: expandable segments have pages of 2 MiB instead of PyTorch's 20 MiB, as the
    /// segments of the plan. So free memory of the one is released in the units that the other needs. A page size that the settings
    /// chose stays.
    #[must_use]
    pub fn beside_plan(mut self) -> Self {
        if self.expandable_segments
            && let SegmentSizes::Classes { large, .. } = &mut self.segments
            && *large == DEFAULT_LARGE
        {
            *large = DEVICE_PAGE;
        }
        self
    }

    /// Returns the bytes that the device must have for a request of `rounded` bytes: a segment, or the pages of an expandable one.
    #[must_use]
    pub fn device_bytes(&self, rounded: u64) -> u64 {
        if !self.expandable_segments {
            return self.segment_size(rounded);
        }
        let page = self.page_size(self.class(rounded));
        rounded.checked_next_multiple_of(page).unwrap_or(rounded)
    }

    /// Page size of an expandable segment in bytes.
    pub(crate) fn page_size(&self, class: Class) -> u64 {
        match self.segments {
            SegmentSizes::Exact => BLOCK_UNIT,
            SegmentSizes::Classes { small, .. } if class == Class::Small => small,
            SegmentSizes::Classes { large, .. } => large.max(BLOCK_UNIT),
        }
    }

    /// Whether `remaining` bytes are split off the block for a request of `rounded` bytes (`should_split`).
    #[inline]
    pub(crate) fn should_split(&self, class: Class, rounded: u64, remaining: u64) -> bool {
        if class == Class::Small || self.expandable_segments {
            return remaining >= self.small_remainder;
        }
        self.max_split_size.is_none_or(|max| rounded < max) && remaining >= self.large_remainder
    }

    /// Whether a free block of `size` bytes, which is large enough, may serve a request of `rounded` bytes (the end of
    /// `get_free_block`).
    #[inline]
    pub fn may_serve(&self, rounded: u64, size: u64) -> bool {
        match self.max_split_size {
            None => true,
            Some(max) if rounded < max => size < max,
            Some(_) => size < rounded.saturating_add(self.max_non_split_rounding),
        }
    }
}

#[cfg(test)]
mod tests;
