//! Answers about GPU memory, written out: one file per form. A report computes nothing; what it says comes
//! from [`vramscope_analysis`].

mod doubts;
mod json;
mod names;
mod text;
mod units;

pub use doubts::doubts;
pub use json::{InfoJson, ReplayJson, ReportJson};
pub use names::{Names, clean, fit};
pub use text::{TextOptions, info, replay, report};
pub use units::{bytes, count, counted, share};

use vramscope_analysis::{DeviceReplay, Frames, Summary};
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
}
