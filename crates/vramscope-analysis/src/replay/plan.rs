//! Plans of recorded programs: the requests before the steady steps and those of one step, packed with known lifetimes.
//!
//! ```text
//!   requests   | before the first planned step   | one step          |
//!              |== parameters =======================================|   live across steps: a place for the whole plan
//!              |      |-- temporary --|          |    |---|  |----|  |   others: packed by their lifetimes
//!                                                ^ begins where the fewest bytes are live
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_engine::{
    BLOCK_UNIT, CachingAllocator, DEVICE_PAGE, Plan, PlanUse, PlannedRequest, Policy, Served, VirtualDevice,
};
use vramscope_trace::{FrameId, PoolId};

use super::capacity::{ReplayDevice, UNLIMITED};
use super::error::ReplayError;
use super::program::{Program, Readings, StepKind};
use super::run::{Outcome, Run};
use super::runs::Replay;
use super::start::request_start;
use crate::categories::AllocationCategories;
use crate::history::{History, Moment};
use crate::stacks::Frames;
use crate::steps::Steps;
use vramscope_basics::{Cancel, count_steps};
use vramscope_packing::{Effort, Item, pack_unless};

/// The source of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanSource {
    /// The plan is made from the recording itself.
    Recording {
        /// Whether streams share memory, if the plan then has fewer bytes.
        share_streams: bool,
    },
    /// A plan that was made earlier.
    Given(Arc<Plan>),
}

/// A plan made from a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlan {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The planned step, as an index in the recording's [`Steps`]; `None` if no step repeats, so that the plan has no step.
    pub step: Option<usize>,
    /// Number of steps in the recording.
    pub steps: usize,
    /// Number of steps that make the same requests as the planned step, including itself; 0 without a planned step.
    pub alike: usize,
    /// The same plan with a segment for each stream, if the streams of [`plan`](Self::plan) share one.
    pub separate: Option<Arc<Plan>>,
}

impl RecordedPlan {
    /// Whether the steps of the recording vary: fewer than half of them, but at least three, make the planned requests. Another run then
    /// leaves the plan.
    pub fn varies(&self) -> bool {
        self.step.is_some() && self.steps >= 3 && self.alike * 2 < self.steps
    }
}

/// A plan of a step, for a program that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPlan {
    /// The plan. It has no requests before the step.
    pub plan: Arc<Plan>,
    /// The streams of the plan, in the order of first use, without the default stream.
    pub streams: Vec<u64>,
}

impl StepPlan {
    /// Plans the step that the recorded program repeats now: the last three complete steps make the same requests. `None` if they do not,
    /// if a tenth of their bytes has no place, or if the requests exceed every device. Blocks from before the step have no place. Blocks
    /// that are live at the end of the recording have none either, because their lifetimes are not known. With `share_streams`, streams
    /// share memory if the plan then has fewer bytes.
    pub fn of(history: &History, share_streams: bool) -> Option<Self> {
        let program = Program::of(history, &Readings::new());
        let (mut requests, streams) = requests(history, &program);
        let count = requests.len();
        requests.iter_mut().filter(|request| request.end == count).for_each(|request| request.end = NEVER);
        let steps = Steps::of(history, &AllocationCategories::of(history));
        let cycle = last_cycle(history, &steps, &requests)?;
        let lifetimes = Lifetimes::of(&requests, Some(&cycle), Startup::Runs);
        let [plan, _] = lifetimes.plans(streams.len(), share_streams, &Cancel::default()).ok()?;
        let plan = plan?;
        let placed = plan.step().iter().filter(|request| request.offset.is_some());
        let bytes = |sum: u128, request: &PlannedRequest| sum + u128::from(request.size);
        if placed.fold(0, bytes) * 10 < plan.step().iter().fold(0, bytes) * 9 {
            return None;
        }
        Some(Self {
            plan: Arc::new(plan),
            streams: streams.into_iter().filter(|&stream| stream != 0).collect(),
        })
    }
}

/// The outcome of a replay with a plan, before the allocator of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanReplay {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Facts about the plan, if it was made from the recording.
    pub made: Option<RecordedPlan>,
    /// The outcome with a segment for each stream, if the plan was made from the recording and its streams share one.
    pub separate: Option<Outcome>,
    /// The outcome. A planned request has no block larger than its bytes, rounded up to a multiple of 512.
    pub outcome: Outcome,
    /// How the requests were served.
    pub usage: PlanUse,
    /// The lines with the most bytes that were not at planned places, largest first; at most [`MOST_LINES`](Self::MOST_LINES).
    pub dynamic_lines: Vec<DynamicLine>,
}

/// A line whose requests were not at planned places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicLine {
    /// The frame that names the line; `None` for requests without a stack.
    pub frame: Option<FrameId>,
    /// Its requests that were not at planned places.
    pub served: Served,
}

/// Up to some seconds of sweeps, and of search if there are few requests.
const EFFORT: Effort = Effort { sweep_items: 2_000_000, search_items: 1024, search_steps: 8_000_000 };

/// Returns the bytes of a planned block.
fn block(requested: u64) -> u64 {
    requested.max(1).checked_next_multiple_of(BLOCK_UNIT).unwrap_or(u64::MAX)
}

/// The end of a block that is never freed. Sums with indices of requests do not overflow.
const NEVER: usize = usize::MAX / 2;

/// One request of the default pool.
#[derive(Clone, Copy)]
struct Request {
    size: u64,
    stream: u32,
    /// Index of the moment at which the request was served.
    from: u32,
    /// Index of the first request for which the block is available again; the number of all requests if there is none.
    end: usize,
}

impl Request {
    /// Two requests with the same value may have the same place in a step.
    fn likeness(&self) -> (u64, u32) {
        (self.size, self.stream)
    }
}

/// The planned step.
struct Cycle {
    /// Index of the step.
    step: usize,
    /// Number of steps with the same requests, including this one.
    alike: usize,
    /// Its requests.
    requests: Range<usize>,
}

impl Replay<'_> {
    /// Makes a plan of the recording. `None` if its memory exceeds every device.
    ///
    /// # Errors
    /// [`ReplayError::Cancelled`].
    pub(crate) fn plan(
        &self,
        steps: &Steps,
        share_streams: bool,
    ) -> Result<Option<RecordedPlan>, ReplayError> {
        let (requests, streams) = requests(self.history, &self.program);
        let cycle = cycle(self.history, steps, &requests);
        let lifetimes = Lifetimes::of(&requests, cycle.as_ref(), Startup::Planned);
        let [plan, separate] =
            lifetimes.plans(streams.len(), share_streams, &self.cancel)?.map(|plan| plan.map(Arc::new));
        let (step, alike) = cycle.map_or((None, 0), |cycle| (Some(cycle.step), cycle.alike));
        let steps = steps.steps.len();
        Ok(plan.map(|plan| RecordedPlan { plan, step, steps, alike, separate }))
    }

    /// Replays with a plan in front of the allocator of `policy`. `None` if the recording is too large for a plan. `done` is called after
    /// the replay.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn planned(
        &self,
        source: &PlanSource,
        policy: &Policy,
        device: ReplayDevice,
        frames: &Frames,
        done: &(dyn Fn() + Sync),
    ) -> Result<Option<PlanReplay>, ReplayError> {
        let (plan, made) = match source {
            PlanSource::Given(plan) => (Arc::clone(plan), None),
            &PlanSource::Recording { share_streams } => {
                let steps = Steps::of(self.history, &AllocationCategories::of(self.history));
                let Some(made) = self.plan(&steps, share_streams)? else { return Ok(None) };
                (Arc::clone(&made.plan), Some(made))
            }
        };
        let replayed = self.with_plan(&plan, policy, device, frames)?;
        let separate = made.as_ref().and_then(|made| made.separate.as_ref());
        let separate = separate.map(|plan| self.with_plan(plan, policy, device, frames)).transpose()?;
        done();
        Ok(Some(PlanReplay { made, separate: separate.map(|replay| replay.outcome), ..replayed }))
    }

    /// Replays the requests with a plan in front of the allocator of `policy`.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn with_plan(
        &self,
        plan: &Arc<Plan>,
        policy: &Policy,
        device: ReplayDevice,
        frames: &Frames,
    ) -> Result<PlanReplay, ReplayError> {
        let device = self.with_its_size(device);
        let mut policy = policy.clone().beside_plan();
        if !device.has_limits() {
            policy.memory_fraction = None;
        }
        let memory = match device.capacity() {
            Some(c) => VirtualDevice::with_capacity(c.total).with_used(c.overhead),
            None => VirtualDevice::with_capacity(UNLIMITED),
        };
        let allocator = CachingAllocator::new(policy, Arc::new(memory))?;
        let mut run = Run::new(&self.program, self.history, allocator, self.cancel.clone());
        let started = request_start(&mut run, self.history, &self.program);
        run.allocator.follow_plan(Arc::clone(plan));
        let finished = started && run.finish();
        self.still_wanted()?;
        let usage = run.allocator.plan_use().unwrap_or_default();
        let outcome = run.outcome(!finished);
        let dynamic_lines = self.lines_of(&run.unplanned, frames);
        Ok(PlanReplay { plan: Arc::clone(plan), made: None, separate: None, outcome, usage, dynamic_lines })
    }

    /// Sums up the allocations with these indices by line.
    fn lines_of(&self, indices: &[u32], frames: &Frames) -> Vec<DynamicLine> {
        let mut lines: BTreeMap<Option<FrameId>, Served> = BTreeMap::new();
        for &index in indices {
            let a = &self.history.allocations[index as usize];
            let frame = a.stack.and_then(|stack| frames.own_frame(self.history.trace(), stack));
            lines.entry(frame).or_default().count(block(a.requested));
        }
        let mut lines: Vec<_> =
            lines.into_iter().map(|(frame, served)| DynamicLine { frame, served }).collect();
        lines.sort_by_key(|line| (Reverse(line.served.bytes), line.frame));
        lines.truncate(PlanReplay::MOST_LINES);
        lines
    }
}

/// Returns all requests of the default pool in order, and the streams in the order of first use. The default stream is the first.
fn requests(history: &History, program: &Program) -> (Vec<Request>, Vec<u64>) {
    let mut streams = vec![0];
    let mut numbers: HashMap<u64, u32> = HashMap::from([(0, 0)]);
    let mut requests = Vec::new();
    let mut ends = Vec::new();
    for step in program.steps.iter().filter(|step| step.kind == StepKind::Malloc) {
        let (pool, stream) = program.arenas[step.arena as usize];
        if pool != PoolId::default() {
            continue;
        }
        let number = *numbers.entry(stream).or_insert_with(|| {
            streams.push(stream);
            streams.len() as u32 - 1
        });
        let a = &history.allocations[step.subject as usize];
        let size = block(a.requested);
        requests.push(Request { size, stream: number, from: a.from.index() as u32, end: 0 });
        ends.push(a.to);
    }
    for (i, to) in ends.into_iter().enumerate() {
        // A block that is freed at once is in use during its own request.
        requests[i].end = requests.partition_point(|r| (r.from as usize) < to.index()).max(i + 1);
    }
    (requests, streams)
}

/// Returns the first of the steps that make the same requests as their successor; of several kinds, one of the most frequent. If there
/// is none, returns the step with the median peak.
fn cycle(history: &History, steps: &Steps, requests: &[Request]) -> Option<Cycle> {
    let ranges = requests_of_steps(steps, requests);
    // The first step that makes the same requests.
    let mut known: HashMap<Vec<(u64, u32)>, usize> = HashMap::new();
    let kinds: Vec<usize> = (0..)
        .zip(&ranges)
        .map(|(step, range)| {
            count_steps(range.len());
            let made = requests[range.clone()].iter().map(Request::likeness).collect();
            *known.entry(made).or_insert(step)
        })
        .collect();
    let count = |step: usize| kinds.iter().filter(|&&kind| kind == kinds[step]).count();
    // The first pair of each kind of step, and the number of pairs.
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut place_of: HashMap<usize, usize> = HashMap::new();
    for (i, pair) in kinds.windows(2).enumerate() {
        if ranges[i].is_empty() || pair[0] != pair[1] {
            continue;
        }
        let place = *place_of.entry(pair[0]).or_insert(pairs.len());
        if place == pairs.len() {
            pairs.push((i, 0));
        }
        pairs[place].1 += 1;
    }
    let most = pairs.iter().map(|&(_, count)| count).max();
    if let Some(&(step, _)) = pairs.iter().find(|&&(_, count)| Some(count) == most) {
        let (this, next) = (&ranges[step], &ranges[step + 1]);
        let shift = least_live(history, &requests[this.clone()]);
        let requests = this.start + shift..next.start + shift;
        return Some(Cycle { step, alike: count(step), requests });
    }
    let step = steps.typical().filter(|&step| !ranges[step].is_empty())?;
    Some(Cycle { step, alike: count(step), requests: ranges[step].clone() })
}

/// Returns the third last of the complete steps, if the last three make the same requests. Such steps make at least half of all requests:
/// the layers of a model, or the chunks of a loop within a step, are not its steps.
fn last_cycle(history: &History, steps: &Steps, requests: &[Request]) -> Option<Cycle> {
    let ranges = requests_of_steps(steps, requests);
    // The recording may end within the last step.
    let last = ranges.len().checked_sub(2)?;
    let is_like_last = |range: &&Range<usize>| are_alike(requests, range, &ranges[last]);
    let count = ranges[..=last].iter().rev().take_while(is_like_last).count();
    if count < 3 || ranges[last].len() * count < requests.len().div_ceil(2) {
        return None;
    }
    let (this, next) = (&ranges[last - 2], &ranges[last - 1]);
    let shift = least_live(history, &requests[this.clone()]);
    Some(Cycle { step: last - 2, alike: count, requests: this.start + shift..next.start + shift })
}

/// Returns the indices of the requests of each step.
fn requests_of_steps(steps: &Steps, requests: &[Request]) -> Vec<Range<usize>> {
    let at = |moment: Moment| requests.partition_point(|r| r.from <= moment.index() as u32);
    steps.steps.iter().map(|step| at(step.from)..at(step.to)).collect()
}

fn are_alike(requests: &[Request], a: &Range<usize>, b: &Range<usize>) -> bool {
    let (a, b) = (&requests[a.clone()], &requests[b.clone()]);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.likeness() == b.likeness())
}

/// Returns the index of the request before which the fewest bytes are allocated; the first of several.
fn least_live(history: &History, requests: &[Request]) -> usize {
    let mut least = (u64::MAX, 0);
    let mut next = 0;
    let mut before = 0;
    for (moment, counters) in history.walk() {
        while requests.get(next).is_some_and(|r| r.from as usize <= moment.index()) {
            if before < least.0 {
                least = (before, next);
            }
            next += 1;
        }
        before = counters.allocated;
    }
    least.1
}

/// The largest number of steps that a plan repeats as one, for blocks that live longer than a step.
const MOST_STEPS: usize = 4;

/// The requests before the steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Startup {
    /// They are a part of the plan.
    Planned,
    /// They were served before the plan was made.
    Runs,
}

/// The requests of a plan with their lifetimes. Time is counted in requests.
struct Lifetimes {
    /// The requests before the steps, and those of all copies of the step.
    requests: Vec<Request>,
    /// The time in which each request uses its place; `None` if the request has no place of its own.
    used: Vec<Option<(usize, usize)>>,
    /// Requests whose place is that of an earlier one, with that one.
    reused: Vec<(usize, usize)>,
    /// Index of the first request that is a part of the plan.
    first: usize,
    /// Index of the first request of the step.
    begin: usize,
}

/// The first byte of each request, `None` if it has no place, and the sizes of the segments.
type Places = (Vec<Option<u64>>, Vec<u64>);

impl Lifetimes {
    /// Finds the time for which each place is in use. If a block lives until after the same request of the next step, as the input of a loop
    /// `x = next(batches)`, its successor needs another place. The plan then has several copies of the step.
    fn of(requests: &[Request], cycle: Option<&Cycle>, before: Startup) -> Self {
        let (begin, length) = cycle.map_or((requests.len(), 0), |c| (c.requests.start, c.requests.len()));
        let lifetime = |i: usize| requests[i].end - i;
        let needed = (begin..begin + length).map(|i| lifetime(i).div_ceil(length));
        let copies = needed.filter(|&steps| steps <= MOST_STEPS).max().unwrap_or(1);
        let (period, end) = (copies * length, begin + copies * length);
        let mut all: Vec<Request> = requests[..begin].to_vec();
        for copy in 0..copies {
            let of_step = requests[begin..begin + length].iter().enumerate();
            all.extend(of_step.map(|(j, r)| {
                let i = begin + copy * length + j;
                Request { end: i + lifetime(begin + j), ..*r }
            }));
        }
        let mut used: Vec<Option<(usize, usize)>> =
            all.iter().enumerate().map(|(i, r)| Some((i, r.end.min(end)))).collect();
        // Blocks before the steps that are live when they begin, by size and stream, latest last.
        let mut live: HashMap<(u64, u32), Vec<usize>> = HashMap::new();
        let planned_before = if before == Startup::Planned { begin } else { 0 };
        let first = begin - planned_before;
        used[..first].fill(None);
        for (i, request) in all.iter().enumerate().take(planned_before).filter(|(_, r)| r.end > begin) {
            live.entry((request.size, request.stream)).or_default().push(i);
        }
        let mut reused: Vec<(usize, usize)> = Vec::new();
        for (i, request) in all.iter().enumerate().skip(begin).filter(|(_, r)| r.end > end) {
            // It lives on when the steps begin again. The same request must then find its place free.
            if request.end - i > period {
                used[i] = None;
                continue;
            }
            used[i] = Some((begin, end));
            let alike = live.get_mut(&(request.size, request.stream));
            let Some(alike) = alike else { continue };
            if let Some(at) = alike.iter().rposition(|&before| all[before].end <= i) {
                let before = alike.remove(at);
                used[i] = None;
                used[before] = Some((before, end));
                reused.push((i, before));
            }
        }
        Self { requests: all, used, reused, first, begin }
    }

    /// Packs the requests of each stream, and, with `share_streams`, also those of all streams together. Returns the smaller plan, and if
    /// its streams share memory, also the other one. A plan is `None` if it exceeds every device.
    ///
    /// # Errors
    /// [`ReplayError::Cancelled`].
    fn plans(
        &self,
        streams: usize,
        share_streams: bool,
        cancel: &Cancel,
    ) -> Result<[Option<Plan>; 2], ReplayError> {
        let separate = self.pack(streams, |request| request.stream as usize, cancel)?;
        let separate = separate.and_then(|(offsets, segments)| {
            let (startup, step) = self.planned(&offsets);
            Plan::new(segments, startup, step).ok()
        });
        if !share_streams
            || separate
                .as_ref()
                .is_some_and(|plan| plan.segments().iter().filter(|&&size| size > 0).count() < 2)
        {
            return Ok([separate, None]);
        }
        let shared = self.pack(1, |_| 0, cancel)?;
        let shared = shared.and_then(|(offsets, segments)| {
            let (startup, step) = self.planned(&offsets);
            Plan::shared(segments.first().copied()?, startup, step).ok()
        });
        let is_smaller =
            |plan: &Plan| separate.as_ref().is_none_or(|separate| plan.bytes() < separate.bytes());
        Ok(match shared.filter(is_smaller) {
            Some(shared) => [Some(shared), separate],
            None => [separate, None],
        })
    }

    /// Packs the requests of each segment. Returns `None` if they exceed every device.
    fn pack(
        &self,
        segments: usize,
        segment_of: impl Fn(&Request) -> usize,
        cancel: &Cancel,
    ) -> Result<Option<Places>, ReplayError> {
        let mut offsets: Vec<Option<u64>> = vec![None; self.requests.len()];
        let mut sizes = vec![0; segments];
        for (segment, bytes) in sizes.iter_mut().enumerate() {
            let (mut items, mut indices) = (Vec::new(), Vec::new());
            for (i, request) in self.requests.iter().enumerate().filter(|(_, r)| segment_of(r) == segment) {
                if let Some((from, to)) = self.used[i] {
                    items.push(Item { from: from as u32, to: to as u32, size: request.size });
                    indices.push(i);
                }
            }
            let packing = pack_unless(&items, EFFORT, cancel).ok_or(ReplayError::Cancelled)?;
            let Some(size) = packing.height.checked_next_multiple_of(DEVICE_PAGE) else { return Ok(None) };
            *bytes = size;
            for (i, offset) in indices.into_iter().zip(packing.offsets) {
                offsets[i] = Some(offset);
            }
        }
        for &(i, before) in &self.reused {
            offsets[i] = offsets[before];
        }
        Ok(Some((offsets, sizes)))
    }

    /// The requests before the steps, and those of the step.
    fn planned(&self, offsets: &[Option<u64>]) -> (Vec<PlannedRequest>, Vec<PlannedRequest>) {
        let all = self.requests.iter().zip(offsets).skip(self.first);
        let all = all.map(|(r, &offset)| PlannedRequest { size: r.size, stream: r.stream, offset });
        let mut startup: Vec<PlannedRequest> = all.collect();
        let step = startup.split_off(self.begin - self.first);
        (startup, step)
    }
}

impl PlanReplay {
    /// Largest number of dynamic lines.
    pub const MOST_LINES: usize = 10;

    /// Returns the planned part of the requested bytes, from 0 to 1; 1 if there are none.
    pub fn covered(&self) -> f64 {
        let all = self.usage.all().bytes;
        if all == 0 { 1.0 } else { self.usage.planned.bytes as f64 / all as f64 }
    }
}
