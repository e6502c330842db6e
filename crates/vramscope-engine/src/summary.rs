//! PyTorch's `memory_summary`, also for the large and the small pool.
//!
//! To keep requests fast, an arena counts allocated bytes of both pools together and only freed bytes of each pool. The other numbers
//! are computed when the summary is requested, from these counters and from the existing blocks. A number that cannot be computed in
//! this way, such as the peak of one pool, is `None`.

use vramscope_trace::BlockState;

use crate::arena::LockedArena;

use crate::engine::{Engine, LockedEngine, tallies};
use crate::observer::Observer;
use crate::policy::Class;
use crate::statistics::{Freed, Meter, Stat};

/// A [`Stat`] with parts that may not be counted: bytes, or a number of blocks or segments. `None` is not counted.
#[derive(Debug, Clone, Copy)]
pub struct PartialStat {
    /// Current value.
    pub current: u64,
    /// Highest value since the start, or since the peaks were reset.
    pub peak: Option<u64>,
    /// Sum of all values added so far.
    pub allocated: Option<u64>,
    /// Sum of all values subtracted so far.
    pub freed: Option<u64>,
}

impl PartialStat {
    /// The statistic of something that never happened: all values are 0.
    const NEVER: Self = Self { current: 0, peak: Some(0), allocated: Some(0), freed: Some(0) };

    /// A statistic with only the current value.
    fn now(current: u64) -> Self {
        Self { current, peak: None, allocated: None, freed: None }
    }

    /// A statistic from the current value and the sum ever freed. The peak is known only if nothing was freed: it is then the current
    /// value.
    fn of(current: u64, freed: u64) -> Self {
        let peak = (freed == 0).then_some(current);
        Self { current, peak, allocated: Some(current.saturating_add(freed)), freed: Some(freed) }
    }

    /// Returns the sum of the two pools.
    fn plus(self, other: Self) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            current: self.current + other.current,
            // The two peaks may come from different points in time; their sum was then never reached. They come from the same point if
            // one pool was never used, or if nothing was freed from either.
            peak: match (self, other) {
                (a, Self { allocated: Some(0), .. }) => a.peak,
                (Self { allocated: Some(0), .. }, b) => b.peak,
                (Self { freed: Some(0), .. }, Self { freed: Some(0), .. }) => add(self.peak, other.peak),
                _ => None,
            },
            allocated: add(self.allocated, other.allocated),
            freed: add(self.freed, other.freed),
        }
    }
}

impl From<Stat> for PartialStat {
    fn from(stat: Stat) -> Self {
        Self {
            current: stat.current,
            peak: Some(stat.peak),
            allocated: Some(stat.allocated),
            freed: Some(stat.freed),
        }
    }
}

impl From<&Meter> for PartialStat {
    fn from(meter: &Meter) -> Self {
        Self {
            current: meter.current(),
            peak: Some(meter.peak()),
            allocated: Some(meter.allocated()),
            freed: Some(meter.freed()),
        }
    }
}

/// One row group of PyTorch's `memory_summary`: a metric of both pools together and of each pool.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Both pools together.
    pub all: PartialStat,
    /// The pool of large blocks.
    pub large: PartialStat,
    /// The pool of small blocks.
    pub small: PartialStat,
}

impl Metric {
    fn sum(large: PartialStat, small: PartialStat) -> Self {
        Self { all: large.plus(small), large, small }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.plus(other.all),
            large: self.large.plus(other.large),
            small: self.small.plus(other.small),
        }
    }

    /// Combines the statistics of both pools together and of each pool. If one pool was never used, the other pool's peak is the common
    /// peak.
    fn of(all: PartialStat, mut large: PartialStat, mut small: PartialStat) -> Self {
        if small.allocated == Some(0) {
            large.peak = all.peak;
        } else if large.allocated == Some(0) {
            small.peak = all.peak;
        }
        Self { all, large, small }
    }
}

/// The contents of PyTorch's `memory_summary`, by PyTorch's names.
#[derive(Debug)]
pub struct MemorySummary {
    /// Number of requests that failed with out of memory.
    pub num_ooms: u64,
    /// Number of attempts after all cached blocks were released.
    pub num_alloc_retries: u64,
    /// Allocated bytes.
    pub allocated_bytes: Metric,
    /// Bytes allocated or waiting for a stream.
    pub active_bytes: Metric,
    /// Requested bytes of active blocks.
    pub requested_bytes: Metric,
    /// Bytes taken from the device.
    pub reserved_bytes: Metric,
    /// Bytes of free blocks in split segments.
    pub inactive_split_bytes: Metric,
    /// Number of allocated blocks.
    pub allocation: Metric,
    /// Number of blocks allocated or waiting for a stream.
    pub active: Metric,
    /// Number of segments taken from the device, without expandable ones.
    pub segment: Metric,
    /// Number of free blocks in split segments.
    pub inactive_split: Metric,
    /// Number of blocks too large to be split (`max_split_size`).
    pub oversize_allocations: PartialStat,
    /// Number of segments too large to be split (`max_split_size`).
    pub oversize_segments: PartialStat,
}

impl MemorySummary {
    /// Returns the sum of two allocators on one device. A peak is known if only one of the two was used.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            num_ooms: self.num_ooms + other.num_ooms,
            num_alloc_retries: self.num_alloc_retries + other.num_alloc_retries,
            allocated_bytes: self.allocated_bytes.plus(other.allocated_bytes),
            active_bytes: self.active_bytes.plus(other.active_bytes),
            requested_bytes: self.requested_bytes.plus(other.requested_bytes),
            reserved_bytes: self.reserved_bytes.plus(other.reserved_bytes),
            inactive_split_bytes: self.inactive_split_bytes.plus(other.inactive_split_bytes),
            allocation: self.allocation.plus(other.allocation),
            active: self.active.plus(other.active),
            segment: self.segment.plus(other.segment),
            inactive_split: self.inactive_split.plus(other.inactive_split),
            oversize_allocations: self.oversize_allocations.plus(other.oversize_allocations),
            oversize_segments: self.oversize_segments.plus(other.oversize_segments),
        }
    }
}

/// Sums over the current blocks of one class: bytes and numbers of blocks.
#[derive(Default)]
struct BlockTotals {
    requested: u64,
    allocated: u64,
    active: u64,
    num_allocated: u64,
    num_active: u64,
    /// Free blocks of split segments. As in PyTorch, expandable segments are left out, because their whole pages can be released.
    split_bytes: u64,
    num_split: u64,
    /// Allocated blocks that are too large to be split (`max_split_size`).
    num_oversize: u64,
}

impl BlockTotals {
    fn of<O: Observer>(arenas: &[LockedArena<'_, O>], class: Class, max_split: Option<u64>) -> Self {
        let mut found = Self::default();
        let segments = arenas.iter().flat_map(LockedArena::segments);
        for segment in segments.filter(|segment| segment.class == class) {
            let split = segment.blocks.len() > 1 && !segment.expandable;
            for block in &segment.blocks {
                if block.state.is_active() {
                    found.requested += block.requested;
                    found.active += block.size;
                    found.num_active += 1;
                } else if split {
                    found.split_bytes += block.size;
                    found.num_split += 1;
                }
                if block.state == BlockState::ActiveAllocated {
                    found.allocated += block.size;
                    found.num_allocated += 1;
                    found.num_oversize += u64::from(max_split.is_some_and(|max| block.size >= max));
                }
            }
        }
        found
    }
}

impl<O: Observer> Engine<O> {
    /// Returns the contents of PyTorch's `memory_summary`. Visits every block with every lock held, so its time grows with the number
    /// of blocks.
    pub fn summary(&self) -> MemorySummary {
        let LockedEngine { ledger, mut arenas, .. } = self.lock_all();
        let accounts = self.core().refreshed_accounts();
        let statistics = Self::statistics_of(&ledger, &mut arenas, &accounts);
        let policy = self.core().policy();
        let [large, small] =
            [Class::Large, Class::Small].map(|class| BlockTotals::of(&arenas, class, policy.max_split_size));
        let [freed_large, freed_small] =
            [Class::Large, Class::Small].map(|class| freed_of(&mut arenas, class));
        let both = |of: &dyn Fn(&BlockTotals, &Freed) -> PartialStat| {
            [of(&large, &freed_large), of(&small, &freed_small)]
        };
        let [allocated, active, requested] = [
            both(&|b, f| PartialStat::of(b.allocated, f.bytes[1])),
            both(&|b, f| PartialStat::of(b.active, f.bytes[2])),
            both(&|b, f| PartialStat::of(b.requested, f.bytes[0])),
        ];
        let allocation = both(&|b, f| PartialStat::of(b.num_allocated, f.num_frees));
        // A block that waits for a stream counts as freed but is still active.
        let actives = both(&|b, f| {
            PartialStat::of(b.num_active, f.num_frees.saturating_sub(b.num_active - b.num_allocated))
        });
        let meters = |class: Class| accounts.of_class(class);
        let split = |class: Class, current: u64| {
            if meters(class).segments().allocated() == 0 {
                PartialStat::NEVER
            } else {
                PartialStat::now(current)
            }
        };
        let oversize_segments = PartialStat::from(accounts.oversize_segments());
        // A block too large to be split is in a segment too large to be split, or in an expandable segment.
        let never_oversize = policy.max_split_size.is_none()
            || (!policy.expandable_segments && oversize_segments.allocated == Some(0));

        MemorySummary {
            num_ooms: statistics.num_ooms,
            num_alloc_retries: statistics.num_alloc_retries,
            allocated_bytes: Metric::of(statistics.allocated.into(), allocated[0], allocated[1]),
            active_bytes: Metric::of(statistics.active.into(), active[0], active[1]),
            requested_bytes: Metric::of(statistics.requested.into(), requested[0], requested[1]),
            reserved_bytes: Metric {
                all: statistics.reserved.into(),
                large: meters(Class::Large).reserved().into(),
                small: meters(Class::Small).reserved().into(),
            },
            inactive_split_bytes: Metric::sum(
                split(Class::Large, large.split_bytes),
                split(Class::Small, small.split_bytes),
            ),
            allocation: Metric::sum(allocation[0], allocation[1]),
            active: Metric::sum(actives[0], actives[1]),
            segment: Metric {
                all: accounts.segments().into(),
                large: meters(Class::Large).segments().into(),
                small: meters(Class::Small).segments().into(),
            },
            inactive_split: Metric::sum(
                split(Class::Large, large.num_split),
                split(Class::Small, small.num_split),
            ),
            oversize_allocations: if never_oversize {
                PartialStat::NEVER
            } else {
                PartialStat::now(large.num_oversize + small.num_oversize)
            },
            oversize_segments,
        }
    }
}

/// Totals of freed bytes and blocks of one class, summed over all arenas.
fn freed_of<O: Observer>(arenas: &mut [LockedArena<'_, O>], class: Class) -> Freed {
    tallies(arenas).iter().fold(Freed::default(), |sum, tally| {
        let freed = tally.freed(class);
        Freed {
            bytes: std::array::from_fn(|kind| sum.bytes[kind].saturating_add(freed.bytes[kind])),
            num_frees: sum.num_frees + freed.num_frees,
        }
    })
}
