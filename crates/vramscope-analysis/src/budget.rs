//! Budgets: whether a recording keeps to what was agreed, or to what an earlier recording took.

use std::cell::OnceCell;
use std::sync::Arc;

use vramscope_trace::{Action, Category, Trace};

use crate::counters::{Peak, Peaks};
use crate::frames::Frames;
use crate::growth::{Grown, HistoryAt, grown};
use crate::history::{History, Quality};
use crate::holders::{By, Holder, group, holders_at};
use crate::leak_rounds::leak_suspects;
use crate::leaks::LeakSuspect;
use crate::ooms::ooms;
use crate::out_of_memory::OutOfMemory;
use crate::purposes::Purposes;
use crate::steps::Steps;
use crate::timeline::ByteKind;

/// A limit that each device of a recording must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// The peak of this kind of bytes is at most this many bytes.
    Peak(ByteKind, u64),
    /// The peak of this kind of bytes exceeds the baseline's by no more than this.
    Growth(ByteKind, Growth),
    /// What is for this is at most this many bytes at any moment.
    Category(Category, u64),
    /// No line is suspected of a leak; see [`leak_suspects`].
    NoLeaks,
    /// No request for memory failed.
    NoOoms,
}

/// By how much a peak may exceed the baseline's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// By this many bytes.
    Bytes(u64),
    /// By this share of the baseline's peak, in percent: 5.0 is five percent.
    Percent(f64),
}

impl Growth {
    /// The bytes by which a peak may exceed one of `baseline` bytes, rounded down.
    pub fn over(self, baseline: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (baseline as f64 * percent / 100.0) as u64,
        }
    }
}

/// One device of a recording: the one that is checked, or the baseline that it is compared with.
#[derive(Debug, Clone, Copy)]
pub struct DeviceRecording<'t> {
    /// The recording.
    pub trace: &'t Arc<Trace>,
    /// The device's position in [`Trace::devices`].
    pub position: usize,
    /// Whose code the recording's frames are.
    pub frames: &'t Frames,
}

/// Whether one device keeps each of its budgets, and how far the numbers can be trusted.
#[derive(Debug, Clone)]
pub struct BudgetCheck {
    /// The device's number.
    pub device: i64,
    /// Events recorded.
    pub events: usize,
    /// A verdict for each budget, in their order.
    pub verdicts: Vec<Verdict>,
    /// Out-of-memory events, whether a budget asks for them or not: what the run would have needed is not known.
    pub ooms: usize,
    /// How far the numbers can be trusted.
    pub quality: Quality,
    /// How far the numbers of the baseline can be trusted; `None` where there is no baseline, or it lacks the device.
    pub baseline_quality: Option<Quality>,
}

/// Whether a device keeps one budget, and the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether the budget is kept.
    pub status: Status,
    /// The budget, and what was found.
    pub measured: Measured,
}

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The budget is kept.
    Kept,
    /// The budget is exceeded.
    Exceeded,
    /// The recordings do not tell whether it is kept.
    Unknown(Unknown),
}

/// Why nobody can tell whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Only the end state was recorded: what was before is not known.
    NoHistory,
    /// No allocation was recorded with its stack.
    NoStacks,
    /// The baseline lacks the device.
    NoBaseline,
    /// Only the end state of the baseline was recorded.
    NoBaselineHistory,
    /// The oldest events were probably dropped ([`Quality::probably_overflowed`]): what they did is not known.
    EventsDropped,
    /// Nothing tells what memory was for; see [`Purposes`].
    NoCategories,
    /// The oldest events of the baseline were probably dropped: its peak may have been higher.
    BaselineEventsDropped,
}

/// A budget, and what the recording shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// Of [`Budget::Peak`].
    Peak {
        /// The kind of bytes.
        kind: ByteKind,
        /// The highest peak that keeps the budget.
        limit: u64,
        /// The peak.
        peak: HighWater,
        /// Who held the allocated bytes then, by line, most first.
        holders: Vec<Holder>,
    },
    /// Of [`Budget::Growth`].
    Growth {
        /// The kind of bytes.
        kind: ByteKind,
        /// How much is allowed.
        growth: Growth,
        /// The peak.
        peak: HighWater,
        /// The same peak of the baseline; `None` where the baseline lacks the device.
        baseline: Option<HighWater>,
        /// Lines that hold more at this peak than at the baseline's, those that grew most first.
        lines: Vec<Grown>,
    },
    /// Of [`Budget::Category`].
    Category {
        /// What it is for.
        category: Category,
        /// The most bytes that keep the budget.
        limit: u64,
        /// The most allocated bytes that were for it, and the first moment that had them.
        peak: Peak,
        /// Who held them then, by line, most first.
        holders: Vec<Holder>,
    },
    /// Of [`Budget::NoLeaks`]: lines that leak, most bytes first.
    Leaks(Vec<LeakSuspect>),
    /// Of [`Budget::NoOoms`].
    Ooms {
        /// Failed requests, oldest first; see [`ooms`].
        explained: Vec<OutOfMemory>,
        /// How many failed requests there are beyond those.
        more: usize,
    },
}

/// The peak of one kind of bytes, and what was allocated then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HighWater {
    /// The highest bytes, and the first moment that had them.
    pub peak: Peak,
    /// Allocated bytes at the moment of the peak.
    pub allocated: u64,
    /// The peak is exact; [`Quality`] says why it is not.
    pub exact: bool,
}

impl BudgetCheck {
    /// Checks `device` against `budgets`. `baseline` is the same device of the recording that [`Budget::Growth`] compares
    /// with; `None` where that recording lacks it.
    pub fn of(
        device: DeviceRecording<'_>,
        baseline: Option<DeviceRecording<'_>>,
        budgets: &[Budget],
    ) -> Self {
        let new = Side::of(device);
        let old = baseline.map(Side::of);
        Self {
            device: new.history.device().device,
            events: new.history.device().events.len(),
            verdicts: budgets.iter().map(|&budget| new.verdict(old.as_ref(), budget)).collect(),
            ooms: new.history.device().events.actions().iter().filter(|&&a| a == Action::Oom).count(),
            quality: new.history.quality,
            baseline_quality: old.map(|old| old.history.quality),
        }
    }

    /// Every budget is known to be kept.
    pub fn keeps_all(&self) -> bool {
        self.verdicts.iter().all(|v| v.status == Status::Kept)
    }
}

/// One of the two recordings that are compared.
struct Side<'t> {
    history: History,
    /// What its memory was for, once a budget asks.
    purposes: OnceCell<Purposes>,
    peaks: Peaks,
    frames: &'t Frames,
}

impl<'t> Side<'t> {
    fn of(device: DeviceRecording<'t>) -> Self {
        let history = History::replayed(device.trace, device.position);
        Self { peaks: history.peaks(), history, purposes: OnceCell::new(), frames: device.frames }
    }

    fn verdict(&self, baseline: Option<&Self>, budget: Budget) -> Verdict {
        match budget {
            Budget::Peak(kind, limit) => self.peak(kind, limit),
            Budget::Growth(kind, growth) => self.growth(baseline, kind, growth),
            Budget::Category(category, limit) => self.category(category, limit),
            Budget::NoLeaks => self.leaks(),
            Budget::NoOoms => self.ooms(),
        }
    }

    fn peak(&self, kind: ByteKind, limit: u64) -> Verdict {
        let peak = self.high_water(kind);
        let status =
            if peak.peak.bytes > limit { Status::Exceeded } else { self.kept_unless(self.lacks_events()) };
        let holders = holders_at(&self.history, self.frames, peak.peak.moment, By::Line);
        Verdict { status, measured: Measured::Peak { kind, limit, peak, holders } }
    }

    fn growth(&self, baseline: Option<&Self>, kind: ByteKind, growth: Growth) -> Verdict {
        let peak = self.high_water(kind);
        let Some(old) = baseline else {
            let status = self.kept_unless(self.history.device().was_used().then_some(Unknown::NoBaseline));
            let measured = Measured::Growth { kind, growth, peak, baseline: None, lines: Vec::new() };
            return Verdict { status, measured };
        };
        let before = old.high_water(kind);
        let limit = before.peak.bytes.saturating_add(growth.over(before.peak.bytes));
        let status = match old.lacks_history() {
            Some(_) => Status::Unknown(Unknown::NoBaselineHistory),
            // A higher peak of the baseline would allow more, never less.
            None if peak.peak.bytes > limit && old.lost_events() => {
                Status::Unknown(Unknown::BaselineEventsDropped)
            }
            None if peak.peak.bytes > limit => Status::Exceeded,
            None => self.kept_unless(self.lacks_events()),
        };
        let lines = grown(self.at(peak), old.at(before));
        Verdict { status, measured: Measured::Growth { kind, growth, peak, baseline: Some(before), lines } }
    }

    fn category(&self, category: Category, limit: u64) -> Verdict {
        let history = &self.history;
        let purposes = self.purposes.get_or_init(|| Purposes::of(history));
        let peak = purposes.peak(history, category);
        let nothing = !history.allocations.iter().any(|a| purposes.category(a).is_told());
        let lacks = (nothing && !history.allocations.is_empty()).then_some(Unknown::NoCategories);
        let status = if peak.bytes > limit {
            Status::Exceeded
        } else {
            self.kept_unless(self.lacks_history().or(lacks).or(self.lacks_events()))
        };
        let held = history.allocated_at(peak.moment).filter(|a| purposes.category(a) == category);
        let holders = group(history, self.frames, held, None, By::Line);
        Verdict { status, measured: Measured::Category { category, limit, peak, holders } }
    }

    fn leaks(&self) -> Verdict {
        let mut suspects = leak_suspects(&self.history, self.frames);
        if !suspects.is_empty() {
            let purposes = self.purposes.get_or_init(|| Purposes::of(&self.history));
            Steps::of(&self.history, purposes).measure_leaks(&self.history, &mut suspects);
        }
        let status = if suspects.is_empty() {
            self.kept_unless(self.lacks_history().or(self.lacks_stacks()).or(self.lacks_events()))
        } else {
            Status::Exceeded
        };
        Verdict { status, measured: Measured::Leaks(suspects) }
    }

    fn ooms(&self) -> Verdict {
        let (explained, more) = ooms(&self.history, self.frames);
        let status =
            if explained.is_empty() { self.kept_unless(self.lacks_events()) } else { Status::Exceeded };
        Verdict { status, measured: Measured::Ooms { explained, more } }
    }

    fn kept_unless(&self, unknown: Option<Unknown>) -> Status {
        unknown.map_or(Status::Kept, Status::Unknown)
    }

    /// The end state is all there is.
    fn lacks_history(&self) -> Option<Unknown> {
        (self.history.device().was_used() && self.history.device().events.is_empty())
            .then_some(Unknown::NoHistory)
    }

    /// What was recorded does not reach back to the beginning.
    fn lacks_events(&self) -> Option<Unknown> {
        self.lacks_history().or(self.lost_events().then_some(Unknown::EventsDropped))
    }

    fn lost_events(&self) -> bool {
        self.history.quality.probably_overflowed
    }

    /// Something was live, and no allocation was recorded with its stack.
    fn lacks_stacks(&self) -> Option<Unknown> {
        let any = self.history.recorded().any(|a| self.history.stack_of(a).is_some());
        (!any && !self.history.allocations.is_empty()).then_some(Unknown::NoStacks)
    }

    fn high_water(&self, kind: ByteKind) -> HighWater {
        let peaks = &self.peaks;
        let quality = &self.history.quality;
        let (peak, exact) = match kind {
            ByteKind::Requested => (peaks.requested, quality.sizes_exact()),
            ByteKind::Allocated => (peaks.allocated, quality.sizes_exact()),
            ByteKind::Active => (peaks.active, quality.sizes_exact()),
            // Where segments were not recorded, more is in use than reserved.
            ByteKind::Reserved => {
                let all_recorded = peaks.reserved.bytes >= peaks.active.bytes;
                let fits = quality.segment_contradictions == 0 && !quality.skipped.segments();
                (peaks.reserved, fits && all_recorded)
            }
        };
        HighWater { peak, allocated: self.history.counters_at(peak.moment).allocated, exact }
    }

    fn at(&self, high: HighWater) -> HistoryAt<'_> {
        HistoryAt { history: &self.history, frames: self.frames, moment: high.peak.moment }
    }
}
