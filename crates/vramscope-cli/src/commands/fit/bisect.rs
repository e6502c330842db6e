//! Bisection between a number that fits and one that does not.

use std::ops::ControlFlow;

/// Finds the boundary between `fitting`, which fits, and `other`, which does not: the last number from `fitting` on that fits, if those
/// beyond it do not. `fits` returns `Break` to stop early; then the last number that is known to fit is returned.
///
/// # Errors
/// Errors of `fits`.
pub(crate) fn last_fitting<E>(
    fitting: u64,
    other: u64,
    mut fits: impl FnMut(u64) -> Result<ControlFlow<(), bool>, E>,
) -> Result<u64, E> {
    let (mut fitting, mut other) = (fitting, other);
    while fitting.abs_diff(other) > 1 {
        let middle = u64::midpoint(fitting, other);
        match fits(middle)? {
            ControlFlow::Continue(true) => fitting = middle,
            ControlFlow::Continue(false) => other = middle,
            ControlFlow::Break(()) => break,
        }
    }
    Ok(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(fitting: u64, other: u64, fits: impl Fn(u64) -> bool) -> (u64, u64) {
        let mut runs = 0;
        let found = last_fitting::<()>(fitting, other, |number| {
            runs += 1;
            Ok(ControlFlow::Continue(fits(number)))
        });
        (found.unwrap(), runs)
    }

    #[test]
    fn every_boundary_is_found_in_both_directions() {
        for boundary in 0..256 {
            let (found, runs) = last(0, 256, |number| number <= boundary);
            assert_eq!(found, boundary);
            assert!(runs <= 8, "{runs} runs for {boundary}");
            // From above: the smallest number that fits.
            let (found, runs) = last(256, 0, |number| number > boundary);
            assert_eq!(found, boundary + 1);
            assert!(runs <= 8, "{runs} runs for {boundary}");
        }
        assert_eq!(last(3, 4, |_| unreachable!()), (3, 0));
        assert_eq!(last(u64::MAX, u64::MAX - 2, |_| true), (u64::MAX - 1, 1));
    }

    #[test]
    fn an_early_stop_keeps_what_is_known() {
        let mut runs = 0;
        let found = last_fitting::<()>(0, 100, |_| {
            runs += 1;
            Ok(if runs < 3 { ControlFlow::Continue(true) } else { ControlFlow::Break(()) })
        });
        assert_eq!((found, runs), (Ok(75), 3));
        assert_eq!(last_fitting(0, 100, |_| Err("failed")), Err("failed"));
    }
}
