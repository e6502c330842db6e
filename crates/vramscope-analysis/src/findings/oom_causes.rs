//! Why a request failed: all causes, weighed in bytes.
//!
//! The request needed a segment, and the device lacked `lacking` bytes of it. A cause is *decisive* if the
//! program would have gone on without it: the request would have been served, because the bytes of the cause are
//! at least `lacking`, and so would what follows. What follows is not recorded, but earlier requests show it. If
//! the program had as many bytes allocated before, and worked, this state is enough. If allocated bytes were at
//! a new maximum and rising, the memory left after the request must hold what followed the same request
//! before or, if it is the first one, as much as they rose in the last quarter of the run; otherwise, the cause only decides which request fails first. Causes are sorted as
//! follows:
//!
//! 1. Decisive causes come before all others.
//! 2. Among the decisive causes, leaks come first (unless another one has more bytes), then plain size: any other change would only
//!    delay these failures. Memory that rises without another cause comes last.
//! 3. Then causes are sorted by bytes, most first. Between equals, a setting comes before the blocks that it
//!    leaves unusable.
//!
//! For settings, a replay without the setting decides whenever one can be run; the byte counts decide only
//! otherwise.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use vramscope_engine::Policy;
use vramscope_trace::{FrameId, PowerOfTwoDivisions};

use super::certainty::Certainty;
use super::fragmentation::{Fragmentation, Request, Unusable};
use super::rise::Rise;
use crate::history::Counters;

/// Why a request failed, fully or in part. `L` identifies a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomCauseKind<L = FrameId> {
    /// This line retains more memory with every step. Bytes: what it held when the request failed.
    Leak(L),
    /// The device is too small. Bytes: by how much it is too small for the allocated blocks and the request,
    /// with each rounded to its smallest possible block.
    Size,
    /// The program needs more with each request: allocated bytes were at their maximum and rising, and the rest of
    /// the device is too small for the next requests. Bytes: the allocated blocks and the request.
    Rising,
    /// Pages of expandable segments. Bytes: how much more of the device the request needs in pages than in a segment
    /// of its own size.
    Pages,
    /// Device memory outside PyTorch's allocator: CUDA contexts, libraries, other processes. Bytes: all of
    /// it.
    Outside,
    /// A limit on reserved bytes, such as `per_process_memory_fraction`. Bytes: the free bytes of the device.
    Limit,
    /// `roundup_power2_divisions`. Bytes: the bytes that the setting adds to the allocated blocks.
    Rounding,
    /// `max_split_size`. Bytes: remainders of allocated blocks that the setting does not allow to split off,
    /// and free blocks that it does not allow to split.
    Unsplit,
    /// `garbage_collection_threshold`. Bytes: how much more is reserved than in a replay without the setting.
    Collection,
    /// Freed blocks waited for another stream when the allocator looked for a block. Bytes: the waiting
    /// blocks that became part of a fitting free block; if there are none, the blocks that still wait.
    Pending,
    /// Free blocks in the pool for the other request size (small or large). Bytes: all of them.
    OtherSize,
    /// Free blocks in private pools, or in the default pool if the request was for a private one. Bytes: all
    /// of them, plus free blocks that fit but did not serve the request. The recording does not name the pool
    /// of the latter, and no other rule excludes them.
    OtherPool,
    /// Free blocks of other streams. Bytes: all of them except those of `IdleStream`.
    OtherStream,
    /// Free blocks of other streams that have made no requests since the blocks became free. Bytes: all of
    /// them.
    IdleStream,
    /// Free blocks smaller than the request. Bytes: all of them.
    TooSmall,
}

impl<L> OomCauseKind<L> {
    /// Returns the `PYTORCH_CUDA_ALLOC_CONF` key of the setting behind this cause, if it is a setting.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Rounding => Some("roundup_power2_divisions"),
            Self::Unsplit => Some("max_split_size_mb"),
            Self::Collection => Some("garbage_collection_threshold"),
            Self::Pages => Some("expandable_segments"),
            _ => None,
        }
    }

    fn class(&self) -> u8 {
        match self {
            Self::Leak(_) => 0,
            Self::Size => 1,
            Self::Rising => 3,
            _ => 2,
        }
    }
}

/// One cause of a failed request. `L` identifies a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OomCause<L = FrameId> {
    /// The kind of cause.
    pub kind: OomCauseKind<L>,
    /// The bytes of the cause; see [`OomCauseKind`].
    pub bytes: u64,
    /// Whether the request would have been served without this cause.
    pub is_decisive: bool,
    /// How far the recording shows that this is a cause.
    pub certainty: Certainty,
    /// Bytes by which the cause grows with every step of the program, if known.
    pub per_step: Option<u64>,
    /// For a leak: the bytes that one repetition retains, whatever repeats.
    pub per_repetition: Option<u64>,
}

impl OomCause {
    /// A cause that does not grow.
    pub(crate) fn of(kind: OomCauseKind, bytes: u64, is_decisive: bool, certainty: Certainty) -> Self {
        Self { kind, bytes, is_decisive, certainty, per_step: None, per_repetition: None }
    }

    /// The cause with the line of a leak identified by `line`.
    pub fn with_line<L>(self, line: impl FnOnce(FrameId) -> L) -> OomCause<L> {
        let kind = match self.kind {
            OomCauseKind::Leak(frame) => OomCauseKind::Leak(line(frame)),
            OomCauseKind::Size => OomCauseKind::Size,
            OomCauseKind::Rising => OomCauseKind::Rising,
            OomCauseKind::Pages => OomCauseKind::Pages,
            OomCauseKind::Outside => OomCauseKind::Outside,
            OomCauseKind::Limit => OomCauseKind::Limit,
            OomCauseKind::Rounding => OomCauseKind::Rounding,
            OomCauseKind::Unsplit => OomCauseKind::Unsplit,
            OomCauseKind::Collection => OomCauseKind::Collection,
            OomCauseKind::Pending => OomCauseKind::Pending,
            OomCauseKind::OtherSize => OomCauseKind::OtherSize,
            OomCauseKind::OtherPool => OomCauseKind::OtherPool,
            OomCauseKind::OtherStream => OomCauseKind::OtherStream,
            OomCauseKind::IdleStream => OomCauseKind::IdleStream,
            OomCauseKind::TooSmall => OomCauseKind::TooSmall,
        };
        let Self { bytes, is_decisive, certainty, per_step, per_repetition, .. } = self;
        OomCause { kind, bytes, is_decisive, certainty, per_step, per_repetition }
    }
}

/// The causes of a failed request, sorted as described in the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomCauses {
    /// All causes with at least one byte.
    pub all: Vec<OomCause>,
    /// Bytes that the device lacked for the request.
    pub lacking: u64,
    /// Bytes that the program would lack for what follows the request if free blocks were packed perfectly; see the
    /// module documentation. With 0, the places of the blocks decide.
    pub shortage: u64,
    /// Whether `lacking` is exact. If not, it may be too high: a limit was not recorded, or an expandable
    /// segment had room at its end.
    pub is_exact: bool,
}

impl OomCauses {
    /// Returns the main cause: the first decisive one.
    pub fn main(&self) -> Option<&OomCause> {
        self.all.first().filter(|cause| cause.is_decisive)
    }

    /// Returns the cause of this kind.
    pub fn get(&self, kind: OomCauseKind) -> Option<&OomCause> {
        self.all.iter().find(|cause| cause.kind == kind)
    }

    /// Adds a cause or replaces the one of the same kind. A cause of zero bytes is removed.
    pub(crate) fn put(&mut self, cause: OomCause) {
        self.all.retain(|other| other.kind != cause.kind);
        self.add([cause]);
    }

    /// Adds causes of further kinds, except those of zero bytes.
    pub(crate) fn add(&mut self, causes: impl IntoIterator<Item = OomCause>) {
        self.all.extend(causes.into_iter().filter(|cause| cause.bytes > 0));
        self.all.sort_by_key(|cause| {
            let class = if cause.is_decisive { cause.kind.class() } else { u8::MAX };
            (class, Reverse(cause.bytes), cause.kind)
        });
    }
}

/// Bytes inside blocks beyond the default rounding to multiples of 512.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Added by `roundup_power2_divisions`.
    pub(crate) rounding: u64,
    /// Remainders that `max_split_size` does not allow to split off.
    pub(crate) unsplit: u64,
}

impl Inside {
    /// Sums over blocks given as (size, requested bytes).
    pub(crate) fn of(policy: &Policy, blocks: impl Iterator<Item = (u64, u64)>) -> Self {
        let plain = PowerOfTwoDivisions::default();
        let mut splitting = policy.clone();
        splitting.max_split_size = None;
        let mut inside = Self::default();
        for (size, requested) in blocks {
            let requested = requested.max(1);
            let (least, rounded) = (plain.round_size(requested), policy.round_size(requested));
            inside.rounding += rounded.min(size).saturating_sub(least);
            let rest = size.saturating_sub(rounded);
            // Without the setting, the remainder would be split off.
            if splitting.splits(rounded, rest) && !policy.splits(rounded, rest) {
                inside.unsplit += rest;
            }
        }
        inside
    }
}

/// Freed blocks that wait for another stream while a request fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Bytes of blocks that became part of a fitting free block only after the allocator had looked for one.
    pub(crate) fitting: u64,
    /// Bytes of blocks that still wait.
    pub(crate) waiting: u64,
}

/// The allocator's state at a failed request.
pub(crate) struct Failing<'a> {
    pub(crate) policy: &'a Policy,
    /// Whether the policy comes from recorded settings.
    pub(crate) settings_are_known: bool,
    pub(crate) request: Request,
    pub(crate) counters: Counters,
    pub(crate) fragmentation: &'a Fragmentation,
    /// Free bytes of the device according to the driver.
    pub(crate) device_free: u64,
    /// Size of the device in bytes, if known.
    pub(crate) device_total: Option<u64>,
    pub(crate) at_limit: bool,
    pub(crate) inside: Inside,
    pub(crate) pending: Pending,
    /// Free bytes of other streams that made no requests since these bytes became free.
    pub(crate) idle: u64,
    /// How allocated bytes rose before the request, if known.
    pub(crate) rise: Option<Rise>,
}

/// Other processes that hold one of this many parts of the device decide, even if more was needed.
const LARGE_PART: u64 = 4;

/// Upper bound, with some margin, of the bytes that a process's own CUDA context and kernels take on known
/// GPUs. This much memory outside the allocator cannot be freed by other processes.
pub(crate) const OWN_CONTEXT: u64 = 640 << 20;

impl Failing<'_> {
    /// Weighs all causes that the allocator's state alone shows.
    pub(crate) fn causes(&self) -> OomCauses {
        let (lacking, is_exact) = self.lacking();
        let shortage = self.shortage();
        let mut causes = OomCauses { all: Vec::new(), lacking, shortage, is_exact };
        // Without the request, the program had never allocated so much: what it does next is inferred.
        let is_new = self.rise.is_some_and(|rise| rise.is_new_maximum(self.needed()));
        let certainty = |kind| match kind {
            OomCauseKind::Size | OomCauseKind::Limit => Certainty::Shown,
            OomCauseKind::Rising => Certainty::Likely,
            _ if is_new => Certainty::Likely,
            _ => Certainty::Shown,
        };
        let mut put = |kind, bytes: u64, is_decisive| {
            causes.put(OomCause::of(kind, bytes, is_decisive, certainty(kind)));
        };
        let too_large = self.too_large();
        put(OomCauseKind::Size, too_large, too_large > 0);
        let outside = self.outside().unwrap_or(0);
        let others = outside.saturating_sub(OWN_CONTEXT);
        let is_large = self.device_total.is_some_and(|total| others >= total / LARGE_PART);
        let is_outside = others >= lacking && (others >= shortage || is_large);
        put(OomCauseKind::Outside, outside, !self.at_limit && is_outside);
        let above_limit = if self.at_limit { self.device_free } else { 0 };
        put(OomCauseKind::Limit, above_limit, self.at_limit && above_limit >= shortage);
        let is_packing_enough = shortage == 0;
        let rising = too_large == 0 && !is_packing_enough;
        put(OomCauseKind::Rising, if rising { self.needed() } else { 0 }, true);
        let (pages, segment) =
            (self.policy.device_bytes(self.request.bytes), self.policy.segment_size(self.request.bytes));
        let is_for_pages = segment <= self.device_free && pages > self.device_free;
        let by_pages = if is_for_pages { pages.saturating_sub(segment) } else { 0 };
        put(OomCauseKind::Pages, by_pages, is_packing_enough);
        let free = |why| self.fragmentation.unusable.iter().find(|u| u.why == why).map_or(0, |u| u.bytes);
        let unsplit = self.inside.unsplit + free(Unusable::NotSplit);
        let idle = self.idle.min(free(Unusable::OtherStream));
        for (kind, bytes) in [
            (OomCauseKind::Rounding, self.inside.rounding),
            (OomCauseKind::Unsplit, unsplit),
            (OomCauseKind::OtherSize, free(Unusable::OtherSize)),
            (OomCauseKind::OtherPool, free(Unusable::OtherPool) + self.of_unnamed_pools()),
            (OomCauseKind::OtherStream, free(Unusable::OtherStream) - idle),
            (OomCauseKind::IdleStream, idle),
            (OomCauseKind::TooSmall, free(Unusable::TooSmall)),
        ] {
            put(kind, bytes, bytes >= lacking && is_packing_enough);
        }
        match self.pending {
            Pending { fitting: 0, waiting } => {
                put(OomCauseKind::Pending, waiting, waiting >= lacking && is_packing_enough);
            }
            Pending { fitting, .. } => put(OomCauseKind::Pending, fitting, is_packing_enough),
        }
        causes
    }

    /// Bytes of free blocks that fit, and that must belong to a pool that the recording does not name.
    /// PyTorch's snapshots name only the pools of segments that exist at the end. Returns 0 if the settings
    /// are unknown, or if the fitting blocks became free too late because the allocator waited for them.
    fn of_unnamed_pools(&self) -> u64 {
        if self.settings_are_known && self.pending.fitting == 0 { self.fragmentation.usable } else { 0 }
    }

    /// Returns the bytes that the device lacked for the request, at least 1, and whether that number is
    /// exact.
    fn lacking(&self) -> (u64, bool) {
        let wanted = self.policy.device_bytes(self.request.bytes);
        let limit = self.policy.memory_fraction.zip(self.device_total);
        let (room, is_exact) = match (self.at_limit, limit) {
            (false, _) => (self.device_free, !self.policy.expandable_segments),
            (true, Some((fraction, total))) => {
                (((total as f64 * fraction) as u64).saturating_sub(self.counters.reserved), true)
            }
            (true, None) => (0, false),
        };
        (wanted.saturating_sub(room).max(1), is_exact)
    }

    /// Bytes of the device that are neither free nor reserved by the allocator.
    fn outside(&self) -> Option<u64> {
        Some(self.device_total?.saturating_sub(self.counters.reserved.saturating_add(self.device_free)))
    }

    /// Bytes of the allocated blocks and the request under default rounding.
    fn needed(&self) -> u64 {
        let Inside { rounding, unsplit } = self.inside;
        self.counters.allocated.saturating_sub(rounding + unsplit).saturating_add(self.request.bytes)
    }

    /// Bytes of the device that the allocator could use without other processes.
    fn available(&self) -> u64 {
        let available = self.counters.reserved.saturating_add(self.device_free);
        match self.device_total.zip(self.outside()) {
            Some((total, outside)) => available.max(total.saturating_sub(outside.min(OWN_CONTEXT))),
            None => available,
        }
    }

    /// By how many bytes the device is too small for the allocated blocks and the request under default
    /// rounding.
    fn too_large(&self) -> u64 {
        self.needed().saturating_sub(self.available())
    }

    /// See [`OomCauses::shortage`].
    fn shortage(&self) -> u64 {
        let needed = self.needed();
        let expected = self.rise.map_or(0, |rise| rise.expected(needed));
        let room = self.counters.reserved.saturating_add(self.device_free);
        if expected == 0 { 0 } else { needed.saturating_add(expected).saturating_sub(room) }
    }
}
