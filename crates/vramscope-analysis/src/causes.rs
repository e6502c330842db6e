//! Why a request failed: every cause, weighed in bytes.
//!
//! The request needed a segment of the device and `lacking` bytes of it were not there. A cause is *decisive* where the request would
//! have been served without it: where its bytes are at least `lacking`. Causes are in this order:
//!
//! 1. decisive ones before all others;
//! 2. of the decisive ones a leak first, then plain size: with either, any other change only puts off the failure;
//! 3. then by bytes, most first, and of equals a setting before the blocks that it leaves.
//!
//! Whether a setting is decisive is not left to this sum where a replay without it can be run: the replay shows it.

use std::cmp::Reverse;

use vramscope_engine::Policy;
use vramscope_trace::{FrameId, PowerOfTwoDivisions};

use crate::counters::Counters;
use crate::fragmentation::{Fragmentation, Request, Unusable};

/// Why a request failed, or failed in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OomCauseKind {
    /// This line keeps more with every step. Bytes: what it held when the request failed.
    Leak(FrameId),
    /// The device is too small. Bytes: by how much it is too small for the allocated blocks and the request, each in its smallest
    /// block.
    Size,
    /// Memory of the device that is not PyTorch's allocator's: CUDA contexts, libraries, other processes. Bytes: all of it.
    Outside,
    /// A limit on reserved bytes, as `per_process_memory_fraction` sets one. Bytes: what was free on the device.
    Limit,
    /// `roundup_power2_divisions`. Bytes: what it adds to the allocated blocks.
    Rounding,
    /// `max_split_size`. Bytes: rests of allocated blocks that it forbids to split off, and free blocks that it forbids to split.
    Unsplit,
    /// `garbage_collection_threshold`. Bytes: what is reserved more than without it, by a replay.
    Collection,
    /// Freed blocks waited for another stream when the allocator looked for a block. Bytes: those that have become a free block that
    /// fits, or where there is none, those that still wait.
    Pending,
    /// Free blocks of the pool for requests of another size. Bytes: all of them.
    OtherSize,
    /// Free blocks of private pools, or of the default pool where a private one was asked. Bytes: all of them, and free blocks that
    /// fit and did not serve the request: the recording does not name their pool, and no other rule keeps them from it.
    OtherPool,
    /// Free blocks of other streams. Bytes: all of them but those of `IdleStream`.
    OtherStream,
    /// Free blocks of other streams that have made no request since these became free. Bytes: all of them.
    IdleStream,
    /// Free blocks that are smaller than the request. Bytes: all of them.
    TooSmall,
}

impl OomCauseKind {
    /// The key in `PYTORCH_CUDA_ALLOC_CONF` of the setting behind this cause.
    pub fn setting(self) -> Option<&'static str> {
        match self {
            Self::Rounding => Some("roundup_power2_divisions"),
            Self::Unsplit => Some("max_split_size_mb"),
            Self::Collection => Some("garbage_collection_threshold"),
            _ => None,
        }
    }

    fn class(self) -> u8 {
        match self {
            Self::Leak(_) => 0,
            Self::Size => 1,
            _ => 2,
        }
    }
}

/// One cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomCause {
    /// What it is.
    pub kind: OomCauseKind,
    /// Its bytes, see [`OomCauseKind`].
    pub bytes: u64,
    /// Without it the request would have been served.
    pub is_decisive: bool,
    /// Bytes that it gains with every step of the program, where that is known.
    pub per_step: Option<u64>,
}

/// The causes of a failure, as the module orders them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomCauses {
    /// Every cause that has bytes.
    pub all: Vec<OomCause>,
    /// Bytes of the device that the request lacked.
    pub lacking: u64,
    /// `lacking` is exact. Else it may be less: a limit is not recorded, or an expandable segment had room at its end.
    pub is_exact: bool,
}

impl OomCauses {
    /// The cause to name first: the first decisive one.
    pub fn main(&self) -> Option<&OomCause> {
        self.all.first().filter(|cause| cause.is_decisive)
    }

    /// The cause of this kind.
    pub fn get(&self, kind: OomCauseKind) -> Option<&OomCause> {
        self.all.iter().find(|cause| cause.kind == kind)
    }

    /// Adds a cause, or replaces the one of its kind; one of no bytes is none.
    pub(crate) fn put(&mut self, cause: OomCause) {
        self.all.retain(|other| other.kind != cause.kind);
        if cause.bytes > 0 {
            self.all.push(cause);
        }
        self.all.sort_by_key(|cause| {
            let class = if cause.is_decisive { cause.kind.class() } else { u8::MAX };
            (class, Reverse(cause.bytes), cause.kind)
        });
    }
}

/// Bytes inside blocks beyond what the plainest rules take: multiples of 512.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Added by `roundup_power2_divisions`.
    pub(crate) rounding: u64,
    /// Rests that `max_split_size` forbids to split off.
    pub(crate) unsplit: u64,
}

impl Inside {
    /// Of blocks as size and requested bytes.
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
            // Without the setting the rest would be split off.
            if splitting.splits(rounded, rest) && !policy.splits(rounded, rest) {
                inside.unsplit += rest;
            }
        }
        inside
    }
}

/// Freed blocks that wait for another stream, at a request that fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Bytes of those that the allocator waited for after it looked for a block, and that are now part of a free one that fits.
    pub(crate) fitting: u64,
    /// Bytes of those that still wait.
    pub(crate) waiting: u64,
}

/// Everything that is known of a failure from the state of the allocator.
pub(crate) struct Failing<'a> {
    pub(crate) policy: &'a Policy,
    /// The policy is made of recorded settings.
    pub(crate) settings_are_known: bool,
    pub(crate) request: Request,
    pub(crate) counters: Counters,
    pub(crate) fragmentation: &'a Fragmentation,
    /// Bytes that the driver had free.
    pub(crate) device_free: u64,
    /// Bytes of the device, where they are known.
    pub(crate) device_total: Option<u64>,
    pub(crate) at_limit: bool,
    pub(crate) inside: Inside,
    pub(crate) pending: Pending,
    /// Free bytes of other streams that made no request since they became free.
    pub(crate) idle: u64,
}

/// What a process's own CUDA context and kernels take at most on the cards that are known, with some room. So much memory beside the
/// allocator is nothing that others could give back.
pub(crate) const OWN_CONTEXT: u64 = 640 << 20;

impl Failing<'_> {
    /// Weighs every cause that the state alone shows.
    pub(crate) fn causes(&self) -> OomCauses {
        let (lacking, is_exact) = self.lacking();
        let mut causes = OomCauses { all: Vec::new(), lacking, is_exact };
        let mut put = |kind, bytes: u64, is_decisive| {
            causes.put(OomCause { kind, bytes, is_decisive, per_step: None });
        };
        let too_large = self.too_large();
        put(OomCauseKind::Size, too_large, too_large > 0);
        let outside = self.outside().unwrap_or(0);
        put(OomCauseKind::Outside, outside, !self.at_limit && outside >= lacking.saturating_add(OWN_CONTEXT));
        put(OomCauseKind::Limit, if self.at_limit { self.device_free } else { 0 }, self.at_limit);
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
            put(kind, bytes, bytes >= lacking);
        }
        match self.pending {
            Pending { fitting: 0, waiting } => put(OomCauseKind::Pending, waiting, waiting >= lacking),
            Pending { fitting, .. } => put(OomCauseKind::Pending, fitting, true),
        }
        causes
    }

    /// Bytes of free blocks that fit and must be of a pool that the recording does not name: PyTorch's snapshots name the pools of
    /// segments that exist at their end. Nothing can be said where the settings are unknown, and blocks that the allocator waited for
    /// became free too late.
    fn of_unnamed_pools(&self) -> u64 {
        if self.settings_are_known && self.pending.fitting == 0 { self.fragmentation.usable } else { 0 }
    }

    /// Bytes of the device that the request lacked, at least 1, and whether that is exact.
    fn lacking(&self) -> (u64, bool) {
        let wanted = self.policy.segment_size(self.request.bytes);
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

    /// Bytes of the device that are neither free nor the allocator's.
    fn outside(&self) -> Option<u64> {
        Some(self.device_total?.saturating_sub(self.counters.reserved.saturating_add(self.device_free)))
    }

    /// By how much the device is too small for the allocated blocks and the request, by the plainest rules.
    fn too_large(&self) -> u64 {
        let Inside { rounding, unsplit } = self.inside;
        let needed =
            self.counters.allocated.saturating_sub(rounding + unsplit).saturating_add(self.request.bytes);
        let mut available = self.counters.reserved.saturating_add(self.device_free);
        if let Some((total, outside)) = self.device_total.zip(self.outside()) {
            available = available.max(total.saturating_sub(outside.min(OWN_CONTEXT)));
        }
        needed.saturating_sub(available)
    }
}
