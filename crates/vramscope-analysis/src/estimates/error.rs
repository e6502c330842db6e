//! The measured errors of estimates.

use super::EstimatedChange;

/// The errors of the estimates of one change, measured by `acceptance/run.py estimates`. An error is the estimated peak of allocated bytes
/// minus that of a run of the changed program, in percent of the latter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimateError {
    /// Number of measured programs.
    pub cases: u32,
    /// The mean of the absolute errors.
    pub mean: f64,
    /// The lowest error; negative if that estimate was too low.
    pub lowest: f64,
    /// The highest error.
    pub highest: f64,
    /// Number of estimates that were too low by more than 1 %.
    pub too_low: u32,
}

/// The errors, in the order of [`EstimatedChange::ALL`].
const ERRORS: [(u32, f64, f64, f64, u32); 10] = [
    (19, 0.3, -0.2, 5.1, 0),
    (19, 0.1, 0.0, 0.4, 0),
    (19, 0.1, -0.1, 0.4, 0),
    (19, 4.3, -1.2, 13.7, 2),
    (17, 0.8, -2.5, 3.1, 3),
    (19, 3.5, -3.2, 11.8, 3),
    (19, 0.3, -0.4, 1.1, 0),
    (18, 0.2, -0.7, 0.2, 0),
    (19, 5.1, -2.0, 23.3, 1),
    (19, 1.2, -3.2, 5.9, 1),
];

pub(super) fn of(change: EstimatedChange) -> EstimateError {
    let (cases, mean, lowest, highest, too_low) = ERRORS[change as usize];
    EstimateError { cases, mean, lowest, highest, too_low }
}
