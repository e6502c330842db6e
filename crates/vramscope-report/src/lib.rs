//! Answers about GPU memory, written out: one file per form. A report computes nothing; what it says comes
//! from [`vramscope_analysis`].

mod advice;
mod doubts;
mod fit;
mod json;
mod junit;
mod names;
mod shown;
mod spreadsheet;
mod text;
mod units;
mod verdicts;

pub use advice::Advice;
pub use doubts::{doubts, replay_doubts};
pub use fit::{fit, fit_end};
pub use json::{CheckJson, InfoJson, ReplayJson, ReportJson, write_json, write_json_line};
pub use junit::junit;
pub use names::Names;
pub use shown::{LONGEST_SHOWN, Shown};
pub use spreadsheet::harmless_cell;
pub use text::{TextOptions, check, info, replay, report};
pub use units::{bytes, count, counted, share, signed_bytes};

use vramscope_analysis::{BudgetCheck, DeviceReplay, Frames, Summary};
use vramscope_trace::formats::Recording;

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
    pub by: Option<vramscope_analysis::By>,
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
