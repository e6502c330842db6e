//! One device of an open recording, and what is counted once for several questions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use vramscope_analysis::{
    Counters, Frames, History, LeakSuspect, Moment, Peak, Recorder, RunBetween, Steps, Timeline,
    leak_suspects, runs_between,
};
use vramscope_report::Trust;
use vramscope_report::findings::steps_told;
use vramscope_trace::Action;

use crate::advice::ADVICE;
use crate::bits::Bits;
use crate::conditions::Search;
use crate::protocol::{self, AllocationColumn, Among, ByKind, Mark, MarkKind, Meaning, Pools, SearchQuery};
use crate::purposes::PurposesOfDevice;
use crate::regions_at::RegionsAt;
use crate::tags::TagsOfDevice;

/// A search, made ready, and the allocations that it finds.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) query: SearchQuery,
    pub(crate) search: Arc<Search>,
    /// `None` until somebody asks.
    pub(crate) found: Option<Arc<Bits>>,
}

/// What a table of allocations was asked for, and the numbers of its rows in order.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) of: (Option<SearchQuery>, Among, AllocationColumn, bool),
    pub(crate) ids: Arc<[u32]>,
    /// The bytes of all rows.
    pub(crate) bytes: u64,
}

/// A device of a recording, ready for questions.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    pub(crate) timeline: Timeline,
    /// Whose code the frames of the file are.
    frames: Arc<Frames>,
    pub(crate) tags: TagsOfDevice,
    /// What its allocations are for; found out when first asked for.
    purposes: OnceLock<PurposesOfDevice>,
    /// For each allocation, how many before it had the same address; counted when first asked for.
    versions: OnceLock<Vec<u32>>,
    /// Lines whose allocations pile up, in the report's order; found when first asked for.
    leaks: OnceLock<Vec<LeakSuspect>>,
    /// Its pools; counted when first asked for.
    pools: OnceLock<Pools>,
    /// What was searched last.
    pub(crate) searched: Mutex<Option<Searched>>,
    /// The moments of its regions; told when first asked for.
    runs: OnceLock<Vec<RunBetween>>,
    /// The table of allocations that was read last.
    pub(crate) ordered: Mutex<Option<Ordered>>,
    /// In which regions allocations were made; found out when first asked for.
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
            pools: OnceLock::new(),
            searched: Mutex::default(),
            runs: OnceLock::new(),
            ordered: Mutex::default(),
            regions_at: OnceLock::new(),
        }
    }

    /// The same with what is known of its purposes.
    pub(crate) fn told(self, purposes: Option<PurposesOfDevice>) -> Self {
        Self { purposes: purposes.map(OnceLock::from).unwrap_or_default(), ..self }
    }

    /// What its allocations are for.
    pub(crate) fn purposes(&self) -> &PurposesOfDevice {
        self.purposes.get_or_init(|| PurposesOfDevice::of(self.history()))
    }

    /// The same where somebody asked for it before: for answers that do not wait.
    pub(crate) fn purposes_so_far(&self) -> Option<&PurposesOfDevice> {
        self.purposes.get()
    }

    /// Whose code the frames of the file are.
    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    pub(crate) fn history(&self) -> &History {
        self.timeline.history()
    }

    /// When each run of a region was, in the order of their ends.
    pub(crate) fn runs(&self) -> &[RunBetween] {
        self.runs.get_or_init(|| runs_between(self.history()))
    }

    /// Lines whose allocations pile up, in the report's order.
    pub(crate) fn leaks(&self) -> &[LeakSuspect] {
        self.leaks.get_or_init(|| leak_suspects(self.history(), &self.frames))
    }

    /// In which regions allocations were made.
    pub(crate) fn regions_at(&self) -> &RegionsAt {
        self.regions_at.get_or_init(|| RegionsAt::of(self.runs()))
    }

    /// For each allocation, how many before it had the same address.
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

    /// Its pools.
    pub(crate) fn pools(&self, count: impl FnOnce() -> Pools) -> &Pools {
        self.pools.get_or_init(count)
    }
}

/// The most marks of a device: a program that catches out of memory errors may have any number.
const MOST_MARKS: usize = 1000;

impl OpenDevice {
    /// What the page asks for first of a device: its peaks, its marks, and how far its numbers can be trusted.
    pub(crate) fn overview(&self, recorder: Recorder) -> protocol::Device<'_> {
        let history = self.history();
        let events = &history.device().events;
        let peaks = self.timeline.peaks();
        let peak = |p: Peak| protocol::Peak { bytes: p.bytes, moment: p.moment.index() };
        let overflowed = history.device().overflowed == Some(true);
        let trust = Trust::of(&history.quality, overflowed, recorder, &ADVICE);
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
            trust: protocol::Trust {
                is_exact: trust.is_exact,
                title: trust.title,
                doubts: trust.doubts,
                replay: trust.replay,
                dropped: trust.dropped,
            },
        }
    }

    /// What its memory is for, found out now where nobody asked for it before.
    pub(crate) fn meaning(&self) -> Meaning<'_> {
        let purposes = self.purposes();
        Meaning { purposes: &purposes.table, steps: self.steps(&purposes.steps) }
    }

    /// Steps in the form in which they are sent; `None` where there are none.
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
            peak: steps.iter().map(|s| s.peak).collect(),
            peak_moment: steps.iter().map(|s| s.peak_moment.index()).collect(),
            allocated: steps.iter().map(|s| s.allocated).collect(),
            allocations: steps.iter().map(|s| s.allocations).collect(),
            kept: steps.iter().map(|s| s.kept).collect(),
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

/// Counters in the form in which they are sent.
pub(crate) fn by_kind(c: Counters) -> ByKind<u64> {
    ByKind { requested: c.requested, allocated: c.allocated, active: c.active, reserved: c.reserved }
}
