//! Replays of a recording under any rules, on a device of any size.

use std::sync::Arc;

use vramscope_engine::{CachingAllocator, Device, Policy, VirtualDevice};
use vramscope_trace::PoolId;

use super::capacity::{Capacity, ReplayDevice, UNLIMITED};
use super::error::ReplayError;
use super::first_difference::{EndBlock, ReplayDifference};
use super::first_use::FirstUses;
use super::program::{Program, StepKind};
use super::reach::Reach;
use super::recorded_device::RecordedDevice;
use super::run::{Outcome, Run};
use super::settings::Setting;
use super::start::{Start, request_start};
use crate::history::{History, SkippedActions};
use vramscope_basics::Cancel;

/// A recording that was replayed under its own settings and can be replayed under others.
///
/// ```no_run
/// use vramscope_engine::Policy;
/// use vramscope_analysis::{Capacity, History, Replay};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trace = vramscope_trace::formats::Reader::open("snapshot.pickle")?.read()?.trace;
/// let history = History::of(&trace, 0);
/// let replay = Replay::of(&history)?;
/// assert!(replay.reproduction.first_difference.is_none());
///
/// let mut expandable = replay.policy.clone();
/// expandable.expandable_segments = true;
/// let outcome = replay.under(&expandable, Capacity { total: 80 << 30, overhead: 1 << 30 })?;
/// println!("{} bytes, {}", outcome.statistics.reserved.peak, outcome.fits());
/// # Ok(())
/// # }
/// ```
pub struct Replay<'h> {
    pub(super) history: &'h History,
    pub(super) cancel: Cancel,
    pub(super) program: Arc<Program>,
    pub(super) start: Start,
    /// The first uses of segments whose events were left out.
    pub(super) first_uses: FirstUses,
    pub(super) reach: Reach,
    /// Kinds of events that were left out. If there are any and the replay diverges, the cause may be the rules or the events.
    /// The requests are then replayed on a separate device.
    pub skipped: SkippedActions,
    /// The rules that made the recording, as far as it shows them. Snapshots do not name their release, and releases differ in
    /// the search order among blocks of the same size. If the order that the recording seems to have does not reproduce it, but
    /// the other order does, then the rules have the other order, and [`Policy::release`] is a release with that order.
    pub policy: Policy,
    /// The outcome under the recording's own settings, on a device that is full where the recording shows it.
    pub reproduction: Reproduction,
}

/// The result of replaying a recording under its own settings.
#[derive(Debug, Clone)]
pub struct Reproduction {
    /// The allocator's counters.
    pub outcome: Outcome,
    /// Where the replay diverged from the recording, if it did.
    pub first_difference: Option<ReplayDifference>,
    /// Whether the layout at the end was compared. It is not compared if the file has none, or if it disagrees with the file's
    /// own events.
    pub compared_end: bool,
    /// The block size of each allocation, by its index in the history; 0 after the recording was no longer followed.
    pub sizes: Vec<u64>,
}

impl<'h> Replay<'h> {
    /// Replays the recording's requests under any rules, on a [`ReplayDevice`] or a [`Capacity`](super::Capacity). Under the
    /// recorded rules, the requests get the recorded addresses as long as the device has room.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn under(&self, policy: &Policy, device: impl Into<ReplayDevice>) -> Result<Outcome, ReplayError> {
        let device = self.with_its_size(device.into());
        if device == ReplayDevice::Recorded && self.has_the_rules_of(policy) {
            return Ok(self.reproduction.outcome.clone());
        }
        let (run, finished) = self.run(policy, device, false)?;
        Ok(run.outcome(!finished))
    }

    /// Replays the requests, with all requests to private pools sent to the default pool.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn without_private_pools(
        &self,
        policy: &Policy,
        capacity: Capacity,
    ) -> Result<Outcome, ReplayError> {
        let mut program = (*self.program).clone();
        for (pool, _) in &mut program.arenas {
            *pool = PoolId::default();
        }
        program.steps.retain(|step| !matches!(step.kind, StepKind::EmptyPool | StepKind::ReleasePool));
        self.other_program(&program, policy, capacity)
    }

    /// Replays the requests, with no freed block that waits for another stream.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn without_waiting(
        &self,
        policy: &Policy,
        capacity: Capacity,
    ) -> Result<Outcome, ReplayError> {
        let mut program = (*self.program).clone();
        for step in program.steps.iter_mut().filter(|step| step.kind == StepKind::FreeRequested) {
            // The completion then finds nothing in the slot.
            step.kind = StepKind::Free;
        }
        self.other_program(&program, policy, capacity)
    }

    /// Replays a modified program on a separate device.
    fn other_program(
        &self,
        program: &Program,
        policy: &Policy,
        capacity: Capacity,
    ) -> Result<Outcome, ReplayError> {
        let device = VirtualDevice::with_capacity(capacity.total).with_used(capacity.overhead);
        let allocator = CachingAllocator::new(policy.clone(), Arc::new(device))?;
        let mut run = Run::new(program, self.history, allocator, self.cancel.clone());
        let finished = request_start(&mut run, self.history, program) && run.finish();
        self.still_wanted()?;
        Ok(run.outcome(!finished))
    }

    /// Returns the recorded settings.
    pub(crate) fn recorded_setting(&self) -> Setting {
        Setting::recorded(&self.history.trace().settings.clone().unwrap_or_default(), &self.policy)
    }

    /// Returns the device; if it is the recorded one and its size is known, returns a device of that size.
    pub(super) fn with_its_size(&self, device: ReplayDevice) -> ReplayDevice {
        match device {
            ReplayDevice::Recorded => self.recorded_capacity().map_or(device, ReplayDevice::Of),
            ReplayDevice::Unlimited | ReplayDevice::Of(_) => device,
        }
    }

    /// Runs the program to its end or to its first failure; returns whether it reached its end.
    pub(super) fn run(
        &self,
        policy: &Policy,
        device: ReplayDevice,
        stops_at_failure: bool,
    ) -> Result<(Run<'_>, bool), ReplayError> {
        if self.has_the_rules_of(policy) && self.start_fits(device) && !self.is_unchecked() {
            let (mut run, device) = self.start_recorded(policy, device)?;
            run.stops_at_failure = stops_at_failure;
            let finished = run.follow(&device, self.history, &mut |_, _| {});
            self.still_wanted()?;
            return Ok((run, finished));
        }
        let virtual_device = match device.capacity() {
            Some(c) => VirtualDevice::with_capacity(c.total).with_used(c.overhead),
            None => VirtualDevice::with_capacity(UNLIMITED),
        };
        let mut run = self.new_run(policy, device, Arc::new(virtual_device))?;
        run.stops_at_failure = stops_at_failure;
        let finished = request_start(&mut run, self.history, &self.program) && run.finish();
        self.still_wanted()?;
        Ok((run, finished))
    }

    /// Whether replays under `policy` are the same as under the recorded rules.
    fn has_the_rules_of(&self, policy: &Policy) -> bool {
        self.reach.rules_that_matter(policy) == self.reach.rules_that_matter(&self.policy)
    }

    /// # Errors
    /// [`ReplayError::Cancelled`] if the replay was cancelled; a run's results are then meaningless.
    pub(super) fn still_wanted(&self) -> Result<(), ReplayError> {
        if self.cancel.is_cancelled() { Err(ReplayError::Cancelled) } else { Ok(()) }
    }

    /// Whether the memory that was reserved before the first event fits on this device.
    pub(super) fn start_fits(&self, device: ReplayDevice) -> bool {
        device.capacity().is_none_or(|c| self.start.reserved() <= c.total.saturating_sub(c.overhead))
    }

    fn start_recorded(
        &self,
        policy: &Policy,
        device: ReplayDevice,
    ) -> Result<(Run<'_>, Arc<RecordedDevice>), ReplayError> {
        let recorded = Arc::new(RecordedDevice::new(self.history, &self.first_uses, device.capacity()));
        let mut run = self.new_run(policy, device, Arc::clone(&recorded) as Arc<dyn Device>)?;
        run.follows_collections = device == ReplayDevice::Recorded;
        self.start.install(&mut run, &recorded);
        Ok((run, recorded))
    }

    fn new_run(
        &self,
        policy: &Policy,
        device: ReplayDevice,
        memory: Arc<dyn Device>,
    ) -> Result<Run<'_>, ReplayError> {
        let mut policy = policy.clone();
        if !device.has_limits() {
            policy.memory_fraction = None;
        }
        Ok(Run::new(&self.program, self.history, CachingAllocator::new(policy, memory)?, self.cancel.clone()))
    }

    /// Replays under the recorded settings. If `stops` is set, the replay ends where it diverges from the recording; its counters
    /// are then meaningless.
    pub(super) fn reproduce(&self, stops: bool) -> Result<Reproduction, ReplayError> {
        let (mut run, device) = self.start_recorded(&self.policy, ReplayDevice::Recorded)?;
        run.stops_at_difference = stops;
        let mut sizes = vec![0; self.history.allocations.len()];
        let finished = run.follow(&device, self.history, &mut |id, size| sizes[id as usize] = size);
        self.still_wanted()?;
        // Trace and end state are copied one after the other: if they disagree, neither can be reproduced.
        let comparable = !self.history.device().segments.is_empty()
            && self.history.quality.contradictions.end_state_disagreements == 0;
        let mut first_difference = device.first_difference();
        let compared_end = comparable && first_difference.is_none();
        if compared_end {
            first_difference = self.end_state_differs(&run);
        }
        Ok(Reproduction { outcome: run.outcome(!finished), first_difference, compared_end, sizes })
    }

    /// Whether the recording lacks events and is not reproduced, so that the reason is unknown.
    pub(super) fn is_unchecked(&self) -> bool {
        !self.skipped.is_empty() && self.reproduction.first_difference.is_some()
    }

    /// Returns where the layout at the end differs from the recorded one.
    fn end_state_differs(&self, run: &Run<'_>) -> Option<ReplayDifference> {
        let recorded = self.history.device();
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
                    return Some(ReplayDifference::EndState { recorded, replayed });
                }
                _ => {}
            }
        }
    }
}
