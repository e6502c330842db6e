//! [`Source`]: the input of an export.

use std::sync::Arc;

use vramscope_analysis::{Frames, History, Moment};
use vramscope_report::Names;
use vramscope_trace::{DeviceTrace, Trace};

/// A recording, and the devices to export.
#[derive(Debug, Clone)]
pub struct Source<'r> {
    /// The recording.
    pub trace: &'r Arc<Trace>,
    /// Classifies each frame as user code, library code or compiled code.
    pub frames: &'r Frames,
    /// The indices of the devices in [`Trace::devices`].
    pub devices: Vec<usize>,
}

impl<'r> Source<'r> {
    /// Returns the history of each device, lazily, so that only one is in memory at a time.
    pub(crate) fn histories(&self) -> impl Iterator<Item = History> + '_ {
        self.devices.iter().map(|&position| History::replayed(self.trace, position))
    }

    pub(crate) fn devices(&self) -> impl Iterator<Item = &'r DeviceTrace> + '_ {
        self.devices.iter().map(|&position| &self.trace.devices[position])
    }

    pub(crate) fn names(&self) -> Names<'r> {
        Names { trace: self.trace, frames: self.frames }
    }
}

/// Returns the exported state: after event `at`, or at the peak of allocated bytes if `at` is `None`.
pub(crate) fn moment(history: &History, at: Option<usize>) -> Moment {
    at.map_or_else(|| history.peaks().allocated.moment, Moment::after)
}
