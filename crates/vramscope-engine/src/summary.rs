//! What PyTorch's `memory_summary` tells, of the large and of the small pool too.
//!
//! The way of a request counts bytes of all blocks together, and takes-away by class. All else is made of them and of the
//! blocks that are there, here, when somebody asks. What cannot be known so is not known.

use vramscope_trace::BlockState;

use crate::arena::Locked;
use crate::core::Driver;
use crate::engine::{Engine, Whole, tallies};
use crate::observer::Observer;
use crate::policy::Class;
use crate::statistics::{Freed, Meter, Stat};

/// A number over time; `None` where it was not counted.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// Now.
    pub current: u64,
    /// The most there was.
    pub peak: Option<u64>,
    /// Everything ever added.
    pub allocated: Option<u64>,
    /// Everything ever taken away.
    pub freed: Option<u64>,
}

impl Counted {
    const NEVER: Self = Self { current: 0, peak: Some(0), allocated: Some(0), freed: Some(0) };

    /// Of which only the present is known.
    fn now(current: u64) -> Self {
        Self { current, peak: None, allocated: None, freed: None }
    }

    /// Without a peak, but where nothing was ever taken away: then it is what is there now.
    fn of(current: u64, freed: u64) -> Self {
        let peak = (freed == 0).then_some(current);
        Self { current, peak, allocated: Some(current.saturating_add(freed)), freed: Some(freed) }
    }

    fn plus(self, other: Self) -> Self {
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            current: self.current + other.current,
            // Two peaks need not be of the same moment, unless one of them is none, or both are now.
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

impl From<Stat> for Counted {
    fn from(stat: Stat) -> Self {
        Self {
            current: stat.current,
            peak: Some(stat.peak),
            allocated: Some(stat.allocated),
            freed: Some(stat.freed),
        }
    }
}

impl From<&Meter> for Counted {
    fn from(meter: &Meter) -> Self {
        Self {
            current: meter.current,
            peak: Some(meter.peak()),
            allocated: Some(meter.allocated()),
            freed: Some(meter.freed()),
        }
    }
}

/// One of PyTorch's metrics.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Of both pools.
    pub all: Counted,
    /// Of the large pool.
    pub large: Counted,
    /// Of the small pool.
    pub small: Counted,
}

impl Metric {
    fn sum(large: Counted, small: Counted) -> Self {
        Self { all: large.plus(small), large, small }
    }

    /// All is known; of the two what is given, and the peak where the other never had anything.
    fn of(all: Counted, mut large: Counted, mut small: Counted) -> Self {
        if small.allocated == Some(0) {
            large.peak = all.peak;
        } else if large.allocated == Some(0) {
            small.peak = all.peak;
        }
        Self { all, large, small }
    }
}

/// All that PyTorch's `memory_summary` shows, by PyTorch's names.
#[derive(Debug)]
pub struct Summary {
    /// Requests that failed for want of memory.
    pub num_ooms: u64,
    /// Attempts after all cached blocks had been given back.
    pub num_alloc_retries: u64,
    /// Bytes handed out.
    pub allocated_bytes: Metric,
    /// Bytes handed out, or waiting for a stream.
    pub active_bytes: Metric,
    /// Bytes asked for, of active blocks.
    pub requested_bytes: Metric,
    /// Bytes taken from the device.
    pub reserved_bytes: Metric,
    /// Bytes of free blocks of split segments.
    pub inactive_split_bytes: Metric,
    /// Blocks handed out.
    pub allocation: Metric,
    /// Blocks handed out, or waiting for a stream.
    pub active: Metric,
    /// Segments.
    pub segment: Metric,
    /// Free blocks of split segments.
    pub inactive_split: Metric,
    /// Blocks too large to be split.
    pub oversize_allocations: Counted,
    /// Segments too large to be split.
    pub oversize_segments: Counted,
}

/// The blocks of one class that are there.
#[derive(Default)]
struct Blocks {
    requested: u64,
    allocated: u64,
    active: u64,
    num_allocated: u64,
    num_active: u64,
    /// Free ones of split segments, without expandable ones, as in PyTorch: whole pages of these can be given back.
    split_bytes: u64,
    num_split: u64,
    /// Handed out, and of a size that may not be split.
    num_oversize: u64,
}

impl Blocks {
    fn of<O: Observer>(arenas: &[Locked<'_, O>], class: Class, max_split: Option<u64>) -> Self {
        let mut found = Self::default();
        let segments = arenas.iter().flat_map(Locked::segments);
        for state in segments.filter(|state| state.class == class) {
            let split = state.blocks.len() > 1 && !state.expandable;
            for block in &state.blocks {
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
    /// What PyTorch's `memory_summary` shows. Every block is looked at, with every lock held.
    pub fn summary(&self) -> Summary {
        let Whole { ledger, mut arenas, .. } = self.whole();
        let driver = self.core().driver_now();
        let statistics = Self::statistics_of(&ledger, &mut arenas, &driver);
        let policy = &self.core().policy;
        let [large, small] =
            [Class::Large, Class::Small].map(|class| Blocks::of(&arenas, class, policy.max_split_size));
        let [freed_large, freed_small] =
            [Class::Large, Class::Small].map(|class| freed_of(&mut arenas, class));
        let both =
            |of: &dyn Fn(&Blocks, &Freed) -> Counted| [of(&large, &freed_large), of(&small, &freed_small)];
        let [allocated, active, requested] = [
            both(&|b, f| Counted::of(b.allocated, f.bytes[1])),
            both(&|b, f| Counted::of(b.active, f.bytes[2])),
            both(&|b, f| Counted::of(b.requested, f.bytes[0])),
        ];
        let allocation = both(&|b, f| Counted::of(b.num_allocated, f.num_frees));
        // Blocks that wait for a stream were given back, and are still active.
        let actives = both(&|b, f| {
            Counted::of(b.num_active, f.num_frees.saturating_sub(b.num_active - b.num_allocated))
        });
        let meters = |class: Class| &driver.classes[class as usize];
        let split = |class: Class, current: u64| {
            if meters(class).segments.allocated() == 0 { Counted::NEVER } else { Counted::now(current) }
        };
        let oversize_segments = Counted::from(&driver.oversize_segments);
        // What may not be split lies in a segment that may not, or in an expandable one.
        let never_oversize = policy.max_split_size.is_none()
            || (!policy.expandable_segments && oversize_segments.allocated == Some(0));
        let Driver { segments, .. } = &*driver;
        Summary {
            num_ooms: statistics.num_ooms,
            num_alloc_retries: statistics.num_alloc_retries,
            allocated_bytes: Metric::of(statistics.allocated.into(), allocated[0], allocated[1]),
            active_bytes: Metric::of(statistics.active.into(), active[0], active[1]),
            requested_bytes: Metric::of(statistics.requested.into(), requested[0], requested[1]),
            reserved_bytes: Metric {
                all: statistics.reserved.into(),
                large: (&meters(Class::Large).reserved).into(),
                small: (&meters(Class::Small).reserved).into(),
            },
            inactive_split_bytes: Metric::sum(
                split(Class::Large, large.split_bytes),
                split(Class::Small, small.split_bytes),
            ),
            allocation: Metric::sum(allocation[0], allocation[1]),
            active: Metric::sum(actives[0], actives[1]),
            segment: Metric {
                all: segments.into(),
                large: (&meters(Class::Large).segments).into(),
                small: (&meters(Class::Small).segments).into(),
            },
            inactive_split: Metric::sum(
                split(Class::Large, large.num_split),
                split(Class::Small, small.num_split),
            ),
            oversize_allocations: if never_oversize {
                Counted::NEVER
            } else {
                Counted::now(large.num_oversize + small.num_oversize)
            },
            oversize_segments,
        }
    }
}

/// What was taken away from the blocks of one class, of all arenas.
fn freed_of<O: Observer>(arenas: &mut [Locked<'_, O>], class: Class) -> Freed {
    tallies(arenas).iter().fold(Freed::default(), |sum, tally| {
        let freed = tally.freed[class as usize];
        Freed {
            bytes: std::array::from_fn(|kind| sum.bytes[kind].saturating_add(freed.bytes[kind])),
            num_frees: sum.num_frees + freed.num_frees,
        }
    })
}
