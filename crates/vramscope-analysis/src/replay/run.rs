//! A program run through an allocator.

use vramscope_engine::{AllocError, CachingAllocator, Installed, LiveBlock, PendingBlock, Statistics};
use vramscope_trace::{Action, PoolId, SegmentKind};

use super::divergence::MemoryEvent;
use super::program::{Program, Step, StepKind};
use super::recorded_device::{Arena, RecordedDevice};
use crate::cancel::Cancel;
use crate::history::History;

/// What came of a replay, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the allocator counted. Peaks are those of the whole run, memory live at the start included.
    pub statistics: Statistics,
    /// Reserved and not active at the request at which active bytes peaked.
    pub external_at_peak: u64,
    /// Reserved bytes after each event that changed them, oldest first, beginning with those at the start.
    pub reserved: Vec<(usize, u64)>,
    /// The first request that failed.
    pub failure: Option<Failure>,
    /// Requests that failed in the recording and are served here. What the program would have done with the
    /// memory is not known; it is given back at once.
    pub rescued: usize,
    /// The replay ended at the failure: the recording does not say what the program would have done.
    pub stopped: bool,
}

/// A request that finds no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The event of the request; 0 also for one before the first.
    pub event: usize,
    /// Bytes asked for, where known; else rounded.
    pub requested: u64,
    /// Bytes asked for, rounded as the allocator does.
    pub size: u64,
    /// The pool that was asked.
    pub pool: PoolId,
    /// The stream that the block was for.
    pub stream: u64,
    /// Bytes the device had free, if it was asked.
    pub device_free: u64,
    /// The same request failed in the recording, too.
    pub recorded: bool,
}

/// What a slot holds.
#[derive(Default)]
enum Slot {
    #[default]
    Nothing,
    Live(LiveBlock),
    Pending(PendingBlock),
}

/// The requests of a program on their way through an allocator.
pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    history: &'p History,
    /// A run ends where its answer is no longer wanted.
    cancel: Cancel,
    /// Also a failure that the recorded program lived through ends the run.
    pub(super) stops_at_failure: bool,
    /// Ends where the recording is not followed any more.
    pub(super) stops_at_divergence: bool,
    /// What was collected by a limit that is not known is given back where the recording says so.
    pub(super) follows_collections: bool,
    pub(super) allocator: CachingAllocator,
    slots: Vec<Slot>,
    /// Bytes in slots: at least the active ones, for the allocator may have waited for a stream already.
    in_slots: u64,
    pub(super) reserved: Vec<(usize, u64)>,
    most_active: u64,
    external_at_peak: u64,
    pub(super) failure: Option<Failure>,
    rescued: usize,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        program: &'p Program,
        history: &'p History,
        allocator: CachingAllocator,
        cancel: Cancel,
    ) -> Self {
        for &(pool, _) in &program.arenas {
            if pool != PoolId::default() {
                allocator.create_pool(pool);
            }
        }
        let slots = (0..program.slots).map(|_| Slot::Nothing).collect();
        Self {
            program,
            history,
            cancel,
            stops_at_failure: false,
            stops_at_divergence: false,
            follows_collections: false,
            allocator,
            slots,
            in_slots: 0,
            reserved: Vec::new(),
            most_active: 0,
            external_at_peak: 0,
            failure: None,
            rescued: 0,
        }
    }

    /// Puts a block that is there already into a slot.
    pub(super) fn place(&mut self, slot: u32, block: Installed) {
        self.in_slots += block.size();
        self.slots[slot as usize] = match block {
            Installed::Live(block) => Slot::Live(block),
            Installed::Pending(block) => Slot::Pending(block),
        };
    }

    /// The owner gives a block back that other streams still use.
    pub(super) fn request_free(&mut self, slot: u32) {
        let slot = &mut self.slots[slot as usize];
        if let Slot::Live(block) = std::mem::take(slot) {
            *slot = Slot::Pending(block.free_requested());
        }
    }

    /// Requests a block; false where there is no memory, which is then noted.
    pub(super) fn request(&mut self, step: &Step) -> bool {
        let (pool, stream) = self.program.arenas[step.arena as usize];
        match self.allocator.malloc(pool, stream, step.size(self.history)) {
            Ok(block) => {
                self.in_slots += block.size();
                self.note_reserved(step.event as usize);
                self.note_peak();
                self.slots[step.slot as usize] = Slot::Live(block);
                true
            }
            Err(error) => {
                self.fail(step, &error, false);
                false
            }
        }
    }

    fn note_reserved(&mut self, event: usize) {
        let reserved = self.allocator.reserved_bytes();
        if self.reserved.last().is_some_and(|&(_, before)| before == reserved) {
            return;
        }
        self.reserved.push((event, reserved));
    }

    /// The starting layout is in place.
    pub(super) fn note_start(&mut self) {
        self.note_reserved(0);
        self.note_peak();
    }

    /// Something was handed out.
    fn note_peak(&mut self) {
        if self.in_slots <= self.most_active {
            return;
        }
        let active = self.allocator.active_bytes();
        if active > self.most_active {
            self.most_active = active;
            self.external_at_peak = self.allocator.reserved_bytes().saturating_sub(active);
        }
    }

    fn fail(&mut self, step: &Step, error: &AllocError, recorded: bool) {
        let (pool, stream) = self.program.arenas[step.arena as usize];
        let device_free = match error {
            AllocError::OutOfMemory(e) => e.device_free,
            _ => None,
        };
        let size = match error {
            AllocError::OutOfMemory(e) => e.size,
            _ => step.size(self.history),
        };
        let event = step.event as usize;
        let failure = Failure {
            event,
            requested: step.size(self.history),
            size,
            pool,
            stream,
            device_free: device_free.unwrap_or(0),
            recorded,
        };
        self.failure.get_or_insert(failure);
        self.note_reserved(event);
    }

    /// Runs every step, to the end or to a request that fails and did not in the recording.
    pub(super) fn finish(&mut self) -> bool {
        let mut steps = self.program.steps.iter().enumerate();
        steps.all(|(i, step)| !self.cancel.is_cancelled_at(i) && self.step(step))
    }

    /// Runs every step of a recording that `device` follows, and hands out the size of the block of each
    /// allocation as long as it is followed.
    pub(super) fn follow(
        &mut self,
        device: &RecordedDevice,
        history: &History,
        sizes: &mut dyn FnMut(u32, u64),
    ) -> bool {
        let steps = &self.program.steps;
        let end = history.device().events.len();
        let mut follows = true;
        for (i, step) in steps.iter().enumerate() {
            let subject = step.subject;
            if self.cancel.is_cancelled_at(i) {
                return false;
            }
            if !follows {
                if self.stops_at_divergence {
                    return false;
                }
                self.follows_collections = false;
                if !self.step(step) {
                    return false;
                }
                continue;
            }
            match step.kind {
                StepKind::Malloc => {
                    device.begin_request(step.event as usize, self.arena_of(step, history), false);
                    let served = self.request(step);
                    let recorded = history.allocations.get(subject as usize);
                    let recorded = recorded.map(|a| MemoryEvent {
                        action: Action::Alloc,
                        address: a.address,
                        size: a.requested,
                    });
                    if !served {
                        // Only where the device given is smaller than the recorded one.
                        device.diverge(recorded, None);
                        return false;
                    }
                    follows = device.end_step();
                    if let Slot::Live(block) = &self.slots[step.slot as usize] {
                        let (address, size) = (block.address(), block.size());
                        if recorded.is_some_and(|r| r.address != address) {
                            let replayed =
                                MemoryEvent { action: Action::Alloc, address, size: step.size(history) };
                            device.diverge(recorded, Some(replayed));
                            follows = false;
                        } else if follows {
                            sizes(subject, size);
                        }
                    }
                }
                StepKind::Oom => {
                    device.begin_request(step.event as usize, self.arena_of(step, history), true);
                    let goes_on = self.step(step);
                    follows = device.end_step();
                    if !goes_on {
                        return false;
                    }
                }
                StepKind::ReleaseAt if !self.follows_collections => {}
                StepKind::EmptyCache | StepKind::EmptyPool | StepKind::ReleasePool | StepKind::ReleaseAt => {
                    let next = steps.get(i + 1).map_or(end, |next| next.event as usize);
                    device.begin_step(next);
                    self.step(step);
                    follows = device.follows();
                }
                StepKind::Free | StepKind::FreeRequested | StepKind::FreeCompleted => {
                    self.step(step);
                }
            }
        }
        device.begin_step(end);
        device.end_step();
        true
    }

    fn arena_of(&self, step: &Step, history: &History) -> Arena {
        let (pool, stream) = self.program.arenas[step.arena as usize];
        let policy = &history.policy;
        let is_small = policy.kind(policy.round_size(step.size(history))) == SegmentKind::Small;
        Arena { stream, pool: Some(pool), is_small }
    }

    /// Runs one step; false where the run cannot go on.
    #[inline]
    fn step(&mut self, step: &Step) -> bool {
        match step.kind {
            StepKind::Malloc => return self.request(step),
            StepKind::Free | StepKind::FreeCompleted => {
                match std::mem::take(&mut self.slots[step.slot as usize]) {
                    Slot::Live(block) => {
                        self.in_slots -= block.size();
                        block.free();
                    }
                    Slot::Pending(block) => {
                        self.in_slots -= block.size();
                        block.free_completed();
                    }
                    Slot::Nothing => {}
                }
            }
            StepKind::FreeRequested => self.request_free(step.slot),
            StepKind::Oom => {
                let (pool, stream) = self.program.arenas[step.arena as usize];
                match self.allocator.malloc(pool, stream, step.size(self.history)) {
                    Ok(block) => {
                        self.rescued += 1;
                        self.in_slots += block.size();
                        self.note_reserved(step.event as usize);
                        self.note_peak();
                        self.in_slots -= block.size();
                        block.free();
                    }
                    Err(error) => {
                        self.fail(step, &error, true);
                        return !self.stops_at_failure;
                    }
                }
            }
            StepKind::ReleaseAt if !self.follows_collections => {}
            StepKind::EmptyCache | StepKind::EmptyPool | StepKind::ReleasePool | StepKind::ReleaseAt => {
                let pool = self.program.arenas.get(step.arena as usize).map_or(PoolId::default(), |a| a.0);
                // A virtual device refuses nothing that it gave.
                match step.kind {
                    StepKind::EmptyCache => self.allocator.empty_cache().ok(),
                    StepKind::ReleaseAt => {
                        let address = self.history.device().events.get(step.event as usize).address;
                        self.allocator.release_at(address).map(drop).ok()
                    }
                    _ => self.allocator.empty_pool(pool).ok(),
                };
                if step.kind == StepKind::ReleasePool {
                    self.allocator.release_pool(pool);
                }
                self.note_reserved(step.event as usize);
            }
        }
        true
    }

    pub(super) fn outcome(&self, stopped: bool) -> Outcome {
        Outcome {
            statistics: self.allocator.statistics(),
            external_at_peak: self.external_at_peak,
            reserved: self.reserved.clone(),
            failure: self.failure,
            rescued: self.rescued,
            stopped,
        }
    }

    /// First byte and bytes of the block that a slot holds, if it is handed out.
    pub(super) fn block_in(&self, slot: usize) -> Option<(u64, u64)> {
        match self.slots.get(slot)? {
            Slot::Live(block) => Some((block.address(), block.size())),
            Slot::Pending(_) | Slot::Nothing => None,
        }
    }
}
