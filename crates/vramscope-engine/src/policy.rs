//! What differs between allocators, as plain data.

use vramscope_trace::{
    AllocatorSettings, PowerOfTwoDivisions, SegmentKind, TorchRelease, TorchSettings, Trace,
};

const MIB: u64 = 1 << 20;

/// Unit of rounding: `ALLOCATION_UNIT_SIZE` of `cupy/cuda/memory.pyx` and `kMinBlockSize` of
/// `c10/core/AllocatorConfig.h` are the same.
pub const BLOCK_UNIT: u64 = 512;

/// The rules of a caching allocator.
///
/// The engine has one way of doing everything; a policy says how much and in which order. The two that are
/// known, [`Policy::cupy`] and [`Policy::torch`], are values of this type and no more. Whoever wants other rules changes
/// fields of one of them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// Whose rules these are.
    pub allocator: Allocator,
    /// Steps that a request is rounded up to, beside multiples of [`BLOCK_UNIT`].
    pub roundup_power2_divisions: PowerOfTwoDivisions,
    /// Largest rounded request, in bytes, that the pool of small blocks serves; 0 where there is one pool.
    pub small_request: u64,
    /// How much is taken from the device when no cached block serves.
    pub segments: SegmentSizes,
    /// Smallest remainder, in bytes, that is split off a block of the small pool or an expandable segment.
    pub small_remainder: u64,
    /// Smallest remainder, in bytes, that is split off another block.
    pub large_remainder: u64,
    /// Blocks of at least this many bytes are never split and serve only requests that large.
    pub max_split_size: Option<u64>,
    /// A request of at least `max_split_size` takes a cached block only below its size plus this many bytes.
    pub max_non_split_rounding: u64,
    /// Which of the blocks of the best size serves.
    pub search_order: SearchOrder,
    /// Segments grow by mapping pages into reserved addresses instead of by allocations of their own.
    pub expandable_segments: bool,
    /// Fraction of the limit above which unused blocks are given back before new ones are taken. It acts
    /// only where a limit is set.
    pub garbage_collection_threshold: Option<f64>,
    /// Fraction of the device that may be reserved, from the start; a pool's limit changes it.
    pub memory_fraction: Option<f64>,
    /// When the limit is looked at.
    pub limit_check: LimitCheck,
    /// Callbacks that free memory run before anything is taken from the device, not only when that failed.
    pub callbacks_first: bool,
    /// What is tried, in order, each followed by another attempt, when the device has no memory left.
    pub reclaims: &'static [Reclaim],
}

/// An allocator whose rules are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allocator {
    /// CuPy's `MemoryPool`.
    Cupy,
    /// PyTorch's CUDA caching allocator, of a release. Snapshots are written as this release writes them.
    Torch(TorchRelease),
}

impl Allocator {
    /// The release of PyTorch, where it is PyTorch's.
    pub fn release(self) -> Option<TorchRelease> {
        match self {
            Self::Cupy => None,
            Self::Torch(release) => Some(release),
        }
    }
}

impl std::fmt::Display for Allocator {
    /// `CuPy`, or `PyTorch 2.11`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cupy => f.write_str("CuPy"),
            Self::Torch(release) => write!(f, "PyTorch {release}"),
        }
    }
}

/// How much is taken from the device for a request that no cached block serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentSizes {
    /// What was asked for, rounded to [`BLOCK_UNIT`] (CuPy).
    Exact,
    /// By size class (`get_allocation_size`, `c10/cuda/CUDACachingAllocator.cpp`).
    Classes {
        /// For a request of the small pool, and the page of expandable segments of that pool (`kSmallBuffer`).
        small: u64,
        /// For other requests below `own_from`, and the page of their expandable segments
        /// (`large_segment_size`, before 2.11 `kLargeBuffer`).
        large: u64,
        /// Requests from here on get a segment of their own (`kMinLargeAlloc`).
        own_from: u64,
        /// To a multiple of which it is rounded up (`kRoundLarge`).
        own_unit: u64,
    },
}

/// Which of the free blocks of the smallest sufficient size serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchOrder {
    /// The one at the lowest address (CuPy; PyTorch to 2.11).
    Address,
    /// The one whose segment was taken first, then the lowest address (PyTorch from mid 2026, #183591).
    SegmentAge,
}

/// When a limit on reserved bytes is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitCheck {
    /// Once, giving memory back until the request fits, before the device is asked (`_try_malloc`, CuPy). A request larger
    /// than the whole limit fails at once (v14).
    First,
    /// Before each attempt, which it makes fail as the device would (`alloc_block`, PyTorch).
    EachAttempt,
}

/// What an allocator tries when the device has no memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// Give back cached blocks that may not be split, enough for the request
    /// (`release_available_cached_blocks`; only with `max_split_size`).
    Oversize,
    /// Wait for other streams and give back every unsplit cached block (`release_cached_blocks`,
    /// `free_all_blocks`).
    Cached,
    /// Run the callbacks that free memory (CuPy: `gc.collect()`), then as [`Reclaim::Cached`].
    CallbacksThenCached,
}

/// The pool of blocks that serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Of small requests (`small_pool`).
    Small,
    /// Of all others (`large_pool`).
    Large,
}

impl SearchOrder {
    /// The order of a release of PyTorch.
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

/// How settings name CuPy's rules, for which PyTorch has no words.
const CUPY: &str = "cupy";

/// A setting in bytes; negative ones are no limit.
fn bytes(setting: Option<i64>) -> Option<u64> {
    setting.and_then(|n| u64::try_from(n).ok()).filter(|&n| n < i64::MAX as u64)
}

impl Policy {
    /// CuPy's `MemoryPool` (`cupy/cuda/memory.pyx`, v13 and v14): one pool of blocks, segments of exactly the
    /// size asked for, always split, best fit by size, then address.
    pub fn cupy() -> Self {
        Self {
            allocator: Allocator::Cupy,
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

    /// PyTorch's CUDA caching allocator of one release under the settings a snapshot records or a user gives
    /// (`c10/cuda/CUDACachingAllocator.cpp`).
    pub fn torch(settings: &TorchSettings, release: TorchRelease) -> Self {
        // Of 2.11 (#172056); before, the size was a constant.
        let large = bytes(settings.large_segment_size).filter(|_| release >= TorchRelease::new(2, 11));
        let large = large.unwrap_or(20 * MIB);
        Self {
            allocator: Allocator::Torch(release),
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
            // The whole device is no limit (`setMemoryFraction`).
            memory_fraction: settings.per_process_memory_fraction.filter(|&fraction| fraction < 1.0),
            limit_check: LimitCheck::EachAttempt,
            callbacks_first: true,
            reclaims: &[Reclaim::Oversize, Reclaim::Cached],
        }
    }

    /// The policy under which a recording was made, by the settings it holds, PyTorch's defaults where it holds
    /// none, and the release it shows ([`Trace::shown_release`]).
    pub fn recorded(trace: &Trace) -> Self {
        Self::recorded_by(trace, trace.shown_release())
    }

    /// As [`recorded`](Self::recorded), for a release that is known.
    pub fn recorded_by(trace: &Trace, release: TorchRelease) -> Self {
        let settings = trace.settings.as_ref().map(AllocatorSettings::in_force).unwrap_or_default();
        if settings.backend.as_deref() == Some(CUPY) { Self::cupy() } else { Self::torch(&settings, release) }
    }

    /// The same settings in the order of search of another release; CuPy's policy has none.
    #[must_use]
    pub fn in_order_of(&self, release: TorchRelease) -> Self {
        let Some(_) = self.release() else { return self.clone() };
        Self { allocator: Allocator::Torch(release), search_order: SearchOrder::of(release), ..self.clone() }
    }

    /// The release of PyTorch whose rules these are; `None` where they are not PyTorch's.
    pub fn release(&self) -> Option<TorchRelease> {
        self.allocator.release()
    }

    /// The policy in the words of a snapshot's settings, which count in whole MiB, with the keys that its release
    /// writes and PyTorch's defaults of what has nothing to do with a pool. [`Policy::torch`] makes the same policy
    /// of them, for the same release; CuPy's policy, for which PyTorch has no words, is `backend:cupy`.
    pub fn settings(&self) -> AllocatorSettings {
        let large = match self.segments {
            SegmentSizes::Exact => None,
            SegmentSizes::Classes { large, .. } => Some(large),
        };
        let int = u64::cast_signed;
        let divisions = self.roundup_power2_divisions;
        let conf = TorchSettings {
            backend: (self.allocator == Allocator::Cupy).then(|| CUPY.to_owned()),
            large_segment_size: large.filter(|&large| large != 20 * MIB).map(int),
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

    /// Bytes of the block that serves a request of `size` bytes, before splitting (`_round_size`,
    /// `round_size`). At least [`BLOCK_UNIT`]: requests of no bytes never reach the engine.
    #[inline]
    pub fn round_size(&self, size: u64) -> u64 {
        self.roundup_power2_divisions.round_size(size)
    }

    /// Which pool of blocks serves a request of `rounded` bytes, in a snapshot's words.
    pub fn kind(&self, rounded: u64) -> SegmentKind {
        self.class(rounded).into()
    }

    /// Which pool of blocks a segment of `size` bytes was taken for.
    pub fn kind_of_segment(&self, size: u64) -> SegmentKind {
        match self.segments {
            SegmentSizes::Classes { small, .. } if small == size => SegmentKind::Small,
            _ => SegmentKind::Large,
        }
    }

    /// Whatever is left of the block that serves a request of `rounded` bytes is split off, down to the
    /// smallest block.
    pub fn always_splits(&self, rounded: u64) -> bool {
        self.splits(rounded, BLOCK_UNIT)
    }

    /// Whether `remaining` bytes of a free block are split off the block that serves a request of `rounded` bytes
    /// (`should_split`).
    #[inline]
    pub fn splits(&self, rounded: u64, remaining: u64) -> bool {
        self.should_split(self.class(rounded), rounded, remaining)
    }

    /// Which pool of blocks serves a request of `rounded` bytes.
    #[inline]
    pub(crate) fn class(&self, rounded: u64) -> Class {
        if rounded <= self.small_request { Class::Small } else { Class::Large }
    }

    /// Bytes taken from the device for a request of `rounded` bytes.
    pub fn segment_size(&self, rounded: u64) -> u64 {
        match self.segments {
            SegmentSizes::Exact => rounded,
            SegmentSizes::Classes { small, .. } if self.class(rounded) == Class::Small => small,
            // A setting smaller than the request would not do; PyTorch refuses it.
            SegmentSizes::Classes { large, own_from, .. } if rounded < own_from => large.max(rounded),
            SegmentSizes::Classes { own_unit, .. } => {
                rounded.checked_next_multiple_of(own_unit).unwrap_or(rounded)
            }
        }
    }

    /// Bytes of a page of an expandable segment.
    pub(crate) fn page_size(&self, class: Class) -> u64 {
        match self.segments {
            SegmentSizes::Exact => BLOCK_UNIT,
            SegmentSizes::Classes { small, .. } if class == Class::Small => small,
            SegmentSizes::Classes { large, .. } => large.max(BLOCK_UNIT),
        }
    }

    /// Whether `remaining` bytes are split off the block that serves a request of `rounded` bytes
    /// (`should_split`).
    #[inline]
    pub(crate) fn should_split(&self, class: Class, rounded: u64, remaining: u64) -> bool {
        if class == Class::Small || self.expandable_segments {
            return remaining >= self.small_remainder;
        }
        self.max_split_size.is_none_or(|max| rounded < max) && remaining >= self.large_remainder
    }

    /// Whether a free block of `size` bytes may serve a request of `rounded` bytes, which it is large enough
    /// for (the end of `get_free_block`).
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
mod tests {
    use super::*;

    fn torch(conf: &str, release: TorchRelease) -> Policy {
        Policy::torch(&TorchSettings::parse(conf).unwrap(), release)
    }

    #[test]
    fn cupy_takes_exactly_what_is_asked_for_rounded_to_512() {
        let p = Policy::cupy();
        assert_eq!((p.round_size(1), p.segment_size(p.round_size(1))), (512, 512));
        assert_eq!(p.segment_size(p.round_size(50 * MIB + 1)), 50 * MIB + 512);
        assert!(p.should_split(p.class(1024), 512, 512));
    }

    /// `get_allocation_size`, PyTorch 2.11.
    #[test]
    fn torch_takes_segments_by_class() {
        let p = torch("", TorchRelease::new(2, 11));
        for (rounded, segment) in
            [(512, 2), (MIB, 2), (MIB + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB, 12)]
        {
            assert_eq!(p.segment_size(rounded), segment * MIB, "{rounded}");
        }
    }

    #[test]
    fn the_size_of_large_segments_is_a_setting_from_2_11_on() {
        let conf = "large_segment_size_mb:64";
        assert_eq!(torch(conf, TorchRelease::new(2, 11)).segment_size(2 * MIB), 64 * MIB);
        assert_eq!(torch(conf, TorchRelease::new(2, 10)).segment_size(2 * MIB), 20 * MIB);
    }

    /// `should_split`, PyTorch 2.11: more than 1 MiB must remain of a large block, 512 bytes of a small one.
    #[test]
    fn torch_splits_by_class_and_max_split_size() {
        let p = torch("max_split_size_mb:128", TorchRelease::new(2, 11));
        assert!(!p.should_split(Class::Large, 2 * MIB, MIB));
        assert!(p.should_split(Class::Large, 2 * MIB, MIB + 512));
        assert!(!p.should_split(Class::Large, 128 * MIB, 64 * MIB));
        assert!(p.should_split(Class::Small, 512, 512));
        assert!(p.may_serve(100 * MIB, 120 * MIB));
        assert!(!p.may_serve(100 * MIB, 128 * MIB));
        assert!(p.may_serve(128 * MIB, 147 * MIB));
        assert!(!p.may_serve(128 * MIB, 148 * MIB));
    }
}
