//! Memory on the device outside the pool.

use vramscope_trace::samples::{Highest, Quantity, Series};

/// Bytes in use on the device that the pool did not reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside {
    /// Bytes outside the pool: contexts, libraries and their workspaces. They include other processes if `others` is unknown.
    pub hidden: OutsidePart,
    /// Bytes of other processes; `None` if the driver does not distinguish processes.
    pub others: Option<OutsidePart>,
}

/// A part of the memory outside the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsidePart {
    /// The minimum, in bytes.
    pub lowest: u64,
    /// The peak, with its time.
    pub highest: Highest,
    /// The value in the last sample, in bytes.
    pub last: u64,
}

impl Outside {
    pub(super) fn of(series: &Series) -> Option<Self> {
        let part = |quantity| {
            Some(OutsidePart {
                lowest: series.looks.iter().filter_map(|look| look.lowest.get(quantity)).min()?,
                highest: series.highest(quantity)?,
                last: series.looks.iter().rev().find_map(|look| look.last.get(quantity))?,
            })
        };
        Some(Self { hidden: part(Quantity::Hidden)?, others: part(Quantity::Others) })
    }
}
