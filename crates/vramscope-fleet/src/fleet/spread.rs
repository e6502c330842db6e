//! The distribution of peaks over ranks.

use serde::Serialize;

/// The distribution of a peak over ranks; each value belongs to a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The lowest.
    pub lowest: PeakOfRank,
    /// A quarter of the ranks have this peak or a lower one.
    pub lower_quartile_bytes: u64,
    /// The rank with the median peak; the lower one of two.
    pub median: PeakOfRank,
    /// Three quarters of the ranks have this peak or a lower one.
    pub upper_quartile_bytes: u64,
    /// The highest.
    pub highest: PeakOfRank,
    /// The sum divided by the number of ranks, rounded down.
    pub mean_bytes: u64,
}

/// The peak of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakOfRank {
    /// The rank's number.
    pub rank: u64,
    /// The rank's peak.
    pub bytes: u64,
}

impl Spread {
    /// Returns the distribution of (peak, rank) pairs; `None` without any.
    pub(super) fn of(peaks: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let mut peaks: Vec<(u64, u64)> = peaks.collect();
        peaks.sort_unstable();
        // The first peak that is not exceeded in this number of quarters of the ranks.
        let at = |quarters: usize| {
            let (bytes, rank) = *peaks.get((peaks.len() * quarters).div_ceil(4).max(1) - 1)?;
            Some(PeakOfRank { rank, bytes })
        };
        // Of several ranks with the highest peak, the first.
        let most = peaks.last()?.0;
        let highest = peaks.iter().find(|(bytes, _)| *bytes == most)?;
        Some(Self {
            lowest: at(0)?,
            lower_quartile_bytes: at(1)?.bytes,
            median: at(2)?,
            upper_quartile_bytes: at(3)?.bytes,
            highest: PeakOfRank { rank: highest.1, bytes: highest.0 },
            mean_bytes: mean(&peaks.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>())?,
        })
    }
}

/// Returns the mean, rounded down.
pub(super) fn mean(values: &[u64]) -> Option<u64> {
    let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
    sum.checked_div(values.len() as u128).map(|mean| mean as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_values_of_ranks() {
        let of = |peaks: &[u64]| Spread::of(peaks.iter().copied().zip(10..)).unwrap();
        let s = of(&[50, 20, 40, 10, 30, 50]);
        assert_eq!(
            (s.lowest, s.highest),
            (PeakOfRank { rank: 13, bytes: 10 }, PeakOfRank { rank: 10, bytes: 50 })
        );
        assert_eq!((s.lower_quartile_bytes, s.median.bytes, s.upper_quartile_bytes), (20, 30, 50));
        assert_eq!(s.mean_bytes, 33);
        let one = of(&[7]);
        assert_eq!(
            (one.lowest, one.median, one.highest.bytes, one.mean_bytes),
            (one.highest, one.highest, 7, 7)
        );
        assert_eq!(Spread::of(std::iter::empty()), None);
    }
}
