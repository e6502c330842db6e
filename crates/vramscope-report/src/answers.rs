//! The inputs of the report formats.

use vramscope_analysis::{
    Both, BudgetCheck, By, DeviceDiff, DeviceReplay, Frames, IntervalSummary, SamplesSummary,
    SettingDifference, Summary, When,
};
use vramscope_trace::Event;
use vramscope_trace::formats::{Compression, Recording};
use vramscope_trace::samples::SampleLog;

use crate::advice::Advice;
use crate::names::Names;

/// A recording and the answers about its devices: the input of every format of the report.
#[derive(Debug, Clone)]
pub struct Answers<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// One summary for each requested device.
    pub devices: Vec<Summary>,
    /// The grouping of holders; `None` shows the tree of calls.
    pub by: Option<By>,
    /// The moment that the user chose; `None` reports the peak of allocated bytes.
    pub at: Option<When>,
    /// Limit on the rows of each list; without one, JSON has all rows, and text has [`ROWS`](crate::ROWS).
    pub top: Option<usize>,
    /// How the reader follows the report's advice.
    pub advice: Advice,
}

/// A recording and the answers about a range of its events.
#[derive(Debug, Clone)]
pub struct IntervalAnswers<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// One summary for each requested device that has these events.
    pub devices: Vec<IntervalSummary>,
    /// The grouping of allocations.
    pub by: By,
    /// Limit on the rows of each list; without one, JSON has all rows, and text has [`ROWS`](crate::ROWS).
    pub top: Option<usize>,
    /// How the reader follows the report's advice.
    pub advice: Advice,
}

/// A log of samples and the answers about its devices.
#[derive(Debug, Clone)]
pub struct SampleAnswers<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The log of samples.
    pub log: &'r SampleLog,
    /// Compression of the file.
    pub compression: Compression,
    /// One summary for each requested device.
    pub devices: Vec<SamplesSummary>,
}

/// A recording and the results of its replay.
#[derive(Debug, Clone)]
pub struct ReplayAnswers<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// The results for each requested device.
    pub devices: Vec<DeviceReplay>,
    /// How the reader follows the report's advice.
    pub advice: Advice,
}

/// A recording and the verdicts on its budgets.
#[derive(Debug, Clone)]
pub struct CheckAnswers<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// File name of the baseline, if there is one.
    pub baseline: Option<&'r str>,
    /// The verdicts for each requested device.
    pub devices: Vec<BudgetCheck>,
    /// Devices that were used in the baseline and are missing in the recording.
    pub only_in_baseline: Vec<i64>,
    /// How the reader follows the report's advice.
    pub advice: Advice,
}

/// One of two recordings that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'r> {
    /// File name, as the user gave it.
    pub file: &'r str,
    /// The recording.
    pub recording: &'r Recording,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
}

impl<'r> Compared<'r> {
    pub(crate) fn names(&self) -> Names<'r> {
        Names { trace: &self.recording.trace, frames: self.frames }
    }

    /// The event with this index on a device; `None` if there is none.
    pub(crate) fn event(&self, device: i64, number: usize) -> Option<Event> {
        let device = self.recording.trace.devices.iter().find(|of| of.device == device)?;
        (number < device.events.len()).then(|| device.events.get(number))
    }
}

/// Two recordings and their differences.
#[derive(Debug, Clone)]
pub struct DiffAnswers<'r> {
    /// The two recordings.
    pub recordings: Both<Compared<'r>>,
    /// The requested devices that both recordings used.
    pub devices: Vec<DeviceDiff>,
    /// Devices that only one recording used.
    pub only: Both<Vec<i64>>,
    /// The allocator settings that differ.
    pub settings: Vec<SettingDifference>,
    /// The compared events, as "At the end of step 3"; `None` compares at the peak of each.
    pub at: Option<String>,
    /// Bytes that the change from the first recording to the second should free.
    pub promised: Option<u64>,
    /// How the reader follows the report's advice.
    pub advice: Advice,
}

impl DiffAnswers<'_> {
    /// Whether the recordings do not differ.
    pub fn is_same(&self) -> bool {
        self.devices.iter().all(DeviceDiff::is_same) && self.only.a.is_empty() && self.only.b.is_empty()
    }
}
