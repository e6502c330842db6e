//! The search between a number that fits and one that does not.

/// A measured number and its peak in bytes; `None` if the peak is unknown.
pub(crate) type Point = (u64, Option<u64>);

/// The number to measure next between one that fits and a larger one that does not, so that `runs` more runs suffice in any case: the one
/// whose peak is `limit` if the peak grows evenly. `None` if there is no number between them.
pub(crate) fn next(fitting: Point, other: Point, limit: u64, runs: u32) -> Option<u64> {
    let gap = other.0.saturating_sub(fitting.0);
    if gap < 2 {
        return None;
    }
    let even = match (fitting.1, other.1) {
        (Some(low), Some(high)) if low <= limit && low < high => {
            let part = u128::from(limit - low) * u128::from(gap) / u128::from(high - low);
            fitting.0.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
        }
        _ => u64::midpoint(fitting.0, other.0),
    };
    // A gap of 2^n needs n runs.
    let most = 1u64.checked_shl(runs.saturating_sub(1)).unwrap_or(u64::MAX).max(gap.div_ceil(2));
    let lowest = other.0.saturating_sub(most).max(fitting.0 + 1);
    let highest = fitting.0.saturating_add(most).min(other.0 - 1);
    Some(even.clamp(lowest, highest))
}

/// The runs that find the boundary in a gap in any case, and three for guesses.
pub(crate) fn runs(gap: u64) -> u32 {
    gap.next_power_of_two().trailing_zeros() + 3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches from 1 to 256, and returns the last number that fits and the number of runs.
    fn search(limit: u64, peak: impl Fn(u64) -> u64) -> (u64, u32) {
        let point = |number| (number, Some(peak(number)));
        let (mut fitting, mut other) = (point(1), point(256));
        let (mut left, mut used) = (runs(255), 0);
        while let Some(number) = next(fitting, other, limit, left) {
            used += 1;
            left = left.saturating_sub(1);
            if peak(number) <= limit {
                fitting = point(number);
            } else {
                other = point(number);
            }
        }
        (fitting.0, used)
    }

    #[test]
    fn even_growth_needs_two_runs() {
        for last in 2..255 {
            let (found, used) = search(1000 + 10 * last + 5, |number| 1000 + 10 * number);
            assert_eq!(found, last);
            assert!(used <= 2, "{used} runs for {last}");
        }
    }

    #[test]
    fn unknown_peaks_are_halved() {
        assert_eq!(next((0, None), (256, Some(1)), 5, 8), Some(128));
        assert_eq!(next((3, None), (4, None), 5, 8), None);
        assert_eq!(next((0, Some(0)), (u64::MAX, Some(10)), 5, 1), Some(u64::MAX / 2));
    }

    proptest! {
        #[test]
        fn every_boundary_is_found(steps in proptest::collection::vec(0u64..10_000, 256), share in 0u64..1000) {
            let peaks: Vec<u64> = steps.iter().scan(0, |sum, step| { *sum += step; Some(*sum) }).collect();
            let peak = |number: u64| peaks[number as usize - 1];
            let limit = peak(1) + (peak(256) - peak(1)) * share / 1000;
            prop_assume!(peak(256) > limit);
            let (found, used) = search(limit, peak);
            prop_assert!(peak(found) <= limit && peak(found + 1) > limit);
            prop_assert!(used <= 11, "{} runs", used);
        }
    }
}
