//! What lies on the device outside of the pool.

use vramscope_trace::samples::{Highest, Quantity, Series};

/// Bytes in use on the device that the pool did not reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outside {
    /// Outside of the pool: contexts, libraries and their workspaces. Other processes are among them where `others` is not known.
    pub hidden: OutsidePart,
    /// What other processes have; `None` where the driver does not tell processes apart.
    pub others: Option<OutsidePart>,
}

/// A part of what lies outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsidePart {
    /// So much was there all the time.
    pub lowest: u64,
    /// The most, and when.
    pub highest: Highest,
    /// In the last sample.
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
