//! One device of an open recording, with values that are computed once for several queries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use vramscope_analysis::{
    Counters, Frames, History, IdleMemory, LeakSuspect, Moment, Peak, Recorder, RunBetween, Steps, Timeline,
    leak_suspects, runs_between,
};
use vramscope_report::steps::{phases_told, steps_told};
use vramscope_report::{Trust, not_followed};
use vramscope_trace::{Action, Phase};

use crate::advice::ADVICE;
use crate::bits::Bits;
use crate::conditions::Search;
use crate::protocol::{self, AllocationColumn, Among, ByKind, Mark, MarkKind, Meaning, Pools, SearchQuery};
use crate::purposes::PurposesOfDevice;
use crate::regions_at::RegionsAt;
use crate::tags::TagsOfDevice;

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
    purposes: OnceLock<PurposesOfDevice>,
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
    pub(crate) fn told(self, purposes: Option<PurposesOfDevice>) -> Self {
        Self { purposes: purposes.map(OnceLock::from).unwrap_or_default(), ..self }
    }

    /// The categories of its allocations.
    pub(crate) fn purposes(&self) -> &PurposesOfDevice {
        self.purposes.get_or_init(|| PurposesOfDevice::of(self.history()))
    }

    /// The categories, if they are computed already: for answers that must not wait.
    pub(crate) fn purposes_so_far(&self) -> Option<&PurposesOfDevice> {
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

/// The maximum number of marks per device: a program that catches out-of-memory errors may have any number.
const MOST_MARKS: usize = 1000;

impl OpenDevice {
    /// The first data that the page requests about a device: its peaks, its marks, and the confidence in its numbers.
    pub(crate) fn overview(&self, recorder: Recorder) -> protocol::Device<'_> {
        let history = self.history();
        let events = &history.device().events;
        let peaks = self.timeline.peaks();
        let peak = |p: Peak| protocol::Peak { bytes: p.bytes, moment: p.moment.index() };
        let overflowed = history.device().overflowed == Some(true);
        let mut trust = Trust::of(&history.quality, overflowed, recorder, &ADVICE);
        trust.doubts.extend(not_followed(history.trace()));
        protocol::Device {
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
            preexisting: history.quality.preexisting,
            marks: self.marks(),
            tags: &self.tags.table,
            tag_texts: self.tags.texts.iter().map(|text| text.get(history)).collect(),
            purposes: self.purposes_so_far().map(|p| p.table.as_slice()),
            steps: self.purposes_so_far().and_then(|p| self.steps(&p.steps)),
            phases: self.purposes_so_far().and_then(|p| self.phases(&p.steps)),
            trust: protocol::Trust {
                is_exact: trust.is_exact,
                title: trust.title,
                doubts: trust.doubts,
                replay: trust.replay,
                dropped: trust.dropped,
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
    fn steps(&self, found: &Steps) -> Option<protocol::Steps> {
        let steps = &found.steps;
        let highest = found.highest()?;
        // A step's moments are those after its events.
        let begins = || steps.iter().map(|s| Moment::after(s.from.index()));
        let end = steps.last().map(|s| Moment::after(s.to.index()));
        let begins_us = begins().filter_map(|begin| self.timeline.time_of(begin));
        Some(protocol::Steps {
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
    fn phases(&self, found: &Steps) -> Option<protocol::Phases> {
        let phases = &found.phases;
        let time = |event: usize| self.timeline.time_of(Moment::after(event));
        let last = self.timeline.duration();
        let is_end = |to: Moment| to == self.history().end();
        Some(protocol::Phases {
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

    fn marks(&self) -> Vec<Mark> {
        let events = &self.history().device().events;
        let marked = events.actions().iter().enumerate().filter_map(|(event, action)| match action {
            Action::Oom => Some((event, MarkKind::Oom)),
            Action::Snapshot => Some((event, MarkKind::Snapshot)),
            _ => None,
        });
        marked
            .take(MOST_MARKS)
            .map(|(event, kind)| Mark {
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
