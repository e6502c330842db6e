//! What differs between allocators, as plain data.

use vramscope_trace::{AllocatorSettings, Conf, PowerOfTwoDivisions, SegmentKind, Trace};

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
    pub reliefs: &'static [Relief],
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
    /// Once, with the reliefs of its own, before the device is asked (`_try_malloc`, CuPy). A request larger
    /// than the whole limit fails at once (v14).
    First,
    /// Before each attempt, which it makes fail as the device would (`alloc_block`, PyTorch).
    EachAttempt,
}

/// What an allocator tries when the device has no memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relief {
    /// Give back cached blocks that may not be split, enough for the request
    /// (`release_available_cached_blocks`; only with `max_split_size`).
    Oversize,
    /// Wait for other streams and give back every unsplit cached block (`release_cached_blocks`,
    /// `free_all_blocks`).
    Cached,
    /// Run the callbacks that free memory (CuPy: `gc.collect()`), then as [`Relief::Cached`].
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

/// A PyTorch release, as far as its allocator's rules depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TorchRelease {
    /// 2 of 2.11.
    pub major: u32,
    /// 11 of 2.11.
    pub minor: u32,
}

impl TorchRelease {
    /// Release `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl TorchRelease {
    /// The first release seen to write [`AllocatorSettings::max_round_threshold`], and pinned host memory beside
    /// devices. By its order of search it is told from 2.11.
    const WITH_HOST_MEMORY: Self = Self::new(2, 15);
    /// The first release seen to write [`AllocatorSettings::graph_capture_record_stream_reuse`], and a compile
    /// context and user metadata with every event.
    const WITH_CONTEXTS: Self = Self::new(2, 11);
    /// The oldest release whose recordings were compared.
    const OLDEST_SEEN: Self = Self::new(2, 6);
    /// The first release that prefers the oldest segment (#183591). Seen in recordings: 2.11 by address, 2.15 by
    /// age.
    const BY_AGE: Self = Self::new(2, 13);

    /// The release that made a recording, as far as its rules can be told from what is in it: the oldest that was
    /// seen to write it. Snapshots do not name it. The keys of the settings tell most. Where there are none,
    /// events with a pool came after 2.11 (#177717).
    pub fn shown_by(trace: &Trace) -> Self {
        let names_pools = || trace.tags.iter().any(|tags| tags.pool.is_some());
        match &trace.settings {
            Some(s) if s.with_host_memory() => Self::WITH_HOST_MEMORY,
            Some(s) if s.with_contexts() => Self::WITH_CONTEXTS,
            Some(s) if s.release_lock_on_cudamalloc.is_some() => Self::OLDEST_SEEN,
            _ if names_pools() => Self::WITH_HOST_MEMORY,
            _ => Self::WITH_CONTEXTS,
        }
    }

    /// A release whose order of search is the other one, as far as releases were compared.
    #[must_use]
    pub fn of_other_order(self) -> Self {
        if self >= Self::BY_AGE { Self::WITH_CONTEXTS } else { Self::WITH_HOST_MEMORY }
    }

    fn search_order(self) -> SearchOrder {
        if self >= Self::BY_AGE { SearchOrder::SegmentAge } else { SearchOrder::Address }
    }
}

impl std::str::FromStr for TorchRelease {
    type Err = &'static str;

    /// `2.11`, or `2.11.0+cu130`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().split('.').map(str::parse);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err("a release is two numbers, as 2.11"),
        }
    }
}

impl std::fmt::Display for TorchRelease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
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
            reliefs: &[Relief::Cached, Relief::CallbacksThenCached],
        }
    }

    /// PyTorch's CUDA caching allocator of one release under the settings a snapshot records or a user gives
    /// (`c10/cuda/CUDACachingAllocator.cpp`). A setting in the configuration text stands where the
    /// dictionary has none.
    pub fn torch(settings: &AllocatorSettings, release: TorchRelease) -> Self {
        let conf = &settings.conf;
        // `large_segment_size_mb` is of 2.11 (#172056); before, the size was a constant.
        let large =
            conf.large_segment_size.filter(|_| release >= TorchRelease::new(2, 11)).unwrap_or(20 * MIB);
        let fraction = |x: f64| (x > 0.0).then_some(x);
        Self {
            allocator: Allocator::Torch(release),
            roundup_power2_divisions: settings
                .roundup_power2_divisions
                .or(conf.roundup_power2_divisions)
                .unwrap_or_default(),
            small_request: MIB,
            segments: SegmentSizes::Classes { small: 2 * MIB, large, own_from: 10 * MIB, own_unit: 2 * MIB },
            small_remainder: BLOCK_UNIT,
            large_remainder: MIB + 1,
            max_split_size: match settings.max_split_size {
                Some(_) => settings.max_split_bytes(),
                None => conf.max_split_size,
            },
            max_non_split_rounding: conf.max_non_split_rounding.unwrap_or(large),
            search_order: release.search_order(),
            expandable_segments: settings.expandable_segments.or(conf.expandable_segments).unwrap_or(false),
            garbage_collection_threshold: settings
                .garbage_collection_threshold
                .or(conf.garbage_collection_threshold)
                .and_then(fraction),
            // The whole device is no limit (`setMemoryFraction`).
            memory_fraction: conf.per_process_memory_fraction.filter(|&fraction| fraction < 1.0),
            limit_check: LimitCheck::EachAttempt,
            callbacks_first: true,
            reliefs: &[Relief::Oversize, Relief::Cached],
        }
    }

    /// The policy under which a recording was made, by the settings it holds, PyTorch's defaults where it holds
    /// none, and the release it shows ([`TorchRelease::shown_by`]).
    pub fn recorded(trace: &Trace) -> Self {
        Self::recorded_by(trace, TorchRelease::shown_by(trace))
    }

    /// As [`recorded`](Self::recorded), for a release that is known.
    pub fn recorded_by(trace: &Trace, release: TorchRelease) -> Self {
        let defaults = AllocatorSettings::default();
        let settings = trace.settings.as_ref().unwrap_or(&defaults);
        let is_cupys = settings.conf.other.iter().any(|(key, value)| key == "backend" && value == "cupy");
        if is_cupys { Self::cupy() } else { Self::torch(settings, release) }
    }

    /// The same settings in the order of search of another release; CuPy's policy has none.
    #[must_use]
    pub fn in_order_of(&self, release: TorchRelease) -> Self {
        let Some(_) = self.release() else { return self.clone() };
        Self { allocator: Allocator::Torch(release), search_order: release.search_order(), ..self.clone() }
    }

    /// The release of PyTorch whose rules these are; `None` where they are not PyTorch's.
    pub fn release(&self) -> Option<TorchRelease> {
        self.allocator.release()
    }

    /// The policy in the words of a snapshot's settings, which count in whole MiB, with the keys that its release
    /// writes and PyTorch's defaults of what has nothing to do with a pool. [`Policy::torch`] makes the same policy
    /// of them, for the same release; CuPy's policy, for which PyTorch has no words, is `backend:cupy`.
    pub fn settings(&self) -> AllocatorSettings {
        let mut conf = Vec::new();
        let mib = |bytes: u64| bytes / MIB;
        if self.allocator == Allocator::Cupy {
            conf.push("backend:cupy".to_owned());
        }
        if let SegmentSizes::Classes { large, .. } = self.segments {
            if large != 20 * MIB {
                conf.push(format!("large_segment_size_mb:{}", mib(large)));
            }
            if self.max_non_split_rounding != large {
                conf.push(format!("max_non_split_rounding_mb:{}", mib(self.max_non_split_rounding)));
            }
        }
        if let Some(bytes) = self.max_split_size {
            conf.push(format!("max_split_size_mb:{}", mib(bytes)));
        }
        if let Some(threshold) = self.garbage_collection_threshold {
            conf.push(format!("garbage_collection_threshold:{threshold}"));
        }
        if let Some(fraction) = self.memory_fraction {
            conf.push(format!("per_process_memory_fraction:{fraction}"));
        }
        if self.expandable_segments {
            conf.push("expandable_segments:True".to_owned());
        }
        let divisions = self.roundup_power2_divisions.0;
        if divisions[1..].iter().all(|&n| n == divisions[0]) {
            conf.extend((divisions[0] > 0).then(|| format!("roundup_power2_divisions:{}", divisions[0])));
        } else {
            let each = divisions.iter().enumerate().map(|(i, n)| format!("{}:{n}", 1u64 << i));
            conf.push(format!("roundup_power2_divisions:[{}]", each.collect::<Vec<_>>().join(",")));
        }
        let conf = conf.join(",");
        let writes = |since: TorchRelease| self.release().is_none_or(|release| release >= since);
        AllocatorSettings {
            conf: Conf::parse(&conf).unwrap_or_default(),
            conf_text: Some(conf),
            max_split_size: Some(self.max_split_size.map_or(-1, u64::cast_signed)),
            garbage_collection_threshold: Some(self.garbage_collection_threshold.unwrap_or(0.0)),
            expandable_segments: Some(self.expandable_segments),
            pinned_num_register_threads: Some(1),
            release_lock_on_cudamalloc: Some(false),
            pinned_use_cuda_host_register: Some(false),
            graph_capture_record_stream_reuse: writes(TorchRelease::WITH_CONTEXTS).then_some(false),
            max_round_threshold: writes(TorchRelease::WITH_HOST_MEMORY).then_some(-1),
            max_cached_size: writes(TorchRelease::WITH_HOST_MEMORY).then_some(-1),
            roundup_power2_divisions: Some(self.roundup_power2_divisions),
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
        let settings = AllocatorSettings { conf: Conf::parse(conf).unwrap(), ..AllocatorSettings::default() };
        Policy::torch(&settings, release)
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
