//! The requests of the recorded program, as steps that can be replayed.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use vramscope_trace::{Action, PoolId, StackId};

use crate::history::{
    History, LifetimeChange, LifetimeChanges, Moment, Origin, RecordedAllocation, ReservedRange, is_growth,
    is_release, segment_events,
};

/// The requests in one device's recording, in order.
///
/// Blocks are named by slots, each of which holds one block at a time. Steps contain no addresses or block sizes, because the
/// allocator decides those.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    /// Pool and stream of each arena that steps refer to.
    pub(super) arenas: Vec<(PoolId, u64)>,
    /// Allocations that were live before the first step, in address order.
    pub(super) start: Vec<StartStep>,
    /// Number of slots needed at once.
    pub(super) slots: usize,
    /// Number of requests before which memory was released without a record of who released it.
    pub(super) assumed: usize,
    /// Events of requests that can be interpreted in more than one way, in order.
    pub(super) ambiguous: Vec<u32>,
}

pub(super) const NOTHING: u32 = u32::MAX;

/// One step of a [`Program`], in 16 bytes: there are about two for every three events. Data in the history is not repeated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) kind: StepKind,
    /// Index into [`Program::arenas`]. If the number of arenas exceeds 16 bits, no replay runs.
    pub(super) arena: u16,
    pub(super) slot: u32,
    /// The event that recorded the step.
    pub(super) event: u32,
    /// The index of the allocation in the history; [`NOTHING`] if there is none.
    pub(super) subject: u32,
}

impl Step {
    /// Returns the requested bytes of a request; for a request that failed in the recording, the rounded bytes.
    pub(super) fn size(&self, history: &History) -> u64 {
        match self.kind {
            StepKind::Malloc => history.allocations[self.subject as usize].requested,
            StepKind::Oom => history.device().events.sizes()[self.event as usize],
            _ => 0,
        }
    }
}

/// An allocation that was live before the first step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartStep {
    pub(super) subject: u32,
    pub(super) slot: u32,
    pub(super) arena: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    Malloc,
    /// Freed and available at once.
    Free,
    /// Freed, but another stream still uses it.
    FreeRequested,
    /// Available, unless the allocator has already waited for the streams.
    FreeCompleted,
    /// A request that failed in the recording; only its rounded size is known.
    Oom,
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// The cached memory of one private pool was released.
    EmptyPool,
    /// Like `EmptyPool`, with no later requests to the pool.
    ReleasePool,
    /// The allocator released the segment at an address, for a reason that is not recorded.
    ReleaseAt,
}

/// Interpretations of requests, by event, for recordings that do not show what happened before a request. All other requests are
/// interpreted in the likely way.
pub(super) type Readings = BTreeMap<u32, Reading>;

/// An interpretation of the events before a request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    /// Whether memory before the request was released by the less likely side. The likely side is the allocator if the device
    /// must have been full, else the program.
    pub(super) other_releaser: bool,
    /// Whether freed blocks that other streams had used became available at the less likely time: before or after the allocator
    /// looked for a block.
    pub(super) other_completion: bool,
}

impl Reading {
    /// All interpretations except the likely one.
    pub(super) const OTHERS: [Self; 3] = [
        Self { other_releaser: true, other_completion: false },
        Self { other_releaser: false, other_completion: true },
        Self { other_releaser: true, other_completion: true },
    ];
}

impl Program {
    /// Builds the program of a history; `readings` contains requests with a less likely interpretation.
    pub(super) fn of(history: &History, readings: &Readings) -> Self {
        Builder::new(history, readings).build()
    }
}

struct Builder<'h> {
    history: &'h History,
    readings: &'h Readings,
    program: Program,
    arena_index: HashMap<(PoolId, u64), u16>,
    slot_of: Vec<u32>,
    vacant: Vec<u32>,
    pools: Pools<'h>,
    /// Segment events since the last request or free, oldest first.
    window: Vec<u32>,
    /// Frees completed since then: allocation and event.
    completions: Vec<(u32, u32)>,
    /// Completions that the next request caused.
    late: Vec<(u32, u32)>,
    /// Bytes reserved before the window.
    reserved: u64,
    peak_reserved: u64,
    /// The stack that allocated the segment of each release, by the moment of the release.
    taken: HashMap<Moment, Option<StackId>>,
    /// Whether releases were recorded with their own stacks, not with that of the previous request.
    has_stacks_of_frees: bool,
}

impl<'h> Builder<'h> {
    fn new(history: &'h History, readings: &'h Readings) -> Self {
        let n = history.allocations.len();
        let program = Program { steps: Vec::with_capacity(n * 2), ..Program::default() };
        let gone = history.reserved.iter().filter(|r| r.to != Moment::NEVER);
        Self {
            history,
            readings,
            program,
            arena_index: HashMap::new(),
            slot_of: vec![NOTHING; n],
            vacant: Vec::new(),
            pools: Pools::of(&history.reserved),
            window: Vec::new(),
            completions: Vec::new(),
            late: Vec::new(),
            reserved: reserved_at_start(history),
            peak_reserved: peak_reserved(history),
            taken: gone.map(|r| (r.to, r.stack)).collect(),
            has_stacks_of_frees: history.has_stacks_of_frees(),
        }
    }

    fn build(mut self) -> Program {
        self.start();
        let history = self.history;
        let (mut unrecorded, mut ids) = (0, Vec::new());
        for (number, &action) in history.device().events.actions().iter().enumerate() {
            let (now, event) = (Moment::after(number), number as u32);
            self.pools.advance(now);
            if is_growth(action) || is_release(action) {
                self.window.push(event);
                continue;
            }
            ids.clear();
            ids.extend(history.changing_ids_at(now, &mut unrecorded));
            // If a free is missing, one event ends an allocation and begins another.
            for &id in &ids {
                self.end(id, now, event);
            }
            for &id in &ids {
                self.begin(id, now, event);
            }
            if action == Action::Oom {
                self.fail(event);
            }
        }
        self.close_window(None);
        self.release_pools();
        self.program
    }

    fn allocation(&self, id: u32) -> &'h RecordedAllocation {
        &self.history.allocations[id as usize]
    }

    fn push(&mut self, step: Step) {
        self.program.steps.push(step);
    }

    /// Adds the allocations that were live before the first event.
    fn start(&mut self) {
        self.pools.advance(Moment::START);
        let all = 0..self.history.allocations.len() as u32;
        let mut live: Vec<u32> = all.filter(|&id| self.allocation(id).from == Moment::START).collect();
        live.sort_by_key(|&id| (self.allocation(id).address, id));
        for subject in live {
            let start = StartStep { subject, slot: self.take_slot(subject), arena: self.arena_of(subject) };
            self.program.start.push(start);
        }
    }

    fn take_slot(&mut self, id: u32) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.program.slots += 1;
            self.program.slots as u32 - 1
        });
        self.slot_of[id as usize] = slot;
        slot
    }

    fn begin(&mut self, id: u32, now: Moment, event: u32) {
        let a = self.allocation(id);
        if a.from != now {
            return;
        }
        self.close_window((a.origin == Origin::Recorded).then_some(event));
        let (arena, slot) = (self.arena_of(id), self.take_slot(id));
        self.push(Step { kind: StepKind::Malloc, arena, slot, event, subject: id });
        self.complete_late();
        // Its free is missing, and it ended where it began.
        if a.freed == now {
            self.end(id, now, event);
        }
    }

    /// Handles an allocation that is freed, becomes available, or both.
    fn end(&mut self, id: u32, now: Moment, event: u32) {
        let a = self.allocation(id);
        if self.slot_of[id as usize] == NOTHING {
            return;
        }
        if a.freed == now {
            self.close_window(None);
            if self.has_waited(id) {
                self.request_free(id, event);
            }
        }
        if a.to == now {
            self.completions.push((id, event));
        }
    }

    /// Whether other streams still used the block when it was freed. If none did, the completion is recorded right after the free
    /// request, with the same stack. An allocator that waits for other streams may also complete the free right after the
    /// request, but inside another request, which has a different stack.
    fn has_waited(&self, id: u32) -> bool {
        let a = self.allocation(id);
        let Some(freed) = a.freed.event() else { return true };
        let Some(to) = a.to.event().filter(|&to| to <= freed + 1) else { return true };
        let events = &self.history.device().events;
        let stacks = events.get(freed).stack.zip(events.get(to).stack);
        stacks.is_some_and(|(requested, completed)| requested != completed)
    }

    fn request_free(&mut self, id: u32, event: u32) {
        let slot = self.slot_of[id as usize];
        self.push(Step { kind: StepKind::FreeRequested, arena: 0, slot, event, subject: id });
    }

    fn fail(&mut self, event: u32) {
        self.close_window(Some(event));
        let e = self.history.device().events.get(event as usize);
        let tags = self.history.trace().tags.get(e.tags);
        let arena = self.arena(tags.pool.unwrap_or_default(), tags.stream);
        self.push(Step { kind: StepKind::Oom, arena, slot: NOTHING, event, subject: NOTHING });
        self.complete_late();
    }

    /// Marks a block as available, and frees its slot.
    fn vacate(&mut self, kind: StepKind, id: u32, event: u32) {
        let slot = std::mem::replace(&mut self.slot_of[id as usize], NOTHING);
        if slot != NOTHING {
            self.push(Step { kind, arena: 0, slot, event, subject: id });
            self.vacant.push(slot);
        }
    }

    fn complete_late(&mut self) {
        for (id, event) in std::mem::take(&mut self.late) {
            self.vacate(StepKind::FreeCompleted, id, event);
        }
    }

    // ---- pools and streams ----

    fn arena(&mut self, pool: PoolId, stream: u64) -> u16 {
        *self.arena_index.entry((pool, stream)).or_insert_with(|| {
            self.program.arenas.push((pool, stream));
            u16::try_from(self.program.arenas.len() - 1).unwrap_or(u16::MAX)
        })
    }

    fn arena_of(&mut self, id: u32) -> u16 {
        let a = self.allocation(id);
        let named = a.tags.and_then(|tags| self.history.trace().tags.get(tags).pool);
        let pool = named.or_else(|| self.pools.at(a.address)).unwrap_or_default();
        self.arena(pool, a.stream)
    }

    /// Each private pool is released where its memory was last released.
    fn release_pools(&mut self) {
        let mut seen = BTreeSet::new();
        for step in self.program.steps.iter_mut().rev() {
            let Some(&(pool, _)) = self.program.arenas.get(step.arena as usize) else { continue };
            match step.kind {
                StepKind::Malloc => {
                    seen.insert(pool);
                }
                StepKind::EmptyPool if seen.insert(pool) => step.kind = StepKind::ReleasePool,
                _ => {}
            }
        }
    }

    // ---- releases of memory ----

    /// Processes the segment events since the last request or free. They belong to `request`, whose allocator may have released
    /// memory. Without a request, the program itself released it; the same applies to releases that were not inside the request.
    fn close_window(&mut self, request: Option<u32>) {
        let events = &self.history.device().events;
        let failed = request.is_some_and(|r| events.actions()[r as usize] == Action::Oom);
        if self.window.is_empty() && !failed {
            return self.complete_at_once();
        }
        let window = std::mem::take(&mut self.window);
        let completions = std::mem::take(&mut self.completions);
        let grown = || window.iter().map(|&e| events.get(e as usize)).filter(|e| is_growth(e.action));
        let request = request.filter(|_| failed || grown().next().is_some());
        let wanted = if failed {
            request.map_or(0, |r| events.get(r as usize).size)
        } else {
            grown().map(|e| e.size).sum()
        };
        let releases = window.iter().copied().filter(|&e| is_release(events.actions()[e as usize]));
        let (inside, explicit): (Vec<u32>, Vec<u32>) =
            releases.partition(|&r| request.is_some_and(|request| self.is_inside(r, request, wanted)));
        let collects = self.history.policy.garbage_collection_threshold.is_some();
        self.place(completions, request, &inside, !explicit.is_empty());
        if let Some(&first) = explicit.first() {
            self.push_explicit(first, &explicit);
        }
        // A garbage collection depends on a limit that the recording does not name, so its releases are replayed as recorded.
        for release in inside.into_iter().filter(|_| collects) {
            let step =
                Step { kind: StepKind::ReleaseAt, arena: 0, slot: NOTHING, event: release, subject: NOTHING };
            self.push(step);
        }
        for &e in &window {
            let e = events.get(e as usize);
            self.reserved = if is_growth(e.action) {
                self.reserved.saturating_add(e.size)
            } else {
                self.reserved.saturating_sub(e.size)
            };
        }
    }

    /// Completes frees without segment events next to them: nothing waited for them, and their blocks are available before the
    /// next event.
    fn complete_at_once(&mut self) {
        let mut completions = std::mem::take(&mut self.completions);
        for (id, event) in completions.drain(..) {
            self.vacate(
                if self.has_waited(id) { StepKind::FreeCompleted } else { StepKind::Free },
                id,
                event,
            );
        }
        // This is the most common path, so the list is reused.
        self.completions = completions;
    }

    /// Decides whether the frees that completed in the window became available before the window's request, or whether the
    /// request waited for them after it had looked for a block.
    fn place(
        &mut self,
        completions: Vec<(u32, u32)>,
        request: Option<u32>,
        inside: &[u32],
        is_emptied: bool,
    ) {
        let policy = &self.history.policy;
        let collects = policy.garbage_collection_threshold.is_some();
        // Frees that completed after a release were waited for. But if releases are replayed as recorded, the blocks must be
        // available by then.
        let first = inside.first().filter(|_| !collects).copied().unwrap_or(NOTHING);
        let (early, late): (Vec<_>, Vec<_>) = completions.into_iter().partition(|&(_, event)| event < first);
        // Earlier frees either had completed when the request began, or were waited for too. If the request releases all cached
        // segments, both cases give the same result, and the late one never finds a block too early. A free that seems to have
        // completed at once may also be one that the request waited for.
        let has_waited = early.iter().any(|&(id, _)| self.has_waited(id));
        let gives_everything = !inside.is_empty() && !collects && policy.max_split_size.is_none();
        let is_doubtful = has_waited || !(early.is_empty() || inside.is_empty());
        let other_completion = request.filter(|_| is_doubtful).is_some_and(|request| {
            self.ambiguous(request);
            self.reading(request).other_completion
        });
        let is_late = !is_emptied && (has_waited && gives_everything) != other_completion;
        for (id, event) in early {
            let has_waited = self.has_waited(id);
            if !is_late {
                self.vacate(if has_waited { StepKind::FreeCompleted } else { StepKind::Free }, id, event);
                continue;
            }
            if !has_waited {
                self.request_free(id, event);
            }
            self.late.push((id, event));
        }
        self.late.extend(late);
    }

    /// Whether the release happened inside the request, and not by the program before it. A recording does not contain calls of
    /// `empty_cache`, but everything inside a request has the request's stack.
    fn is_inside(&mut self, release: u32, request: u32, wanted: u64) -> bool {
        let events = &self.history.device().events;
        let stack = |e: u32| events.get(e as usize).stack;
        if let (Some(own), Some(requests)) = (stack(release), stack(request)) {
            // Under `context="alloc"`, a release by the program has the stack that allocated the segment, which may be the same
            // line.
            let taken = self.taken.get(&Moment::after(release as usize)).copied().flatten();
            if own != requests {
                return false;
            }
            if self.has_stacks_of_frees || taken.is_some_and(|taken| taken != own) {
                return true;
            }
        }
        if self.history.policy.garbage_collection_threshold.is_some() {
            return true;
        }
        if self.ambiguous(request) {
            self.program.assumed += 1;
        }
        // The device is assumed to be full if the request would have set a new peak.
        let is_full = self.reserved.saturating_add(wanted) > self.peak_reserved;
        is_full != self.reading(request).other_releaser
    }

    fn reading(&self, request: u32) -> Reading {
        self.readings.get(&request).copied().unwrap_or_default()
    }

    /// Records that a request can be interpreted in more than one way; returns false if that is already recorded.
    fn ambiguous(&mut self, request: u32) -> bool {
        let is_new = self.program.ambiguous.last() != Some(&request);
        if is_new {
            self.program.ambiguous.push(request);
        }
        is_new
    }

    /// The program released cached memory: all of it, or that of one private pool.
    fn push_explicit(&mut self, first: u32, releases: &[u32]) {
        let events = &self.history.device().events;
        let pool_of = |r: u32| self.history.trace().tags.get(events.get(r as usize).tags).pool;
        let pool = pool_of(first).filter(|&p| p != PoolId::default());
        let pool = pool.filter(|&pool| releases.iter().all(|&r| pool_of(r) == Some(pool)));
        let (kind, arena) = match pool {
            Some(pool) => (StepKind::EmptyPool, self.arena(pool, 0)),
            None => (StepKind::EmptyCache, 0),
        };
        self.push(Step { kind, arena, slot: NOTHING, event: first, subject: NOTHING });
    }
}

fn reserved_at_start(history: &History) -> u64 {
    let ranges = history.reserved.iter().filter(|r| r.from == Moment::START);
    ranges.fold(0, |sum, r| sum.saturating_add(r.size))
}

fn peak_reserved(history: &History) -> u64 {
    let start = reserved_at_start(history);
    let (mut now, mut peak) = (start, start);
    for (_, e) in segment_events(history.device()) {
        if is_growth(e.action) {
            now = now.saturating_add(e.size);
            peak = peak.max(now);
        } else {
            now = now.saturating_sub(e.size);
        }
    }
    peak
}

/// The private pool of each address, as it changes over the events.
struct Pools<'h> {
    reserved: &'h [ReservedRange],
    /// The changes of private pools' ranges, by index.
    changes: LifetimeChanges<usize>,
    /// End and pool of each range by its start address.
    live: BTreeMap<u64, (u64, PoolId)>,
}

impl<'h> Pools<'h> {
    fn of(reserved: &'h [ReservedRange]) -> Self {
        let is_private = |r: &ReservedRange| r.pool.is_some_and(|pool| pool != PoolId::default());
        let private = reserved.iter().enumerate().filter(|(_, r)| is_private(r));
        let changes = LifetimeChanges::of(private.map(|(i, r)| (r.from, r.to, i)));
        Self { reserved, changes, live: BTreeMap::new() }
    }

    fn advance(&mut self, now: Moment) {
        while let Some((change, i)) = self.changes.next_until(now) {
            let range = &self.reserved[i];
            match change {
                LifetimeChange::Begins => {
                    self.live.insert(range.address, (range.end(), range.pool.unwrap_or_default()));
                }
                LifetimeChange::Ends => {
                    self.live.remove(&range.address);
                }
            }
        }
    }

    fn at(&self, address: u64) -> Option<PoolId> {
        let (_, &(end, pool)) = self.live.range(..=address).next_back()?;
        (address < end).then_some(pool)
    }
}
