//! The memory that an interval of the recording allocated, freed and retained: grouped, and compared with an earlier interval.

use serde::{Deserialize, Serialize};
use vramscope_analysis::{
    Both, By, Cancel, Holder, HolderChange, Interval, IntervalGroup, IntervalGroupChange, IntervalGroups,
    IntervalTotals, Moment, ProgramPart, RunBetween, Steps, interval_group_changes, interval_groups,
};
use vramscope_report::interval as words;

use crate::SessionError;
use crate::questions::columns::{Columns, F64s, Reply, U32s, stack};
use crate::questions::conditions::SearchQuery;
use crate::questions::device::OpenDevice;
use crate::questions::held::{key, label};
use crate::questions::recording::OpenRecording;
use crate::questions::search::Matcher;

/// Requests the activity between two moments: the events `from..to`.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct IntervalQuery {
    pub(crate) from: usize,
    pub(crate) to: usize,
    #[cfg_attr(test, ts(type = "By"))]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::values::schema::by"))]
    pub(crate) by: By,
    /// The search that selects allocations; null for all.
    pub(crate) search: Option<SearchQuery>,
    /// The moments of the interval for comparison.
    pub(crate) before: Option<[usize; 2]>,
}

/// The activity in an interval, in groups: most allocated bytes first. In a comparison, the largest increase comes first and
/// the largest decrease last.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct IntervalAnswer {
    /// Identifies each group in any interval of the recording.
    pub(crate) key: Vec<String>,
    /// The display name of each group.
    pub(crate) label: Vec<String>,
    /// The stack that allocated most of each group.
    pub(crate) stack: U32s,
    pub(crate) now: GroupsOfInterval,
    /// The amounts in the compared interval.
    pub(crate) before: Option<GroupsOfInterval>,
    /// The same interval of the previous step, if this is a step or a region.
    pub(crate) earlier: Option<EarlierPart>,
}

/// An interval of the recording, and its amounts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct GroupsOfInterval {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// For example `backward of step 2` or `events 10 to 99`.
    pub(crate) title: String,
    /// A summary in one line.
    pub(crate) headline: String,
    /// Microseconds from its first event to its last; null without times.
    pub(crate) lasted_us: Option<i64>,
    /// The peak of allocated bytes in the interval, and its first moment.
    pub(crate) highest: u64,
    pub(crate) highest_moment: usize,
    /// The amounts of all allocations.
    pub(crate) all: SpentAmounts,
    /// The amounts of the allocations that match the search.
    pub(crate) found: SpentAmounts,
    /// Bytes of each group.
    pub(crate) before: F64s,
    pub(crate) allocated: F64s,
    pub(crate) freed: F64s,
    pub(crate) temporary: F64s,
    pub(crate) survived: F64s,
    pub(crate) at_highest: F64s,
    pub(crate) after: F64s,
    /// The number of blocks that each group allocated.
    pub(crate) count: U32s,
}

/// The amounts of allocations in an interval.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SpentAmounts {
    /// Live before the first event.
    pub(crate) before: Amount,
    pub(crate) allocated: Amount,
    pub(crate) freed: Amount,
    /// Live before the first event, and freed.
    pub(crate) freed_from_before: Amount,
    /// Allocated and freed.
    pub(crate) temporary: Amount,
    /// Allocated and not freed.
    pub(crate) survived: Amount,
    /// Live at the peak.
    pub(crate) at_highest: Amount,
    /// Live after the last event.
    pub(crate) after: Amount,
}

/// Bytes, and their number of blocks.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

/// An interval of the recording for comparison.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct EarlierPart {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) title: String,
}

/// An interval of a device's recording, and its amounts.
struct Part<'d> {
    device: &'d OpenDevice,
    part: ProgramPart,
    title: String,
    interval: Interval,
    totals: IntervalGroups,
}

impl OpenRecording {
    pub(crate) fn interval(
        &self,
        device: usize,
        query: &IntervalQuery,
        cancel: &Cancel,
    ) -> Reply<IntervalAnswer> {
        let device = self.device(device)?;
        let matcher = Matcher::of(device, query.search.as_ref(), cancel)?;
        let takes = |id: usize| matcher.as_ref().is_none_or(|matcher| matcher.finds(id));
        let none = Steps::default();
        // Categories are computed after the first pictures. Until then there are no steps.
        let steps = device.purposes_so_far().map_or(&none, |purposes| &purposes.steps);
        let runs = device.runs();
        let of =
            |[from, to]: [usize; 2]| self.part(device, runs, steps, [from, to], query.by, &takes, cancel);
        let mut now = of([query.from, query.to])?;
        let mut before = query.before.map(of).transpose()?;
        let groups = std::mem::take(&mut now.totals.groups);
        let changes = match &mut before {
            Some(before) => interval_group_changes(groups, std::mem::take(&mut before.totals.groups)),
            None => groups
                .into_iter()
                .map(|group| IntervalGroupChange { group, before: IntervalTotals::default() })
                .collect(),
        };
        let earlier = now.part.before(self.session.trace(), runs, steps).map(|part| EarlierPart {
            from: part.from.index(),
            to: part.to.index(),
            title: self.title(device, &part),
        });
        let names = Both { a: self.session.names(), b: self.session.names() };
        let named: Vec<HolderChange> = changes.iter().map(|change| holder(&change.group)).collect();
        Columns::answer(|columns| IntervalAnswer {
            key: named.iter().map(|group| key(group, &names)).collect(),
            label: named.iter().map(|group| label(group, &names)).collect(),
            stack: columns.u32(changes.iter().map(|change| stack(change.group.stack))),
            now: now.columns(columns, &changes.iter().map(|change| change.group.totals).collect::<Vec<_>>()),
            before: before.map(|part| {
                part.columns(columns, &changes.iter().map(|change| change.before).collect::<Vec<_>>())
            }),
            earlier,
        })
    }

    #[expect(clippy::too_many_arguments, reason = "one query for two intervals")]
    fn part<'d>(
        &self,
        device: &'d OpenDevice,
        runs: &[RunBetween],
        steps: &Steps,
        [from, to]: [usize; 2],
        by: By,
        takes: &dyn Fn(usize) -> bool,
        cancel: &Cancel,
    ) -> Result<Part<'d>, SessionError> {
        let (from, to) = (device.moment(from)?, device.moment(to)?);
        if from > to {
            return Err(SessionError::Argument("the interval ends before it begins".to_owned()));
        }
        let interval = device.timeline.interval(from, to);
        let totals =
            interval_groups(device.history(), self.session.frames(), device, &interval, by, takes, cancel)
                .ok_or(SessionError::Cancelled)?;
        let part = ProgramPart::of(runs, steps, from, to);
        Ok(Part { device, part, title: self.title(device, &part), interval, totals })
    }

    fn title(&self, device: &OpenDevice, part: &ProgramPart) -> String {
        words::title(part, device.history().device().events.len(), self.session.names())
    }
}

impl Part<'_> {
    fn columns(&self, columns: &mut Columns, groups: &[IntervalTotals]) -> GroupsOfInterval {
        let Self { device, interval, totals, .. } = self;
        let mut bytes = |of: fn(&IntervalTotals) -> vramscope_analysis::Amount| {
            columns.sizes(groups.iter().map(|totals| of(totals).bytes))
        };
        let first = device.timeline.time_of(Moment::after(interval.from.index()));
        let last = device.timeline.time_of(interval.to);
        GroupsOfInterval {
            from: interval.from.index(),
            to: interval.to.index(),
            headline: words::headline(&self.title, &totals.all, interval.peak),
            title: self.title.clone(),
            lasted_us: first.zip(last).map(|(first, last)| last.saturating_sub(first).max(0)),
            highest: interval.peak.bytes,
            highest_moment: interval.peak.moment.index(),
            all: amounts(&totals.all),
            found: amounts(&totals.taken),
            before: bytes(|totals| totals.before),
            allocated: bytes(|totals| totals.allocated),
            freed: bytes(IntervalTotals::freed),
            temporary: bytes(|totals| totals.temporary),
            survived: bytes(IntervalTotals::survived),
            at_highest: bytes(|totals| totals.at_peak),
            after: bytes(IntervalTotals::after),
            count: columns.u32(groups.iter().map(|totals| totals.allocated.count as u32)),
        }
    }
}

fn amounts(totals: &IntervalTotals) -> SpentAmounts {
    let amount =
        |vramscope_analysis::Amount { bytes, count, .. }: vramscope_analysis::Amount| Amount { bytes, count };
    SpentAmounts {
        before: amount(totals.before),
        allocated: amount(totals.allocated),
        freed: amount(totals.freed()),
        freed_from_before: amount(totals.freed_before),
        temporary: amount(totals.temporary),
        survived: amount(totals.survived()),
        at_highest: amount(totals.at_peak),
        after: amount(totals.after()),
    }
}

/// Converts a group, so that it has the same name and key as the group of live allocations.
fn holder(group: &IntervalGroup) -> HolderChange {
    let vramscope_analysis::Amount { bytes, requested, count } = group.totals.allocated;
    let IntervalGroup { origin, stack, .. } = *group;
    let holder = Holder { bytes, requested, count, origin, key: group.key.clone(), stack };
    HolderChange { holders: Both { a: None, b: Some(holder) }, is_function: false, is_marked: false }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use vramscope_analysis::{IntervalOptions, IntervalSummary};
    use vramscope_trace::{Action, formats};

    use super::*;

    fn open(path: &Path) -> OpenRecording {
        let recording = formats::read(std::fs::File::open(path).unwrap()).unwrap();
        let file = OpenRecording::of("f".to_owned(), None, recording, &Cancel::default()).unwrap();
        // Steps are available after the categories are computed.
        for device in &file.devices {
            assert!(device.purposes_so_far().is_some() || !device.purposes().table.is_empty());
        }
        file
    }

    /// Pseudorandom numbers below `n`.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 7_u64;
        move |n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        }
    }

    /// For random ranges of events, the page's answer equals the command's, and the counts of a direct walk over the events.
    fn agree(path: &Path, ranges: usize) {
        let file = open(path);
        let mut random = numbers();
        for device in &file.devices {
            let (history, events) = (device.history(), &device.history().device().events);
            if events.is_empty() {
                continue;
            }
            for n in 0..ranges {
                let (a, b) = (random(events.len()), random(events.len()));
                // The first range is the whole recording.
                let (first, last) = if n == 0 { (0, events.len() - 1) } else { (a.min(b), a.max(b)) };
                let by = By::ALL[n % By::ALL.len()];
                let options = IntervalOptions { first, last, by, filter: None };
                let command =
                    IntervalSummary::of(history, file.session.frames(), &options, &Cancel::default())
                        .unwrap();
                let steps = &device.purposes().steps;
                let moments = [first, last + 1];
                let part = file
                    .part(device, device.runs(), steps, moments, by, &|_| true, &Cancel::default())
                    .unwrap();
                let at = format!("{} {first}..{last} {by:?}", path.display());
                assert_eq!(part.totals, command.totals, "{at}");
                assert_eq!((part.interval.peak, part.part), (command.peak, command.part), "{at}");
                let sum = part.totals.groups.iter().map(|group| group.totals.at_peak.bytes).sum::<u64>();
                assert_eq!(sum, part.interval.peak.bytes, "{at}");
                if history.quality.contradictions.lost_events == 0
                    && !history.quality.inferred.lifetimes_inferred
                {
                    let within = || (first..=last).map(|number| events.get(number));
                    let allocs = || within().filter(|event| event.action == Action::Alloc);
                    let allocated = part.totals.all.allocated;
                    assert_eq!(allocated.requested, allocs().map(|event| event.size).sum::<u64>(), "{at}");
                    assert_eq!(allocated.count as usize, allocs().count(), "{at}");
                    if events.actions().contains(&Action::FreeRequested) {
                        let frees = within().filter(|event| event.action == Action::FreeRequested).count();
                        assert_eq!(part.totals.all.freed().count as usize, frees, "{at}");
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_are_answered_as_the_command_and_a_walk_over_the_events_do() {
        for example in ["training.pickle.zst", "leak.pickle", "oom.pickle"] {
            agree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example), 30);
        }
    }

    #[test]
    fn ranges_of_larger_recordings_are_answered_alike() {
        let Some(data) = vramscope_testing::recordings() else { return };
        let of = |folder: &str| {
            let all = std::fs::read_dir(data.join(folder)).unwrap().map(|entry| entry.unwrap().path());
            let mut files: Vec<PathBuf> = all
                .filter(|p| {
                    p.to_string_lossy().contains(".pickle") && p.metadata().unwrap().len() < 1_300_000
                })
                .collect();
            files.sort();
            files
        };
        let files: Vec<PathBuf> = ["real", "categories", "phantom"].into_iter().flat_map(of).collect();
        let every = files.len().div_ceil(20).max(1);
        assert!(files.len() >= 20, "{} recordings", files.len());
        for file in files.iter().step_by(every) {
            agree(file, 30);
        }
    }

    #[test]
    fn a_region_is_named_with_its_step_and_compared_with_the_step_before() {
        let file = open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/training.pickle.zst"));
        let device = &file.devices[0];
        let steps = &device.purposes().steps;
        let runs = device.runs();
        let trace = file.session.trace();
        let backward: Vec<_> = runs.iter().filter(|run| trace.strings.get(run.name) == "backward").collect();
        let of = |run: &RunBetween| ProgramPart::of(runs, steps, run.from, run.to);
        let parts: Vec<ProgramPart> = backward.iter().map(|run| of(run)).collect();
        let titles: Vec<String> = parts.iter().map(|part| file.title(device, part)).collect();
        assert_eq!(titles, ["backward of step 1", "backward of step 2"]);
        assert_eq!(parts[1].before(trace, runs, steps), Some(parts[0]));
        assert_eq!(parts[0].before(trace, runs, steps), None);
        let step = |n: usize| ProgramPart::of(runs, steps, steps.steps[n].from, steps.steps[n].to);
        assert_eq!(file.title(device, &step(1)), "step 2");
        assert_eq!(step(1).before(trace, runs, steps), Some(step(0)));
        let whole = ProgramPart::of(runs, steps, Moment::START, device.history().end());
        assert_eq!(file.title(device, &whole), "the whole recording");
        let some = ProgramPart::of(runs, steps, Moment::after(9), Moment::after(98));
        assert_eq!(
            (file.title(device, &some).as_str(), some.before(trace, runs, steps)),
            ("events 10 to 98", None)
        );
    }
}
