//! Recordings run again through the allocator: under the recorded settings, to prove that its rules are those
//! that made the recording, and under others, to say what would have happened.

mod answer;
mod doubts;
mod error;
mod explain;
mod first_use;
mod floors;
mod program;
mod reach;
mod recorded_device;
mod run;
mod settings;
mod start;
mod what_if;

use std::sync::Arc;

use vramscope_engine::{CachingAllocator, Device, Policy, VirtualDevice};
use vramscope_trace::{Action, BlockState};

use crate::cancel::Cancel;
use crate::frames::Frames;
use crate::history::History;
use crate::moment::Moment;
use crate::ooms::OutOfMemory;
use crate::skipped::SkippedActions;
use first_use::FirstUses;
use program::{Program, Reading, Turned};
pub(crate) use program::{is_growth, is_release};
use reach::Reach;
use recorded_device::RecordedDevice;
use run::Run;
use start::Start;

pub use answer::{CapacityFrom, DeviceReplay, Recorded, ReplayOptions};
pub use doubts::Doubt;
use error::MOST_ARENAS;
pub use error::ReplayError;
pub use floors::Floors;
pub use recorded_device::Capacity;
pub use run::{Failure, Outcome};
pub use settings::{Setting, useful_settings};
pub use what_if::{BestSetting, Tried};

/// Something that happened to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// What: a segment event, or [`Action::Alloc`].
    pub action: Action,
    /// First byte on the device.
    pub address: u64,
    /// Bytes: of the segment or range; of an allocation, as asked for.
    pub size: u64,
}

/// The first place where a replay did something else than was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// While events were followed.
    Event {
        /// The event.
        event: usize,
        /// What was recorded there; `None` for nothing.
        recorded: Option<Happened>,
        /// What the replay did; `None` for nothing.
        replayed: Option<Happened>,
    },
    /// Every event was followed, and the layout at the end is another.
    EndState {
        /// The recorded block; `None` for none.
        recorded: Option<EndBlock>,
        /// The replay's.
        replayed: Option<EndBlock>,
    },
}

/// A block of the layout at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndBlock {
    /// First byte of its segment.
    pub segment: u64,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What it is doing.
    pub state: BlockState,
}

/// A recording that was run again under its own settings, and can be under others.
///
/// ```no_run
/// use vramscope_engine::Policy;
/// use vramscope_analysis::{Capacity, History, Replay};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::File::open("snapshot.pickle")?;
/// let trace = vramscope_trace::formats::read(file, &mut |_| {})?.trace;
/// let history = History::of(&trace, &trace.devices[0]);
/// let replay = Replay::of(&history)?;
/// assert!(replay.reproduction.divergence.is_none());
///
/// let expandable = Policy { expandable_segments: true, ..replay.policy.clone() };
/// let outcome = replay.under(&expandable, Some(Capacity { total: 80 << 30, overhead: 1 << 30 }))?;
/// println!("{} bytes, {}", outcome.statistics.reserved.peak, outcome.fits());
/// # Ok(())
/// # }
/// ```
pub struct Replay<'h, 't> {
    history: &'h History<'t>,
    cancel: Cancel,
    program: Arc<Program>,
    start: Start,
    /// Where segments came from whose events were left out.
    first_uses: FirstUses,
    reach: Reach,
    /// Kinds of events that were left out. Where there are some and the replay parts from the recording, nobody can
    /// tell whether the rules or the events are to blame, and the requests are followed on a device of their own.
    pub skipped: SkippedActions,
    /// The rules that made the recording, as far as it tells. Snapshots do not name their release, and releases
    /// differ in which of several blocks of the same size serves first: where the order that the recording
    /// seems to have does not reproduce it and the other does, it is the other, and [`Policy::release`] a release
    /// that has it.
    pub policy: Policy,
    /// What came of the recording's own settings, on a device that is full where the recording shows it.
    pub reproduction: Reproduction,
}

/// A recording run again under its own settings.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// What the allocator counted.
    pub outcome: Outcome,
    /// Where the replay left the recording, if it did.
    pub divergence: Option<Divergence>,
    /// The layout at the end was compared; it is not where the file has none, or one that disagrees with its own
    /// events.
    pub compared_end: bool,
    /// The block size of each allocation by its number in the history, as far as the recording was followed;
    /// 0 where it was not.
    pub sizes: Vec<u64>,
}

/// How large a device is taken for where no size is given: 16 TiB, more than any recording needs.
const UNBOUNDED: u64 = 1 << 44;

/// At how many places what a recording does not say is turned about.
const MOST_TURNED: usize = 16;

impl<'h, 't> Replay<'h, 't> {
    /// Runs the recording behind `history` again.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn of(history: &'h History<'t>) -> Result<Self, ReplayError> {
        Self::of_unless(history, &Cancel::default())
    }

    /// As [`of`](Self::of), as long as the answer is wanted; so are replays of it.
    pub(crate) fn of_unless(history: &'h History<'t>, cancel: &Cancel) -> Result<Self, ReplayError> {
        let program = Arc::new(Program::of(history, &Turned::new()));
        let mut best = Self::reproducing(history, &history.policy, Arc::clone(&program), cancel)?;
        if best.gets_to() < usize::MAX
            && let Some(release) = history.policy.release
        {
            let policy = history.policy.in_order_of(release.of_other_order());
            let other = Self::reproducing(history, &policy, program, cancel)?;
            if other.gets_to() == usize::MAX {
                best = other;
            }
        }
        best.checked()
    }

    /// As [`of`](Self::of), by the rules of the history alone: its release is known.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn of_known_release(history: &'h History<'t>) -> Result<Self, ReplayError> {
        Self::of_known_release_unless(history, &Cancel::default())
    }

    pub(super) fn of_known_release_unless(
        history: &'h History<'t>,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        let program = Arc::new(Program::of(history, &Turned::new()));
        Self::reproducing(history, &history.policy, program, cancel)?.checked()
    }

    /// Where the replay parts from the recording: tries whether segments came when they were first used, and no event
    /// says so; and follows the requests alone where events were left out.
    fn checked(mut self) -> Result<Self, ReplayError> {
        if self.gets_to() < usize::MAX
            && !self.skipped.segments()
            && let Some(mut other) = self.with_first_uses()?
        {
            other.skipped.set_growth(&self.policy, true);
            return Ok(other);
        }
        if self.gets_to() < usize::MAX && self.history.reserved.is_empty() {
            // Whatever was allocated lay in some segment.
            self.skipped.set_growth(&self.policy, true);
        }
        if self.is_unchecked() {
            let (run, finished) = self.run(&self.policy, None, false)?;
            self.reproduction.outcome = run.outcome(!finished);
        } else if matches!(self.reproduction.divergence, Some(Divergence::Event { .. })) {
            self.reproduction = self.reproduce(false)?;
        }
        Ok(self)
    }

    /// The reading in which all segments, or as few as can be, came when they were first used, if it reproduces the
    /// recording.
    fn with_first_uses(&self) -> Result<Option<Self>, ReplayError> {
        let all = FirstUses::of(self.history);
        if all.is_empty() {
            return Ok(None);
        }
        let program = Arc::new(Program::of(self.history, &Turned::new()));
        let read = |uses: &FirstUses| {
            Self::reading(self.history, &self.policy, Arc::clone(&program), uses.clone(), &self.cancel)
        };
        let mut reading = read(&all)?;
        let mut some = FirstUses::default();
        let mut place = self.gets_to();
        let mut too_early = all.used_later(self.history, self.reproduction.divergence);
        for _ in 0..MOST_TURNED {
            if reading.gets_to() == usize::MAX {
                return Ok(Some(reading));
            }
            let Some((address, event)) = too_early else { break };
            some.insert(address, event);
            reading = read(&some)?;
            if reading.gets_to() <= place {
                break;
            }
            place = reading.gets_to();
            too_early = all.used_later(self.history, reading.reproduction.divergence);
        }
        Ok(Some(reading).filter(|reading| reading.gets_to() == usize::MAX))
    }

    /// The recording lacks events and is not reproduced: it cannot be told why.
    pub(super) fn is_unchecked(&self) -> bool {
        !self.skipped.is_empty() && self.reproduction.divergence.is_some()
    }

    /// The reading of the recording that reproduces most of it: what it does not say is turned about where that
    /// gets further.
    /// `program` is the likely one.
    fn reproducing(
        history: &'h History<'t>,
        policy: &Policy,
        program: Arc<Program>,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        let mut turned = Turned::new();
        let mut best = Self::reading(history, policy, program, FirstUses::default(), cancel)?;
        for _ in 0..MOST_TURNED {
            let place = best.gets_to();
            let before = |&&request: &&u32| request as usize <= place;
            let last = best.program.turnable.iter().rev().find(before).copied();
            let Some(request) = last.filter(|r| place < usize::MAX && !turned.contains_key(r)) else { break };
            let mut further = None;
            for other in Reading::OTHERS {
                turned.insert(request, other);
                let program = Arc::new(Program::of(history, &turned));
                let reading = Self::reading(history, policy, program, FirstUses::default(), cancel)?;
                if reading.gets_to() > place {
                    further = Some(reading);
                    break;
                }
            }
            let Some(further) = further else { break };
            best = further;
        }
        Ok(best)
    }

    /// The event at which the replay leaves the recording; the largest number where it does not.
    fn gets_to(&self) -> usize {
        match self.reproduction.divergence {
            None => usize::MAX,
            Some(Divergence::Event { event, .. }) => event,
            Some(Divergence::EndState { .. }) => self.history.device.events.len(),
        }
    }

    /// One reading, followed as far as it agrees with the recording.
    fn reading(
        history: &'h History<'t>,
        policy: &Policy,
        program: Arc<Program>,
        first_uses: FirstUses,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        if program.arenas.len() > MOST_ARENAS {
            return Err(ReplayError::TooManyArenas(program.arenas.len()));
        }
        let start = Start::of(history, &program, &first_uses);
        let reproduction = Reproduction {
            outcome: Outcome::default(),
            divergence: None,
            compared_end: false,
            sizes: Vec::new(),
        };
        let cancel = cancel.clone();
        let (policy, skipped) = (policy.clone(), history.quality.skipped);
        let reach = Reach::of(history, &program);
        let mut this =
            Self { history, cancel, program, start, first_uses, skipped, reach, policy, reproduction };
        this.reproduction = this.reproduce(true)?;
        Ok(this)
    }

    /// Runs under the recorded settings; where `stops` is set, no further than the recording is followed, and what
    /// was counted then is of no use.
    fn reproduce(&self, stops: bool) -> Result<Reproduction, ReplayError> {
        let (mut run, device) = self.start_recorded(&self.policy, None)?;
        run.stops_at_divergence = stops;
        let mut sizes = vec![0; self.history.allocations.len()];
        let finished = run.follow(&device, self.history, &mut |id, size| sizes[id as usize] = size);
        self.still_wanted()?;
        // Trace and end state are copied one after the other: where they disagree, neither can be had.
        let comparable =
            !self.history.device.segments.is_empty() && self.history.quality.end_state_disagreements == 0;
        let mut divergence = device.divergence();
        let compared_end = comparable && divergence.is_none();
        if compared_end {
            divergence = self.end_state_differs(&run);
        }
        Ok(Reproduction { outcome: run.outcome(!finished), divergence, compared_end, sizes })
    }

    /// Runs the recording's requests under other rules or on a device of another size. Under the recorded
    /// rules they get the recorded addresses, as long as the device has room.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn under(&self, policy: &Policy, capacity: Option<Capacity>) -> Result<Outcome, ReplayError> {
        if capacity.is_none() && self.has_the_rules_of(policy) {
            return Ok(self.reproduction.outcome.clone());
        }
        let (run, finished) = self.run(policy, capacity, false)?;
        Ok(run.outcome(!finished))
    }

    /// Why the first request that fails under these rules fails; `None` where none does.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn explain(
        &self,
        frames: &Frames,
        policy: &Policy,
        capacity: Option<Capacity>,
    ) -> Result<Option<OutOfMemory>, ReplayError> {
        let (run, _) = self.run(policy, capacity, true)?;
        let failure = run.failure;
        Ok(failure.map(|failure| explain::explain(self.history, frames, policy, &run, failure)))
    }

    /// How much memory the recorded allocator could have: what it held and what the device had free when it
    /// first ran out; `None` where it never did.
    pub fn recorded_capacity(&self) -> Option<Capacity> {
        if self.skipped.segments() {
            // What was reserved then is not known.
            return None;
        }
        let events = &self.history.device.events;
        let event = events.actions().iter().position(|&a| a == Action::Oom)?;
        let oom = events.get(event);
        let reserved = self.history.counters_at(Moment::after(event)).reserved;
        if !self.ran_into_limit() {
            return Some(Capacity { total: reserved.saturating_add(oom.address), overhead: 0 });
        }
        // The limit was at least what was reserved.
        let total = match self.policy.memory_fraction.filter(|&fraction| fraction > 0.0) {
            Some(fraction) => (reserved as f64 / fraction).ceil() as u64 + 1,
            None => reserved,
        };
        Some(Capacity { total, overhead: 0 })
    }

    /// The recording first ran out of memory at a limit on reserved bytes: the device had more than was asked for.
    pub(super) fn ran_into_limit(&self) -> bool {
        let events = &self.history.device.events;
        let first = events.actions().iter().position(|&a| a == Action::Oom).map(|event| events.get(event));
        first.is_some_and(|oom| self.policy.segment_size(oom.size) <= oom.address)
    }

    /// Runs the program to its end or its first failure; returns whether it came to its end.
    fn run(
        &self,
        policy: &Policy,
        capacity: Option<Capacity>,
        stops_at_failure: bool,
    ) -> Result<(Run<'_>, bool), ReplayError> {
        if self.has_the_rules_of(policy) && self.start_fits(capacity) && !self.is_unchecked() {
            let (mut run, device) = self.start_recorded(policy, capacity)?;
            run.stops_at_failure = stops_at_failure;
            let finished = run.follow(&device, self.history, &mut |_, _| {});
            self.still_wanted()?;
            return Ok((run, finished));
        }
        let device = match capacity {
            Some(c) => VirtualDevice::with_capacity(c.total).with_used(c.overhead),
            None => VirtualDevice::with_capacity(UNBOUNDED),
        };
        let mut run = self.new_run(policy, capacity, Arc::new(device))?;
        run.stops_at_failure = stops_at_failure;
        let finished = start::request_start(&mut run, self.history, &self.program) && run.finish();
        self.still_wanted()?;
        Ok((run, finished))
    }

    /// Runs under `policy` are those of the recorded rules.
    fn has_the_rules_of(&self, policy: &Policy) -> bool {
        self.reach.rules_that_matter(policy) == self.reach.rules_that_matter(&self.policy)
    }

    /// # Errors
    /// Where the answer is no longer wanted: what a run has come to then says nothing.
    fn still_wanted(&self) -> Result<(), ReplayError> {
        if self.cancel.is_cancelled() { Err(ReplayError::Cancelled) } else { Ok(()) }
    }

    /// What lay on the device before the first event has room on this one.
    fn start_fits(&self, capacity: Option<Capacity>) -> bool {
        capacity.is_none_or(|c| self.start.reserved() <= c.total.saturating_sub(c.overhead))
    }

    fn start_recorded(
        &self,
        policy: &Policy,
        capacity: Option<Capacity>,
    ) -> Result<(Run<'_>, Arc<RecordedDevice>), ReplayError> {
        let device = Arc::new(RecordedDevice::new(self.history, &self.first_uses, capacity));
        let mut run = self.new_run(policy, capacity, Arc::clone(&device) as Arc<dyn Device>)?;
        run.follows_collections = capacity.is_none();
        self.start.install(&mut run, &device);
        Ok((run, device))
    }

    fn new_run(
        &self,
        policy: &Policy,
        capacity: Option<Capacity>,
        device: Arc<dyn Device>,
    ) -> Result<Run<'_>, ReplayError> {
        let mut policy = policy.clone();
        if capacity.is_none() {
            // A fraction of nobody knows what.
            policy.memory_fraction = None;
        }
        Ok(Run::new(&self.program, self.history, CachingAllocator::new(policy, device)?, self.cancel.clone()))
    }

    /// Where the layout at the end is not the recorded one.
    fn end_state_differs(&self, run: &Run<'_>) -> Option<Divergence> {
        let recorded = &self.history.device;
        let replayed = run.allocator.segments();
        let replayed = replayed.iter().flat_map(|(segment, blocks)| {
            blocks.iter().map(|b| EndBlock {
                segment: segment.address,
                address: b.address,
                size: b.size,
                state: b.state,
            })
        });
        let recorded = recorded.segments.iter().flat_map(|segment| {
            recorded.blocks_of(segment).iter().map(|b| EndBlock {
                segment: segment.address,
                address: b.address,
                size: b.size,
                state: b.state,
            })
        });
        let (mut recorded, mut replayed) = (recorded, replayed);
        loop {
            match (recorded.next(), replayed.next()) {
                (None, None) => return None,
                (recorded, replayed) if recorded != replayed => {
                    return Some(Divergence::EndState { recorded, replayed });
                }
                _ => {}
            }
        }
    }
}
