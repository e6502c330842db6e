//! What the forms of a report are made from.

use vramscope_analysis::{BudgetCheck, By, DeviceReplay, Frames, Summary};
use vramscope_trace::formats::Recording;

use crate::advice::Advice;

/// A recording and the answers about its devices: what every form of the report is made from.
#[derive(Debug, Clone)]
pub struct Answers<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// One summary for each device asked for.
    pub devices: Vec<Summary>,
    /// What holders are grouped by; `None` is the tree of calls.
    pub by: Option<By>,
    /// The user chose the moment; otherwise it is the peak of allocated bytes.
    pub at: Option<usize>,
    /// How its reader does what the report advises.
    pub advice: Advice,
}

/// A recording and what its replay answers.
#[derive(Debug, Clone)]
pub struct ReplayAnswers<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// The answers for each device asked for.
    pub devices: Vec<DeviceReplay>,
    /// How its reader does what the report advises.
    pub advice: Advice,
}

/// A recording and how it stands to its budgets.
#[derive(Debug, Clone)]
pub struct CheckAnswers<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// The name of the file it is compared with, where there is one.
    pub baseline: Option<&'r str>,
    /// The verdicts on each device asked for.
    pub devices: Vec<BudgetCheck>,
    /// Devices that the baseline used, and the recording does not have.
    pub only_in_baseline: Vec<i64>,
    /// How its reader does what the report advises.
    pub advice: Advice,
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
