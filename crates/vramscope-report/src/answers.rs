//! What the forms of a report are made from.

use vramscope_analysis::{
    Both, BudgetCheck, By, DeviceDiff, DeviceReplay, Frames, SamplesSummary, SettingDifference, SpanSummary,
    Summary,
};
use vramscope_trace::Event;
use vramscope_trace::formats::{Compression, Recording};
use vramscope_trace::samples::SampleLog;

use crate::advice::Advice;
use crate::names::Names;

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

/// A recording and what a range of its events did.
#[derive(Debug, Clone)]
pub struct SpanAnswers<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// One summary for each device asked for that has these events.
    pub devices: Vec<SpanSummary>,
    /// What allocations are grouped by.
    pub by: By,
    /// How its reader does what the report advises.
    pub advice: Advice,
}

/// A log of samples and the answers about its devices.
#[derive(Debug, Clone)]
pub struct SampleAnswers<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The log.
    pub log: &'r SampleLog,
    /// How the file was compressed.
    pub compression: Compression,
    /// One summary for each device asked for.
    pub devices: Vec<SamplesSummary>,
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

/// One of two recordings that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'r> {
    /// The file's name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Whose code its frames are.
    pub frames: &'r Frames,
}

impl<'r> Compared<'r> {
    pub(crate) fn names(&self) -> Names<'r> {
        Names { trace: &self.recording.trace, frames: self.frames }
    }

    /// An event of a device, where there is one of this number.
    pub(crate) fn event(&self, device: i64, number: usize) -> Option<Event> {
        let device = self.recording.trace.devices.iter().find(|of| of.device == device)?;
        (number < device.events.len()).then(|| device.events.get(number))
    }
}

/// Two recordings, and what they have in common.
#[derive(Debug, Clone)]
pub struct DiffAnswers<'r> {
    /// The recordings.
    pub recordings: Both<Compared<'r>>,
    /// The devices asked for that both used.
    pub devices: Vec<DeviceDiff>,
    /// Devices that only the one or the other used.
    pub only: Both<Vec<i64>>,
    /// The settings of the allocator that differ.
    pub settings: Vec<SettingDifference>,
    /// Where the recordings are compared, as "At the end of step 3"; `None` is the peak of each.
    pub at: Option<String>,
    /// How its reader does what the report advises.
    pub advice: Advice,
}

impl DiffAnswers<'_> {
    /// Nothing differs.
    pub fn is_same(&self) -> bool {
        self.devices.iter().all(DeviceDiff::is_same) && self.only.a.is_empty() && self.only.b.is_empty()
    }
}

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
