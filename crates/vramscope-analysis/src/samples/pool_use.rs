//! How much of the pool was in use: active bytes compared with reserved bytes.

use vramscope_trace::samples::{Highest, Quantity, Series};

/// Reserved bytes, and the part of them that was in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolUse {
    /// The peak of reserved bytes, with its time.
    pub reserved: Highest,
    /// The peak of active bytes, with its time; if active bytes are unknown, that of allocated bytes.
    pub in_use: Highest,
    /// Whether `in_use` is the peak of active bytes.
    pub is_active: bool,
    /// The peak of reserved bytes minus the peak of bytes in use: free memory between blocks, or rounding to whole segments. This
    /// is a lower bound of the memory that was never in use; it was more if the cache was released in the meantime.
    pub never_in_use: u64,
    /// Bytes reserved but not in use: the average over all samples, the maximum, and the value in the last sample.
    pub unused_on_average: u64,
    /// See `unused_on_average`.
    pub unused_at_most: u64,
    /// See `unused_on_average`.
    pub unused_at_end: u64,
    /// Bytes allocated but not requested, in the sample with the most allocated bytes; `None` if requested bytes are unknown.
    pub internal: Option<u64>,
    /// Whether enough memory was never in use to be reported.
    pub is_fragmented: bool,
}

/// The smallest fraction (one in this many) of the reserved bytes that is reported, and the smallest number of bytes.
const LEAST_PART: u64 = 5;
const LEAST: u64 = 128 << 20;

impl PoolUse {
    pub(super) fn of(series: &Series) -> Option<Self> {
        let reserved = series.highest(Quantity::Reserved)?;
        let active = series.highest(Quantity::Active);
        let in_use = active.or_else(|| series.highest(Quantity::Allocated))?;
        // Samples do not see active bytes between them, but a pool may report allocated bytes.
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
