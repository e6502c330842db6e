//! Budgets: checks a recording against fixed limits or against an earlier recording.

use std::cell::OnceCell;

use vramscope_trace::{Action, Category, Event};

use crate::basics::Both;
use crate::categories::AllocationCategories;
use crate::diff::{DeviceHistory, HolderChange, HoldersOf, holders_of_both};
use crate::findings::{Certainty, LeakSuspect, OomExplanation, leak_suspects, ooms};
use crate::groups::{By, Holder, by_line, holders_at};
use crate::history::{History, Peak, Peaks, Quality};
use crate::known::{BudgetStatus, KnownBytes, Unknown, has_wrong_events, lacks_events, lacks_history};
use crate::stacks::Frames;
use crate::steps::Steps;
use crate::timeline::ByteKind;
use vramscope_basics::Cancel;

/// A limit that each device of a recording must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// The peak of this kind of bytes is at most this many bytes.
    Peak(ByteKind, u64),
    /// The peak of this kind of bytes exceeds the baseline's peak by at most this growth.
    Growth(ByteKind, Growth),
    /// The allocated bytes of this category never exceed this many bytes.
    Category(Category, u64),
    /// No line is [shown](Certainty::Shown) to leak; see [`leak_suspects`].
    NoLeaks,
    /// No memory request failed.
    NoOoms,
}

/// By how much a peak may exceed the baseline's peak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Growth {
    /// By this many bytes.
    Bytes(u64),
    /// By this percentage of the baseline's peak; 5.0 means five percent.
    Percent(f64),
}

impl Growth {
    /// Returns the allowed growth in bytes, rounded down, over a baseline peak of `baseline` bytes.
    pub fn over(self, baseline: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (baseline as f64 * percent / 100.0) as u64,
        }
    }
}

/// The verdicts on one device for each budget, and how accurate the numbers are.
#[derive(Debug, Clone)]
pub struct BudgetCheck {
    /// The device index.
    pub device: i64,
    /// Number of recorded events.
    pub events: usize,
    /// One verdict per budget, in the order of the budgets.
    pub verdicts: Vec<DeviceVerdict>,
    /// Number of out-of-memory events, counted even if no budget forbids them: after one, the memory that the
    /// run would have needed is unknown.
    pub ooms: usize,
    /// How accurate the numbers are.
    pub quality: Quality,
    /// How accurate the baseline's numbers are; `None` if there is no baseline or it lacks the device.
    pub baseline_quality: Option<Quality>,
}

/// Whether a device keeps one budget, with the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceVerdict {
    /// Whether the budget is kept.
    pub status: BudgetStatus,
    /// The budget and the measured values.
    pub measured: Measured,
}

/// A budget, with the values measured in the recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// For [`Budget::Peak`].
    Peak {
        /// The kind of bytes.
        kind: ByteKind,
        /// The highest peak in bytes that keeps the budget.
        limit: u64,
        /// The measured peak.
        peak: HighWater,
        /// The lines that held the allocated bytes at the peak, most bytes first.
        holders: Vec<Holder>,
    },
    /// For [`Budget::Growth`].
    Growth {
        /// The kind of bytes.
        kind: ByteKind,
        /// The allowed growth.
        growth: Growth,
        /// The measured peak.
        peak: HighWater,
        /// The baseline's peak of the same kind; `None` if the baseline lacks the device.
        baseline: Option<HighWater>,
        /// Lines that hold more bytes at this peak than at the baseline's peak, largest growth first.
        lines: Vec<HolderChange>,
    },
    /// For [`Budget::Category`].
    Category {
        /// The category.
        category: Category,
        /// The highest number of bytes that keeps the budget.
        limit: u64,
        /// The peak of the category's allocated bytes, and its first moment.
        peak: Peak,
        /// The lines that held these bytes at the peak, most bytes first.
        holders: Vec<Holder>,
    },
    /// For [`Budget::NoLeaks`]: the suspected leaks, most bytes first.
    Leaks(Vec<LeakSuspect>),
    /// For [`Budget::NoOoms`].
    Ooms {
        /// Failed requests with explanations, oldest first; see [`ooms`].
        explained: Vec<OomExplanation>,
        /// Number of further failed requests.
        more: usize,
    },
}

/// The peak of one kind of bytes, and the allocated bytes at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HighWater {
    /// The peak, and its first moment.
    pub peak: Peak,
    /// Allocated bytes at the moment of the peak.
    pub allocated: u64,
    /// Whether the peak is exact; [`Quality`] says why not.
    pub exact: bool,
}

impl BudgetCheck {
    /// Checks `device` against `budgets`. `baseline` is the same device in the recording that [`Budget::Growth`] compares with; it
    /// is `None` if that recording lacks the device. Returns `None` if cancelled.
    pub fn of(
        device: DeviceHistory<'_>,
        baseline: Option<DeviceHistory<'_>>,
        budgets: &[Budget],
        cancel: &Cancel,
    ) -> Option<Self> {
        let new = Side::of(device);
        let old = baseline.map(Side::of);
        let verdict = |&budget| (!cancel.is_cancelled()).then(|| new.verdict(old.as_ref(), budget));
        Some(Self {
            device: new.history.device().device,
            events: new.history.device().events.len(),
            verdicts: budgets.iter().map(verdict).collect::<Option<_>>()?,
            ooms: new.history.device().events.actions().iter().filter(|&&a| a == Action::Oom).count(),
            quality: new.history.quality,
            baseline_quality: old.map(|old| old.history.quality),
        })
    }

    /// Whether a budget is exceeded.
    pub fn exceeds_one(&self) -> bool {
        self.verdicts.iter().any(|v| v.status == BudgetStatus::Exceeded)
    }

    /// Whether every budget is known to be kept.
    pub fn keeps_all(&self) -> bool {
        self.verdicts.iter().all(|v| v.status == BudgetStatus::Kept)
    }
}

/// One of the two compared recordings.
struct Side<'t> {
    history: &'t History,
    /// The categories of its allocations, computed when a budget first needs them.
    categories: OnceCell<AllocationCategories>,
    peaks: Peaks,
    frames: &'t Frames,
}

impl<'t> Side<'t> {
    fn of(DeviceHistory { history, frames }: DeviceHistory<'t>) -> Self {
        Self { peaks: history.peaks(), history, categories: OnceCell::new(), frames }
    }

    fn verdict(&self, baseline: Option<&Self>, budget: Budget) -> DeviceVerdict {
        match budget {
            Budget::Peak(kind, limit) => self.peak(kind, limit),
            Budget::Growth(kind, growth) => self.growth(baseline, kind, growth),
            Budget::Category(category, limit) => self.category(category, limit),
            Budget::NoLeaks => self.leaks(),
            Budget::NoOoms => self.ooms(),
        }
    }

    fn peak(&self, kind: ByteKind, limit: u64) -> DeviceVerdict {
        let peak = self.high_water(kind);
        let mut known = KnownBytes::of_peak(self.history, kind, peak.peak.bytes);
        if let Some(why) = self.lacks_segments(kind).filter(|_| known.most.is_some()) {
            known = KnownBytes { most: None, why, ..known };
        }
        let status = known.within(KnownBytes::exactly(limit));
        let holders = holders_at(self.history, self.frames, peak.peak.moment, By::Line);
        DeviceVerdict { status, measured: Measured::Peak { kind, limit, peak, holders } }
    }

    fn growth(&self, baseline: Option<&Self>, kind: ByteKind, growth: Growth) -> DeviceVerdict {
        let peak = self.high_water(kind);
        let Some(old) = baseline else {
            let status = self.kept_unless(self.history.device().was_used().then_some(Unknown::NoBaseline));
            let measured = Measured::Growth { kind, growth, peak, baseline: None, lines: Vec::new() };
            return DeviceVerdict { status, measured };
        };
        let before = old.high_water(kind);
        let baseline = KnownBytes::of_peak(old.history, kind, before.peak.bytes);
        let limit = |bytes: u64| bytes.saturating_add(growth.over(bytes));
        let limit = KnownBytes {
            least: limit(baseline.least),
            most: baseline.most.map(limit),
            why: match baseline.why {
                Unknown::EventsDropped => Unknown::BaselineEventsDropped,
                _ => Unknown::BaselineIncomplete,
            },
        };
        let status = match lacks_history(old.history) {
            Some(_) => BudgetStatus::Unknown(Unknown::NoBaselineHistory),
            None => KnownBytes::of_peak(self.history, kind, peak.peak.bytes).within(limit),
        };
        let mut lines =
            holders_of_both(Both { a: old.lines_at(before), b: self.lines_at(peak) }, &|_, _| false);
        lines.retain(|line| line.held().map(|held| held.bytes).difference() > 0);
        DeviceVerdict {
            status,
            measured: Measured::Growth { kind, growth, peak, baseline: Some(before), lines },
        }
    }

    fn category(&self, category: Category, limit: u64) -> DeviceVerdict {
        let history = self.history;
        let categories = self.categories.get_or_init(|| AllocationCategories::of(history));
        let peak = categories.peak(history, category);
        let nothing = !history.allocations.iter().any(|a| categories.category(a).is_told());
        let lacks = (nothing && !history.allocations.is_empty()).then_some(Unknown::NoCategories);
        let status = if peak.bytes > limit {
            self.exceeded_unless(has_wrong_events(self.history))
        } else {
            self.kept_unless(lacks_history(self.history).or(lacks).or(lacks_events(self.history)))
        };
        let held = history.allocated_at(peak.moment).filter(|a| categories.category(a) == category);
        let holders = by_line(history, self.frames, held);
        DeviceVerdict { status, measured: Measured::Category { category, limit, peak, holders } }
    }

    fn leaks(&self) -> DeviceVerdict {
        // A check fails on what the recording shows, and not on what is likely.
        let mut suspects = leak_suspects(self.history, self.frames);
        suspects.retain(|suspect| suspect.certainty == Certainty::Shown);
        if !suspects.is_empty() {
            let categories = self.categories.get_or_init(|| AllocationCategories::of(self.history));
            Steps::of(self.history, categories).measure_leaks(self.history, &mut suspects);
        }
        let status = if suspects.is_empty() {
            self.kept_unless(
                lacks_history(self.history).or(self.lacks_stacks()).or(lacks_events(self.history)),
            )
        } else {
            self.exceeded_unless(has_wrong_events(self.history))
        };
        DeviceVerdict { status, measured: Measured::Leaks(suspects) }
    }

    fn ooms(&self) -> DeviceVerdict {
        let (explained, more) = ooms(self.history, self.frames);
        let status = if explained.is_empty() {
            self.kept_unless(
                lacks_events(self.history).or(self.lacks_failed_requests()).or(self.has_unknown_events()),
            )
        } else {
            BudgetStatus::Exceeded
        };
        let more = more.map_or(0, |more| more.count);
        DeviceVerdict { status, measured: Measured::Ooms { explained, more } }
    }

    fn kept_unless(&self, unknown: Option<Unknown>) -> BudgetStatus {
        unknown.map_or(BudgetStatus::Kept, BudgetStatus::Unknown)
    }

    fn exceeded_unless(&self, unknown: Option<Unknown>) -> BudgetStatus {
        unknown.map_or(BudgetStatus::Exceeded, BudgetStatus::Unknown)
    }

    /// Unknown if an event of an unknown kind may be a failed request: it has a size, but no address.
    fn has_unknown_events(&self) -> Option<Unknown> {
        let mut events = self.history.device().events.iter();
        let is_unclear = |e: Event| e.action == Action::Unknown && e.address_or_free == 0 && e.size > 0;
        events.any(is_unclear).then_some(Unknown::UnknownEvents)
    }

    /// Unknown if another tool's format has no failed requests.
    fn lacks_failed_requests(&self) -> Option<Unknown> {
        self.history.trace().other_allocator().map(|_| Unknown::NoFailedRequests)
    }

    /// Unknown if the peak of reserved bytes is below that of active bytes, or events of segments were left out.
    fn lacks_segments(&self, kind: ByteKind) -> Option<Unknown> {
        let is_incomplete = self.peaks.reserved.bytes < self.peaks.active.bytes
            || self.history.quality.missing.skipped.segments();
        (kind == ByteKind::Reserved && is_incomplete).then_some(Unknown::NoSegments)
    }

    /// Unknown if there are allocations but none was recorded with a stack.
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
            // If segments were not recorded, active bytes exceed reserved bytes.
            ByteKind::Reserved => {
                let all_recorded = peaks.reserved.bytes >= peaks.active.bytes;
                let fits =
                    quality.contradictions.segment_contradictions == 0 && !quality.missing.skipped.segments();
                (peaks.reserved, fits && all_recorded)
            }
        };
        HighWater { peak, allocated: self.history.counters_at(peak.moment).allocated, exact }
    }

    fn lines_at(&self, high: HighWater) -> HoldersOf<'t> {
        let Self { history, frames, .. } = *self;
        let holders = holders_at(history, frames, high.peak.moment, By::Line);
        HoldersOf { trace: history.trace(), frames, holders }
    }
}
