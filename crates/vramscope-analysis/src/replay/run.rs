//! Runs a program through an allocator.

use vramscope_engine::{CachingAllocator, EngineError, Installed, LiveBlock, PendingBlock, Statistics};
use vramscope_trace::{Action, PoolId, SegmentKind};

use super::first_difference::MemoryEvent;
use super::program::{Program, Step, StepKind};
use super::recorded_device::{Arena, RecordedDevice};
use crate::history::History;
use vramscope_basics::Cancel;

/// The outcome of a replay, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The allocator's counters. Peaks cover the whole run, including memory that was live at the start.
    pub statistics: Statistics,
    /// Reserved but not active bytes at the request at which active bytes peaked.
    pub external_at_peak: u64,
    /// Reserved bytes after each event that changed them, oldest first, starting with the value at the start.
    pub reserved: Vec<(usize, u64)>,
    /// The first request that failed.
    pub failure: Option<Failure>,
    /// Number of requests that failed in the recording but succeed here. It is unknown how the program would have used this
    /// memory, so it is freed at once.
    pub rescued: usize,
    /// The replay ended at the failure: the recording does not show what the program would have done next.
    pub stopped: bool,
}

/// A failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The event of the request; also 0 for a request before the first event.
    pub event: usize,
    /// Requested bytes if known, else the rounded bytes.
    pub requested: u64,
    /// Requested bytes, rounded as the allocator does.
    pub size: u64,
    /// The requested pool.
    pub pool: PoolId,
    /// The stream of the request.
    pub stream: u64,
    /// Free bytes of the device; 0 if the device was not asked.
    pub device_free: u64,
    /// Whether the same request also failed in the recording.
    pub recorded: bool,
}

/// The content of a slot.
#[derive(Default)]
enum Slot {
    #[default]
    Nothing,
    Live(LiveBlock),
    Pending(PendingBlock),
}

/// A program's requests in progress through an allocator.
pub(super) struct Run<'p> {
    pub(super) program: &'p Program,
    history: &'p History,
    /// Ends the run early when cancelled.
    cancel: Cancel,
    /// Whether the run also ends at a failure that the recorded program survived.
    pub(super) stops_at_failure: bool,
    /// Whether the run ends where it diverges from the recording.
    pub(super) stops_at_difference: bool,
    /// Whether garbage collections under an unknown limit are replayed as recorded.
    pub(super) follows_collections: bool,
    pub(super) allocator: CachingAllocator,
    slots: Vec<Slot>,
    /// Bytes in slots: an upper bound of the active bytes, since the allocator may already have waited for a stream.
    in_slots: u64,
    pub(super) reserved: Vec<(usize, u64)>,
    most_active: u64,
    external_at_peak: u64,
    pub(super) failure: Option<Failure>,
    rescued: usize,
    /// The served requests that were not at their planned places; empty without a plan.
    pub(super) unplanned: Vec<u32>,
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
            stops_at_difference: false,
            follows_collections: false,
            allocator,
            slots,
            in_slots: 0,
            reserved: Vec::new(),
            most_active: 0,
            external_at_peak: 0,
            failure: None,
            rescued: 0,
            unplanned: Vec::new(),
        }
    }

    /// Puts an existing block into a slot.
    pub(super) fn place(&mut self, slot: u32, block: Installed) {
        self.in_slots += block.size();
        self.slots[slot as usize] = match block {
            Installed::Live(block) => Slot::Live(block),
            Installed::Pending(block) => Slot::Pending(block),
        };
    }

    /// Frees a block that other streams still use.
    pub(super) fn request_free(&mut self, slot: u32) {
        let slot = &mut self.slots[slot as usize];
        if let Slot::Live(block) = std::mem::take(slot) {
            *slot = Slot::Pending(block.free_requested());
        }
    }

    /// Requests a block; returns false and records the failure if there is no memory.
    pub(super) fn request(&mut self, step: &Step) -> bool {
        let (pool, stream) = self.program.arenas[step.arena as usize];
        match self.allocator.malloc(pool, stream, step.size(self.history)) {
            Ok(block) => {
                if self.allocator.has_plan() && !block.is_planned() {
                    self.unplanned.push(step.subject);
                }
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

    /// Records the figures of the starting layout.
    pub(super) fn note_start(&mut self) {
        self.note_reserved(0);
        self.note_peak();
    }

    /// Updates the peak after an allocation.
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

    fn fail(&mut self, step: &Step, error: &EngineError, recorded: bool) {
        let (pool, stream) = self.program.arenas[step.arena as usize];
        let device_free = match error {
            EngineError::OutOfMemory(e) => e.device_free,
            _ => None,
        };
        let size = match error {
            EngineError::OutOfMemory(e) => e.size,
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

    /// Runs all remaining steps, until the end or until a request fails that did not fail in the recording.
    pub(super) fn finish(&mut self) -> bool {
        let mut steps = self.program.steps.iter().enumerate();
        steps.all(|(i, step)| !self.cancel.is_cancelled_at(i) && self.step(step))
    }

    /// Runs all steps of a recording that `device` follows. Calls `sizes` with the block size of each allocation as long as the
    /// recording is followed.
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
                if self.stops_at_difference {
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
                        // This happens only if the given device is smaller than the recorded one.
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

    /// Runs one step; returns false if the run cannot continue.
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
                // A virtual device never refuses to take back its memory.
                match step.kind {
                    StepKind::EmptyCache => self.allocator.empty_cache().ok(),
                    StepKind::ReleaseAt => {
                        let address = self.history.device().events.get(step.event as usize).address();
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

    /// Returns the start address and the size of the block in a slot, if it is allocated.
    pub(super) fn block_in(&self, slot: usize) -> Option<(u64, u64)> {
        match self.slots.get(slot)? {
            Slot::Live(block) => Some((block.address(), block.size())),
            Slot::Pending(_) | Slot::Nothing => None,
        }
    }
}
