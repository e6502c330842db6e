//! Summary of an interval of a recording, given by event indices.

use regex::Regex;

use crate::groups::{By, IntervalGroups, KnownProperties, interval_groups};
use crate::history::{History, Interval, Moment, Peak, Quality};
use crate::regions::runs_between;
use crate::stacks::{Frames, StackFilter};
use crate::steps::ProgramPart;
use vramscope_basics::Cancel;

/// An interval of events, with the grouping and the filter for its summary.
#[derive(Debug, Clone)]
pub struct IntervalOptions {
    /// The index of the first event.
    pub first: usize,
    /// The index of the last event, inclusive.
    pub last: usize,
    /// The grouping of allocations.
    pub by: By,
    /// Includes only stacks with a frame that this regular expression matches, as `file:line function`.
    pub filter: Option<Regex>,
}

/// The effects of consecutive events on one device.
#[derive(Debug, Clone)]
pub struct IntervalSummary {
    /// The device index.
    pub device: i64,
    /// Total number of events of the device.
    pub events: usize,
    /// The part of the program that the interval is.
    pub part: ProgramPart,
    /// The peak of allocated bytes in the interval, with its first moment.
    pub peak: Peak,
    /// Allocated and freed memory, in groups.
    pub totals: IntervalGroups,
    /// How accurate these numbers are, and the reasons why not more.
    pub quality: Quality,
}

impl IntervalSummary {
    /// Summarizes the interval for the device of `history`. Returns `None` if the device does not have all these events, or if it was
    /// cancelled. `frames` must be those of the history's trace.
    pub fn of(
        history: &History,
        frames: &Frames,
        options: &IntervalOptions,
        cancel: &Cancel,
    ) -> Option<Self> {
        let device = history.device();
        if options.first > options.last || options.last >= device.events.len() {
            return None;
        }
        let (from, to) = (Moment::from_index(options.first), Moment::after(options.last));
        let interval = Interval::of(history, from, to);
        let known = KnownProperties::throughout(history);
        let filter = options.filter.as_ref().map(|filter| StackFilter::new(history.trace(), filter));
        let takes = |id: usize| filter.as_ref().is_none_or(|f| f.takes(history.allocations[id].stack));
        let totals = interval_groups(history, frames, &known, &interval, options.by, &takes, cancel)?;
        Some(Self {
            device: device.device,
            events: device.events.len(),
            part: ProgramPart::of(&runs_between(history), known.steps(), from, to),
            peak: interval.peak,
            totals,
            quality: history.quality,
        })
    }
}
