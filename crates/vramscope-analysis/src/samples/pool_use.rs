//! What of the pool was in use: reserved bytes against active ones.

use vramscope_trace::samples::{Highest, Quantity, Series};

/// Reserved bytes, and how many of them were in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolUse {
    /// The most that was reserved, and when.
    pub reserved: Highest,
    /// The most that was active at one time; allocated, where active bytes are not known.
    pub in_use: Highest,
    /// Whether `in_use` is of active bytes.
    pub is_active: bool,
    /// What was reserved at most beyond the most that was ever in use at one time: free between blocks, or rounded up to whole
    /// segments. It is never less than that, and more where the cache was given back meanwhile.
    pub never_in_use: u64,
    /// Reserved and not in use, in bytes: on average over all samples, at most, and in the last sample.
    pub unused_on_average: u64,
    /// See `unused_on_average`.
    pub unused_at_most: u64,
    /// See `unused_on_average`.
    pub unused_at_end: u64,
    /// Allocated and not requested, in the sample in which most was allocated; `None` where requested bytes are not known.
    pub internal: Option<u64>,
    /// So much was never in use that it is worth a look.
    pub is_fragmented: bool,
}

/// The part of the reserved bytes that is worth a look, and the least.
const LEAST_PART: u64 = 5;
const LEAST: u64 = 128 << 20;

impl PoolUse {
    pub(super) fn of(series: &Series) -> Option<Self> {
        let reserved = series.highest(Quantity::Reserved)?;
        let active = series.highest(Quantity::Active);
        let in_use = active.or_else(|| series.highest(Quantity::Allocated))?;
        // The samples know nothing of active bytes between them, but of allocated ones they may.
        let in_use = series.highest(Quantity::Allocated).filter(|a| a.bytes > in_use.bytes).unwrap_or(in_use);
        let unused =
            || series.looks.iter().filter_map(|look| Some((look, look.last.get(Quantity::Inactive)?)));
        let samples: u128 = unused().map(|(look, _)| u128::from(look.samples)).sum();
        let sum: u128 = unused().map(|(look, bytes)| u128::from(look.samples) * u128::from(bytes)).sum();
        let never_in_use = reserved.bytes.saturating_sub(in_use.bytes);
        let most_seen = |quantity| series.most_seen.get(quantity);
        let internal = most_seen(Quantity::Allocated).zip(most_seen(Quantity::Requested));
        Some(Self {
            reserved,
            in_use,
            is_active: active.is_some(),
            never_in_use,
            unused_on_average: u64::try_from(sum.checked_div(samples).unwrap_or(0)).unwrap_or(u64::MAX),
            unused_at_most: series.highest(Quantity::Inactive).map_or(0, |highest| highest.bytes),
            unused_at_end: series.last().get(Quantity::Inactive).unwrap_or(0),
            internal: internal.map(|(allocated, requested)| allocated.saturating_sub(requested)),
            is_fragmented: never_in_use >= LEAST && never_in_use >= reserved.bytes / LEAST_PART,
        })
    }
}
