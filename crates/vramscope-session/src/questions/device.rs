//! One device of an open recording, with values that are computed once for several queries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde::Serialize;
use vramscope_analysis::{
    Counters, Frames, History, IdleMemory, LeakSuspect, Moment, Recorder, RunBetween, Timeline,
    leak_suspects, runs_between,
};
use vramscope_report::steps::{phases_told, steps_told};
use vramscope_report::{Advice, not_followed};
use vramscope_trace::{Action, Phase};

use crate::SessionError;
use crate::questions::bits::Bits;
use crate::questions::cached::AllocationColumn;
use crate::questions::cached::Among;
use crate::questions::cached::Pools;
use crate::questions::categories::{CategoriesOfDevice, Purpose};
use crate::questions::conditions::Search;
use crate::questions::conditions::SearchQuery;
use crate::questions::regions_at::RegionsAt;
use crate::questions::tags::{Tags, TagsOfDevice};

/// Bytes by kind. Requested bytes are PyTorch's sum over active blocks, so they can exceed the allocated bytes while blocks
/// wait for other streams.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct ByKind<T> {
    pub(crate) requested: T,
    pub(crate) allocated: T,
    pub(crate) active: T,
    pub(crate) reserved: T,
}

/// One device of a file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Device<'r> {
    /// Its number in the recording; -1 for the host.
    pub(crate) device: i64,
    pub(crate) events: usize,
    pub(crate) allocations: usize,
    /// The time of the first event, in microseconds since the Unix epoch; null if events have no times.
    pub(crate) origin_us: Option<i64>,
    /// Microseconds from the first event to the last.
    pub(crate) duration_us: Option<i64>,
    pub(crate) peaks: ByKind<Peak>,
    /// Bytes before the first event.
    pub(crate) start: ByKind<u64>,
    /// Bytes after the last event.
    pub(crate) end: ByKind<u64>,
    /// The number of allocations that were live before recording.
    pub(crate) preexisting: usize,
    pub(crate) markers: Vec<Marker>,
    /// The distinct combinations of tags; allocations and events refer to them by position.
    pub(crate) tags: &'r [Tags],
    /// The distinct texts of `tags`.
    pub(crate) tag_texts: Vec<&'r str>,
    /// The categories of allocations, which refer to them by position. Null for a long recording before they are computed.
    pub(crate) purposes: Option<&'r [Purpose]>,
    /// The steps of the program. Null if it does not repeat itself, and while `purposes` is null.
    pub(crate) steps: Option<Steps>,
    /// The phases of steps. Null if none are known, and while `purposes` is null.
    pub(crate) phases: Option<Phases>,
    pub(crate) confidence: Confidence,
}

/// The categories of a device's memory, and the steps and phases that follow from them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Meaning<'r> {
    pub(crate) purposes: &'r [Purpose],
    pub(crate) steps: Option<Steps>,
    pub(crate) phases: Option<Phases>,
}

/// The phases of steps, in order and without overlaps. Lists have one entry per phase.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Phases {
    /// The sources of the phases, in sentences.
    pub(crate) told: String,
    /// A position in `PHASES`.
    pub(crate) phase: Vec<u8>,
    /// Whether the phase is inferred, not recorded.
    pub(crate) is_inferred: Vec<bool>,
    /// The step, numbered from 0; null outside of all steps.
    pub(crate) step: Vec<Option<usize>>,
    /// The moment right before the first event, and the last moment.
    pub(crate) from: Vec<usize>,
    pub(crate) to: Vec<usize>,
    /// The time of the first event, and of the first event after the phase; empty if the recording has no times.
    pub(crate) from_us: Vec<i64>,
    pub(crate) to_us: Vec<i64>,
    /// The peak of allocated bytes, including the moment right before the first event, and the first moment of the peak.
    pub(crate) peak: Vec<u64>,
    pub(crate) peak_moment: Vec<usize>,
    /// The bytes of all blocks allocated in the phase, and their number.
    pub(crate) allocated: Vec<u64>,
    pub(crate) allocations: Vec<u64>,
    /// Allocated bytes after the phase minus those before it.
    pub(crate) kept: Vec<i64>,
}

/// The steps of a program that repeats itself, numbered from 0. Lists have one entry per step.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Steps {
    /// How the step boundaries were found, and how many steps are alike, in sentences.
    pub(crate) told: String,
    /// The step with the largest peak; and, among the steps after the first, the one with the median peak (null for fewer than
    /// three of them).
    pub(crate) highest: usize,
    pub(crate) median: Option<usize>,
    /// Steps whose allocations differ from most steps, in order; empty if fewer than half are alike.
    pub(crate) unusual: Vec<usize>,
    /// The first of `unusual` that is neither the first nor the last step. The recording may end within the last.
    pub(crate) first_unusual: Option<usize>,
    /// Boundaries on the moment axis: a step has the moments from its entry up to the next entry. One more entry than there are
    /// steps.
    pub(crate) bounds: Vec<usize>,
    /// The same in microseconds; empty if the recording has no times.
    pub(crate) bounds_us: Vec<i64>,
    /// The peak of allocated bytes, including the moment right before the step's first event, and the first moment of the peak.
    pub(crate) peak: Vec<u64>,
    pub(crate) peak_moment: Vec<usize>,
    /// The bytes of all blocks allocated in the step, and their number.
    pub(crate) allocated: Vec<u64>,
    pub(crate) allocations: Vec<u64>,
    /// Allocated bytes after the step minus those before it.
    pub(crate) kept: Vec<i64>,
}

/// The confidence in a device's numbers, in the wording of the report.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Confidence {
    pub(crate) is_exact: bool,
    /// The verdict in a few words.
    pub(crate) title: &'static str,
    /// Why numbers may be inexact, one sentence each; empty if they are exact.
    pub(crate) limitations: Vec<String>,
    /// Whether a replay under the recorded settings reproduced the recording, in a sentence.
    pub(crate) replay: &'static str,
    /// A sentence if the oldest events were dropped, with advice on how to record them.
    pub(crate) dropped: Option<String>,
}

/// The peak of one kind of bytes, and its first moment.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Peak {
    pub(crate) bytes: u64,
    pub(crate) moment: usize,
}

/// An event with a mark on the axis.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Marker {
    pub(crate) event: usize,
    pub(crate) time_us: Option<i64>,
    pub(crate) kind: MarkKind,
    /// The requested bytes, for an out-of-memory event.
    pub(crate) bytes: u64,
}

/// The reason for a mark.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    Oom,
    Snapshot,
}

/// A prepared search, and the allocations that it matches.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) query: SearchQuery,
    pub(crate) search: Arc<Search>,
    /// `None` until first use.
    pub(crate) found: Option<Arc<Bits>>,
    /// The timeline of the matches alone. `None` until first use.
    pub(crate) timeline: Option<Arc<Timeline>>,
}

/// The query of an allocation table, and the allocation indices of its rows in order.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) of: (Option<SearchQuery>, Among, AllocationColumn, bool),
    pub(crate) ids: Arc<[u32]>,
    /// The sum of the bytes of all rows.
    pub(crate) bytes: u64,
}

/// A device of a recording, ready for queries.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    pub(crate) timeline: Timeline,
    /// The code classification of the file's frames.
    frames: Arc<Frames>,
    pub(crate) tags: TagsOfDevice,
    /// The categories of its allocations. Computed on first use.
    purposes: OnceLock<CategoriesOfDevice>,
    /// For each allocation, the number of earlier allocations at the same address. Computed on first use.
    versions: OnceLock<Vec<u32>>,
    /// Lines whose allocations accumulate, in the report's order. Computed on first use.
    leaks: OnceLock<Vec<LeakSuspect>>,
    /// Its idle memory, in the report's order. Computed on first use.
    idle: OnceLock<Option<IdleMemory>>,
    /// The device's pools. Computed on first use.
    pools: OnceLock<Pools>,
    /// The last search.
    pub(crate) searched: Mutex<Option<Searched>>,
    /// The moments of its region runs. Computed on first use.
    runs: OnceLock<Vec<RunBetween>>,
    /// The last query of the allocation table.
    pub(crate) ordered: Mutex<Option<Ordered>>,
    /// The innermost region at each moment. Computed on first use.
    regions_at: OnceLock<RegionsAt>,
}

impl OpenDevice {
    pub(crate) fn moment(&self, index: usize) -> Result<Moment, SessionError> {
        let last = self.timeline.moments() - 1;
        if index > last {
            return Err(SessionError::Argument(format!("no moment {index}; the last is {last}")));
        }
        Ok(Moment::from_index(index))
    }

    pub(crate) fn new(timeline: Timeline, tags: TagsOfDevice, frames: Arc<Frames>) -> Self {
        Self {
            timeline,
            frames,
            tags,
            purposes: OnceLock::new(),
            versions: OnceLock::new(),
            leaks: OnceLock::new(),
            idle: OnceLock::new(),
            pools: OnceLock::new(),
            searched: Mutex::default(),
            runs: OnceLock::new(),
            ordered: Mutex::default(),
            regions_at: OnceLock::new(),
        }
    }

    /// Sets precomputed categories.
    pub(crate) fn told(self, purposes: Option<CategoriesOfDevice>) -> Self {
        Self { purposes: purposes.map(OnceLock::from).unwrap_or_default(), ..self }
    }

    /// The categories of its allocations.
    pub(crate) fn purposes(&self) -> &CategoriesOfDevice {
        self.purposes.get_or_init(|| CategoriesOfDevice::of(self.history()))
    }

    /// The categories, if they are computed already: for answers that must not wait.
    pub(crate) fn purposes_so_far(&self) -> Option<&CategoriesOfDevice> {
        self.purposes.get()
    }

    /// The code classification of the file's frames.
    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    pub(crate) fn history(&self) -> &History {
        self.timeline.history()
    }

    /// The runs of regions, ordered by their ends.
    pub(crate) fn runs(&self) -> &[RunBetween] {
        self.runs.get_or_init(|| runs_between(self.history()))
    }

    /// Lines whose allocations accumulate, in the report's order.
    pub(crate) fn leaks(&self) -> &[LeakSuspect] {
        self.leaks.get_or_init(|| leak_suspects(self.history(), &self.frames))
    }

    /// Its idle memory, in the report's order; `None` if the recording has no accesses.
    pub(crate) fn idle(&self) -> Option<&IdleMemory> {
        self.idle.get_or_init(|| IdleMemory::of(self.history(), &self.frames, self, |_| true)).as_ref()
    }

    /// The innermost region at each moment.
    pub(crate) fn regions_at(&self) -> &RegionsAt {
        self.regions_at.get_or_init(|| RegionsAt::of(self.runs()))
    }

    /// For each allocation, the number of earlier allocations at the same address.
    pub(crate) fn versions(&self) -> &[u32] {
        self.versions.get_or_init(|| {
            let mut seen: HashMap<u64, u32> = HashMap::new();
            let next = |address: u64| {
                let n = seen.entry(address).or_default();
                *n += 1;
                *n - 1
            };
            self.history().allocations.iter().map(|a| a.address).map(next).collect()
        })
    }

    /// The device's pools.
    pub(crate) fn pools(&self, count: impl FnOnce() -> Pools) -> &Pools {
        self.pools.get_or_init(count)
    }
}

/// The maximum number of markers per device: a program that catches out-of-memory errors may have any number.
const MOST_MARKERS: usize = 1000;

impl OpenDevice {
    /// The first data that the page requests about a device: its peaks, its markers, and the confidence in its numbers.
    pub(crate) fn overview(&self, recorder: Recorder, advice: &Advice) -> Device<'_> {
        let history = self.history();
        let events = &history.device().events;
        let peaks = self.timeline.peaks();
        let peak = |p: vramscope_analysis::Peak| Peak { bytes: p.bytes, moment: p.moment.index() };
        let overflowed = history.device().overflowed == Some(true);
        let mut confidence = vramscope_report::Confidence::of(&history.quality, overflowed, recorder, advice);
        confidence.limitations.extend(not_followed(history.trace()));
        Device {
            device: history.device().device,
            events: events.len(),
            allocations: history.allocations.len(),
            origin_us: self.timeline.duration().and_then(|_| events.get(0).time_us),
            duration_us: self.timeline.duration(),
            peaks: ByKind {
                requested: peak(peaks.requested),
                allocated: peak(peaks.allocated),
                active: peak(peaks.active),
                reserved: peak(peaks.reserved),
            },
            start: by_kind(self.timeline.counters_at(Moment::START)),
            end: by_kind(self.timeline.counters_at(history.end())),
            preexisting: history.quality.missing.preexisting,
            markers: self.failures_and_snapshots(),
            tags: &self.tags.table,
            tag_texts: self.tags.texts.iter().map(|text| text.get(history)).collect(),
            purposes: self.purposes_so_far().map(|p| p.table.as_slice()),
            steps: self.purposes_so_far().and_then(|p| self.steps(&p.steps)),
            phases: self.purposes_so_far().and_then(|p| self.phases(&p.steps)),
            confidence: Confidence {
                is_exact: confidence.is_exact,
                title: confidence.title,
                limitations: confidence.limitations,
                replay: confidence.replay,
                dropped: confidence.dropped,
            },
        }
    }

    /// The categories of its memory. Computed now if necessary.
    pub(crate) fn meaning(&self) -> Meaning<'_> {
        let purposes = self.purposes();
        let steps = &purposes.steps;
        Meaning { purposes: &purposes.table, steps: self.steps(steps), phases: self.phases(steps) }
    }

    /// Converts steps for an answer. `None` if there are none.
    fn steps(&self, found: &vramscope_analysis::Steps) -> Option<Steps> {
        let steps = &found.steps;
        let highest = found.highest()?;
        // A step's moments are those after its events.
        let begins = || steps.iter().map(|s| Moment::after(s.from.index()));
        let end = steps.last().map(|s| Moment::after(s.to.index()));
        let begins_us = begins().filter_map(|begin| self.timeline.time_of(begin));
        Some(Steps {
            told: steps_told(found),
            highest,
            median: found.median(),
            unusual: (0..steps.len()).filter(|&n| !steps[n].is_usual).collect(),
            first_unusual: found.first_unusual(),
            bounds: begins().chain(end).map(Moment::index).collect(),
            bounds_us: begins_us.chain(self.timeline.duration()).collect(),
            peak: steps.iter().map(|s| s.bytes.peak).collect(),
            peak_moment: steps.iter().map(|s| s.bytes.peak_moment.index()).collect(),
            allocated: steps.iter().map(|s| s.bytes.allocated).collect(),
            allocations: steps.iter().map(|s| s.bytes.allocations).collect(),
            kept: steps.iter().map(|s| s.bytes.kept).collect(),
        })
    }

    /// Converts phases for an answer. `None` if there are none.
    fn phases(&self, found: &vramscope_analysis::Steps) -> Option<Phases> {
        let phases = &found.phases;
        let time = |event: usize| self.timeline.time_of(Moment::after(event));
        let last = self.timeline.duration();
        let is_end = |to: Moment| to == self.history().end();
        Some(Phases {
            told: phases_told(phases)?,
            phase: phases.iter().map(|p| phase_number(p.phase)).collect(),
            is_inferred: phases.iter().map(|p| p.told_by.is_inferred()).collect(),
            step: phases.iter().map(|p| p.step).collect(),
            from: phases.iter().map(|p| p.from.index()).collect(),
            to: phases.iter().map(|p| p.to.index()).collect(),
            from_us: phases.iter().filter_map(|p| time(p.from.index())).collect(),
            to_us: phases
                .iter()
                .filter_map(|p| if is_end(p.to) { last } else { time(p.to.index()) })
                .collect(),
            peak: phases.iter().map(|p| p.bytes.peak).collect(),
            peak_moment: phases.iter().map(|p| p.bytes.peak_moment.index()).collect(),
            allocated: phases.iter().map(|p| p.bytes.allocated).collect(),
            allocations: phases.iter().map(|p| p.bytes.allocations).collect(),
            kept: phases.iter().map(|p| p.bytes.kept).collect(),
        })
    }

    fn failures_and_snapshots(&self) -> Vec<Marker> {
        let events = &self.history().device().events;
        let marked = events.actions().iter().enumerate().filter_map(|(event, action)| match action {
            Action::Oom => Some((event, MarkKind::Oom)),
            Action::Snapshot => Some((event, MarkKind::Snapshot)),
            _ => None,
        });
        marked
            .take(MOST_MARKERS)
            .map(|(event, kind)| Marker {
                event,
                time_us: self.timeline.time_of(Moment::after(event)),
                kind,
                bytes: events.get(event).size,
            })
            .collect()
    }
}

/// Returns the position of a phase in `PHASES`.
fn phase_number(phase: Phase) -> u8 {
    Phase::ALL.iter().position(|&one| one == phase).unwrap_or_default() as u8
}

/// Converts counters for an answer.
pub(crate) fn by_kind(c: Counters) -> ByKind<u64> {
    ByKind { requested: c.requested, allocated: c.allocated, active: c.active, reserved: c.reserved }
}
