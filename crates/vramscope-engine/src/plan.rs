//! Plans: the requests of a program in order, each with its place in device memory.
//!
//! A [`Plan`] has the requests before the steps, and those of one step, which repeat. A [`PlanFollower`] matches the requests of a
//! running program with them. Only the matching may be wrong: a planned block is never placed over a block in use.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use vramscope_trace::PoolId;

use crate::arena::{NotPlaced, PlannedPlace, StreamUse};
use crate::arena_key::{ArenaKey, PLANNED};
use crate::device::DEVICE_PAGE;
use crate::policy::BLOCK_UNIT;
use crate::ranges::Ranges;

/// The format of a plan in a file, if each stream has its own segment. A reader refuses unknown versions.
const VERSION: u32 = 1;

/// The format of a plan whose streams share one segment. Readers that know only version 1 refuse it.
const SHARED_VERSION: u32 = 2;

/// Upper bound of a segment, in bytes; no device is larger.
const LARGEST: u64 = 1 << 50;

/// Number of requests that identify a place in the plan.
const WINDOW: usize = 8;

/// Planned requests, and the places of their blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PlanFile", into = "PlanFile")]
pub struct Plan {
    segments: Vec<u64>,
    startup: Vec<PlannedRequest>,
    step: Vec<PlannedRequest>,
    /// If the streams share one segment: the requests at places of other streams.
    shared: Option<SharedPlaces>,
}

/// The requests of a plan whose places other streams use too. This follows from the places, so a file does not have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SharedPlaces {
    /// Whether the place of each request is used by another stream next.
    handed_over: Vec<bool>,
    /// Number of requests of a step at places that another stream used last; without a step, of all requests.
    waits: usize,
}

/// One request of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlannedRequest {
    /// Requested bytes, rounded up to a multiple of 512.
    pub size: u64,
    /// The stream, numbered in the order of first use from 1; 0 is the default stream.
    pub stream: u32,
    /// First byte of the block in the stream's segment, or in that of all streams. `None` if the plan leaves the request to the allocator.
    pub offset: Option<u64>,
}

/// Why a plan is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadPlan {
    /// The file has another version of the format.
    #[error("version {0} of plans is unknown; this vramscope reads versions {VERSION} and {SHARED_VERSION}")]
    Version(u32),
    /// A plan whose streams share a segment has none, or several.
    #[error("version {SHARED_VERSION} of plans has one segment, not {0}")]
    Segments(usize),
    /// A segment is empty, too large, or not whole pages.
    #[error("segment {0} is not from 1 to 2^50 bytes in pages of 2 MiB")]
    Segment(usize),
    /// A request has an invalid size, stream or place.
    #[error("request {index} of `{part}`: {why}")]
    Request {
        /// `startup` or `step`.
        part: &'static str,
        /// Index of the request, from 0.
        index: usize,
        /// What is wrong.
        why: &'static str,
    },
}

impl Plan {
    /// Checks and returns a plan: the segments of the streams in bytes, the requests before the steps, and those of one step.
    ///
    /// # Errors
    /// A size, stream or place is invalid.
    pub fn new(
        segments: Vec<u64>,
        startup: Vec<PlannedRequest>,
        step: Vec<PlannedRequest>,
    ) -> Result<Self, BadPlan> {
        let valid = |&size: &u64| size > 0 && size <= LARGEST && size.is_multiple_of(DEVICE_PAGE);
        if let Some(bad) = segments.iter().position(|size| *size != 0 && !valid(size)) {
            return Err(BadPlan::Segment(bad));
        }
        for (part, requests) in [("startup", &startup), ("step", &step)] {
            for (index, request) in requests.iter().enumerate() {
                let segment = segments.get(request.stream as usize).copied();
                request.check(segment).map_err(|why| BadPlan::Request { part, index, why })?;
            }
        }
        Ok(Self { segments, startup, step, shared: None })
    }

    /// Like [`new`](Self::new), for streams that share one segment of this size in bytes. A block at a place that another stream used
    /// before makes its stream wait for that one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn shared(
        segment: u64,
        startup: Vec<PlannedRequest>,
        step: Vec<PlannedRequest>,
    ) -> Result<Self, BadPlan> {
        // Requests are checked as if all were on one stream.
        let on_one =
            |list: &[PlannedRequest]| list.iter().map(|r| PlannedRequest { stream: 0, ..*r }).collect();
        let checked = Self::new(vec![segment], on_one(&startup), on_one(&step))?;
        let shared = Some(SharedPlaces::of(&startup, &step));
        Ok(Self { segments: checked.segments, startup, step, shared })
    }

    /// Whether the streams share one segment.
    pub fn shares_streams(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the number of requests of a step that get memory which another stream used last; without a step, of all requests. 0 if the
    /// streams share no memory. Each makes its stream wait for the other one on the GPU.
    pub fn waits(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.waits)
    }

    /// Returns the arena of the planned blocks of a stream. Streams that share a segment have that of the default stream.
    pub fn arena(&self, stream: u64) -> ArenaKey {
        ArenaKey { pool: PLANNED, stream: if self.shares_streams() { 0 } else { stream } }
    }

    /// The size of the segment of a stream in bytes.
    fn segment_of(&self, stream: u32) -> u64 {
        let index = if self.shares_streams() { 0 } else { stream as usize };
        self.segments.get(index).copied().unwrap_or(0)
    }

    /// Size in bytes of the segment of each stream, 0 if the stream has no planned block; or of the one segment that the streams share.
    pub fn segments(&self) -> &[u64] {
        &self.segments
    }

    /// The requests before the first planned step.
    pub fn startup(&self) -> &[PlannedRequest] {
        &self.startup
    }

    /// The requests of a step; empty if nothing repeats.
    pub fn step(&self) -> &[PlannedRequest] {
        &self.step
    }

    /// Returns the bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, &size| sum.saturating_add(size))
    }

    /// The request at a position: the requests before the steps, then those of the step.
    fn at(&self, position: usize) -> Option<&PlannedRequest> {
        self.startup.get(position).or_else(|| self.step.get(position.checked_sub(self.startup.len())?))
    }

    /// The position after `position`. After the last request of the step comes its first one.
    fn after(&self, position: usize) -> usize {
        let next = position + 1;
        if next >= self.startup.len() + self.step.len() && !self.step.is_empty() {
            self.startup.len()
        } else {
            next
        }
    }
}

impl SharedPlaces {
    /// Finds the requests at places of other streams. The requests of the step are visited twice: its first requests follow those before
    /// the steps once, and then its own last ones.
    fn of(startup: &[PlannedRequest], step: &[PlannedRequest]) -> Self {
        let positions = startup.len()..startup.len() + step.len();
        let visits = startup.iter().enumerate().chain(positions.clone().zip(step)).chain(positions.zip(step));
        let mut handed_over = vec![false; startup.len() + step.len()];
        let mut waits = 0;
        // The position and the stream of the last request at each byte.
        let mut last: Ranges<(usize, u32)> = Ranges::default();
        for (visit, (position, request)) in visits.enumerate() {
            let Some(offset) = request.offset else { continue };
            let before = last.replace(offset, offset + request.size, (position, request.stream));
            let mut is_other = false;
            for (other, _) in before.into_iter().filter(|&(_, stream)| stream != request.stream) {
                is_other = true;
                handed_over[other] = true;
            }
            let counts = step.is_empty() || visit >= handed_over.len();
            waits += usize::from(is_other && counts);
        }
        Self { handed_over, waits }
    }
}

impl PlannedRequest {
    fn check(&self, segment: Option<u64>) -> Result<(), &'static str> {
        if self.size == 0 || self.size > LARGEST || !self.size.is_multiple_of(BLOCK_UNIT) {
            return Err("the size is not from 512 bytes to 2^50 bytes in units of 512 bytes");
        }
        let segment = segment.ok_or("the stream has no segment")?;
        let Some(offset) = self.offset else { return Ok(()) };
        if !offset.is_multiple_of(BLOCK_UNIT) {
            return Err("the offset is not a multiple of 512 bytes");
        }
        let end = offset.checked_add(self.size).filter(|&end| end <= segment);
        end.map(drop).ok_or("the block ends after its segment")
    }

    /// A number for the size and the stream.
    fn key(&self) -> u64 {
        key(self.size, self.stream)
    }
}

fn key(size: u64, stream: u32) -> u64 {
    size ^ u64::from(stream) << 51
}

/// A plan as written to a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    vramscope_plan: u32,
    segments: Vec<u64>,
    startup: Vec<(u64, u32, Option<u64>)>,
    step: Vec<(u64, u32, Option<u64>)>,
}

impl TryFrom<PlanFile> for Plan {
    type Error = BadPlan;

    fn try_from(file: PlanFile) -> Result<Self, BadPlan> {
        let requests = |list: Vec<(u64, u32, Option<u64>)>| {
            list.into_iter().map(|(size, stream, offset)| PlannedRequest { size, stream, offset }).collect()
        };
        match (file.vramscope_plan, &file.segments[..]) {
            (VERSION, _) => Self::new(file.segments, requests(file.startup), requests(file.step)),
            (SHARED_VERSION, &[segment]) => {
                Self::shared(segment, requests(file.startup), requests(file.step))
            }
            (SHARED_VERSION, segments) => Err(BadPlan::Segments(segments.len())),
            (version, _) => Err(BadPlan::Version(version)),
        }
    }
}

impl From<Plan> for PlanFile {
    fn from(plan: Plan) -> Self {
        let rows = |list: Vec<PlannedRequest>| {
            list.into_iter().map(|r| (r.size, r.stream, r.offset)).collect::<Vec<_>>()
        };
        Self {
            vramscope_plan: if plan.shares_streams() { SHARED_VERSION } else { VERSION },
            segments: plan.segments,
            startup: rows(plan.startup),
            step: rows(plan.step),
        }
    }
}

/// How the requests of a program were served, as counts and bytes. Bytes are requested bytes, rounded up to multiples of 512.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanUse {
    /// Requests at their planned places.
    pub planned: Served,
    /// Requests that the plan leaves to the allocator: their lifetimes do not repeat.
    pub left: Served,
    /// Requests that differ from the plan: another size, another order, or a private pool.
    pub differing: Served,
    /// Requests whose planned place was still in use.
    pub in_use: Served,
    /// Requests without memory at their planned place.
    pub no_memory: Served,
    /// Number of requests that got memory of the plan which another stream used last, so that their stream waits for that one on the
    /// GPU. They count as one of the outcomes too.
    pub waits: u64,
}

/// A number of requests and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Served {
    /// Counts one more request.
    pub fn count(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl PlanUse {
    /// Corrects the count of a request that did not get its place: why not, or `None` if it failed.
    pub fn not_placed(&mut self, bytes: u64, why: Option<NotPlaced>) {
        self.planned.requests -= 1;
        self.planned.bytes -= bytes;
        match why {
            None => {}
            Some(NotPlaced::InUse) => self.in_use.count(bytes),
            Some(NotPlaced::NoMemory) => self.no_memory.count(bytes),
        }
    }

    /// Returns the sum over all requests.
    pub fn all(&self) -> Served {
        let parts = [self.planned, self.left, self.differing, self.in_use, self.no_memory];
        parts.iter().fold(Served::default(), |sum, part| Served {
            requests: sum.requests + part.requests,
            bytes: sum.bytes.saturating_add(part.bytes),
        })
    }
}

/// The position of a program in its plan.
///
/// A request that equals the next one of the plan advances the position. Any other request is served as without a plan and leaves
/// the position unchanged. After such a request, the last eight requests are compared with the plan; where they occur in it exactly
/// once, the program goes on behind them. So the plan resumes at the next part of the program that is unlike all others, usually within
/// the same step.
#[derive(Debug)]
pub struct PlanFollower {
    plan: std::sync::Arc<Plan>,
    next: usize,
    /// Whether the position is in doubt, because a request differed.
    is_lost: bool,
    /// Keys of the last requests, oldest first, as a ring that begins at `count % WINDOW`.
    recent: [u64; WINDOW],
    count: usize,
    /// The position after each sequence of [`WINDOW`] requests that occurs once in the plan.
    anchors: BTreeMap<u64, Option<usize>>,
    /// Streams in the order of first use; the default stream is not listed.
    streams: Vec<u64>,
    adherence: Adherence,
    /// How the requests were served so far.
    pub usage: PlanUse,
}

/// Whether a program follows its plan.
///
/// A program that differs from the plan in as many requests as half a step runs without it, until whole steps match again: one at first,
/// and twice as many after each such difference. It follows the plan from the beginning of a step on, where the fewest bytes are in use.
/// A program also runs without its plan after three steps in a row that released memory beside the plan for planned requests: both
/// together need more memory than the rules alone.
#[derive(Debug, Default)]
struct Adherence {
    follows: bool,
    /// Requests since the beginning of the step that matched, and those that differed.
    matched: usize,
    differed: usize,
    /// Number of steps in a row that matched, and the number of those that are needed.
    steps: u32,
    needed: u32,
    /// Number of exchanges ([`Engine::plan_exchanges`](crate::Engine::plan_exchanges)) so far, and at the beginning of the step.
    exchanges: u64,
    exchanges_before: u64,
    /// Number of steps in a row with exchanges.
    strained: u32,
    /// Whether the cache is of no more use: of the rules, or of the plan.
    releases: bool,
    /// Number of differing requests after which the rest of the plan's memory is released.
    until_rest: Option<usize>,
}

/// Number of steps in a row with exchanges after which a program runs without its plan.
const STRAINED: u32 = 3;

impl Adherence {
    fn new(follows: bool) -> Self {
        Self { follows, ..Self::default() }
    }

    /// Counts a request, and whether it was the first or the last one of the step. `length` is the number of requests of a step.
    fn count(&mut self, is_expected: bool, is_first: bool, is_last: bool, length: usize) {
        if is_first && !self.follows {
            (self.matched, self.differed) = (0, 0);
        }
        *(if is_expected { &mut self.matched } else { &mut self.differed }) += 1;
        if is_last {
            let most = length / 8;
            let is_whole = self.matched >= length - most && self.differed <= most;
            self.steps = if is_whole { self.steps.saturating_add(1) } else { 0 };
            (self.matched, self.differed) = (0, 0);
            let is_strained = self.exchanges > self.exchanges_before;
            self.strained = if is_strained { self.strained + 1 } else { 0 };
            self.exchanges_before = self.exchanges;
            if !self.follows && self.steps >= self.needed {
                (self.follows, self.releases, self.until_rest) = (true, true, None);
            } else if self.follows && self.strained >= STRAINED {
                self.leave(length);
            }
        } else if self.follows && self.differed > length / 2 {
            self.leave(length);
        } else if let Some(rest) = self.until_rest.as_mut().filter(|_| !is_expected) {
            *rest = rest.saturating_sub(1);
            if *rest == 0 {
                (self.releases, self.until_rest) = (true, None);
            }
        }
    }

    fn leave(&mut self, length: usize) {
        self.needed = self.needed.saturating_mul(2).max(1);
        (self.steps, self.strained) = (0, 0);
        // Blocks that are in use now are free after a step.
        (self.follows, self.releases, self.until_rest) = (false, true, Some(length));
    }
}

/// What a plan says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// It has a place.
    At(PlannedPlace),
    /// The plan leaves it to the allocator.
    Left,
    /// It is not the request that the plan has next.
    Differs,
}

impl PlanFollower {
    /// Begins at the first request of a plan.
    pub fn new(plan: std::sync::Arc<Plan>) -> Self {
        let anchors = anchors(&plan);
        Self {
            plan,
            next: 0,
            is_lost: false,
            recent: [0; WINDOW],
            count: 0,
            anchors,
            streams: Vec::new(),
            adherence: Adherence::new(true),
            usage: PlanUse::default(),
        }
    }

    /// Joins a program that runs already. The plan has the requests of a step only, on these streams after the default stream. The first
    /// request with a place is that after the end of the current step.
    pub fn joining(plan: std::sync::Arc<Plan>, streams: Vec<u64>) -> Self {
        Self { adherence: Adherence::new(false), is_lost: true, streams, ..Self::new(plan) }
    }

    /// Whether the allocator should release its cache now, before the next request. True once after the program began to follow its plan
    /// or ceased to: the memory of the one is of no use to the other.
    pub fn take_release(&mut self) -> bool {
        std::mem::take(&mut self.adherence.releases)
    }

    /// Sets the number of exchanges so far ([`Engine::plan_exchanges`](crate::Engine::plan_exchanges)).
    pub fn set_exchanges(&mut self, exchanges: u64) {
        self.adherence.exchanges = exchanges;
    }

    /// Matches the next request: its pool, its stream, and its bytes rounded up to a multiple of 512.
    pub fn request(&mut self, pool: PoolId, stream: u64, size: u64) -> Planned {
        if pool != PoolId::default() {
            return Planned::Differs;
        }
        let number = self.number_of(stream);
        self.recent[self.count % WINDOW] = key(size, number);
        self.count += 1;
        let (startup, step) = (self.plan.startup.len(), self.plan.step.len());
        let length = if step > 0 { step } else { startup };
        let expected = self.plan.at(self.next).filter(|r| r.size == size && r.stream == number).copied();
        let position = self.next;
        let is_first = expected.is_some() && self.next == startup;
        if expected.is_some() {
            self.next = self.plan.after(self.next);
        }
        self.is_lost |= expected.is_none();
        if self.is_lost && self.count >= WINDOW {
            self.find_again();
        }
        let follows = self.adherence.follows;
        let is_last = expected.is_some() && self.next == startup;
        self.adherence.count(expected.is_some(), is_first, is_last, length);
        if !follows {
            return Planned::Differs;
        }
        let Some(PlannedRequest { offset, .. }) = expected else { return Planned::Differs };
        let segment = self.plan.segment_of(number);
        let shared_by = self.plan.shared.as_ref().map(|shared| StreamUse {
            stream,
            is_handed_over: shared.handed_over.get(position).copied().unwrap_or(false),
        });
        offset.map_or(Planned::Left, |offset| Planned::At(PlannedPlace { offset, size, segment, shared_by }))
    }

    /// Counts the next request, and returns its place if the plan has one. The caller corrects the count if the request does not get it
    /// ([`PlanUse::not_placed`]).
    pub fn place(&mut self, pool: PoolId, stream: u64, size: u64) -> Option<PlannedPlace> {
        match self.request(pool, stream, size) {
            Planned::At(place) => {
                self.usage.planned.count(size);
                return Some(place);
            }
            Planned::Left => self.usage.left.count(size),
            Planned::Differs => self.usage.differing.count(size),
        }
        None
    }

    /// Goes to the only position of the plan whose last requests are those of the program.
    fn find_again(&mut self) {
        let last = (self.count..self.count + WINDOW).map(|at| self.recent[at % WINDOW]);
        if let Some(&Some(position)) = self.anchors.get(&hash(last)) {
            self.next = position;
            self.is_lost = false;
        }
    }

    fn number_of(&mut self, stream: u64) -> u32 {
        if stream == 0 {
            return 0;
        }
        let known = self.streams.iter().position(|&known| known == stream);
        let index = known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        });
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }
}

/// The position after each window of the plan; `None` if windows with different next positions are equal.
fn anchors(plan: &Plan) -> BTreeMap<u64, Option<usize>> {
    let mut anchors: BTreeMap<u64, Option<usize>> = BTreeMap::new();
    let startup = plan.startup.len();
    let first: Vec<u64> = plan.startup.iter().chain(&plan.step).map(PlannedRequest::key).collect();
    let period = period(&first[startup..]);
    // The same request of another copy of the step is as good.
    let is_alike =
        |a: usize, b: usize| a == b || (a.min(b) >= startup && a.abs_diff(b).is_multiple_of(period));
    let mut note = |window: &[u64], next: usize| {
        let found = anchors.entry(hash(window.iter().copied())).or_insert(Some(next));
        if found.is_some_and(|found| !is_alike(found, next)) {
            *found = None;
        }
    };
    for (i, window) in first.windows(WINDOW).enumerate() {
        note(window, plan.after(i + WINDOW - 1));
    }
    // Windows that begin in one step and end in a later one.
    let step = &first[startup..];
    for end in 0..step.len() {
        let window: Vec<u64> =
            (0..WINDOW).rev().map(|back| step[(end + WINDOW * step.len() - back) % step.len()]).collect();
        note(&window, plan.after(startup + end));
    }
    anchors
}

/// Returns the length of the copies that the step of a plan consists of.
fn period(step: &[u64]) -> usize {
    let copies = (2..=step.len().min(4)).rev().filter(|&copies| step.len().is_multiple_of(copies));
    let is_period = |&length: &usize| step.iter().zip(&step[length..]).all(|(a, b)| a == b);
    copies.map(|copies| step.len() / copies).find(is_period).unwrap_or(step.len()).max(1)
}

/// Two windows with the same hash are taken as equal. A wrong position costs planned places, never correctness.
fn hash(window: impl Iterator<Item = u64>) -> u64 {
    window.fold(0, |hash: u64, key| (hash ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

#[cfg(test)]
mod tests;
