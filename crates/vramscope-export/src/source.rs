//! What is exported.

use vramscope_analysis::{Frames, History, Moment};
use vramscope_report::Names;
use vramscope_trace::{DeviceTrace, Trace};

/// A recording, and which of its devices are exported.
#[derive(Debug, Clone)]
pub struct Source<'r> {
    /// The recording.
    pub trace: &'r Trace,
    /// Whose code its frames are.
    pub frames: &'r Frames,
    /// The devices, all of them of `trace`.
    pub devices: Vec<&'r DeviceTrace>,
}

impl<'r> Source<'r> {
    /// The history of each device, one after the other: only one is held at a time.
    pub(crate) fn histories(&self) -> impl Iterator<Item = History<'r>> + '_ {
        self.devices.iter().map(|device| History::replayed(self.trace, device))
    }

    pub(crate) fn names(&self) -> Names<'r> {
        Names { trace: self.trace, frames: self.frames }
    }
}

/// The moment to look at: after event `at`, or the peak of allocated bytes.
pub(crate) fn moment(history: &History<'_>, at: Option<usize>) -> Moment {
    at.map_or_else(|| history.peaks().allocated.moment, Moment::after)
}
