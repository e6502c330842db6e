//! All allocations of a device with their lifetimes and sizes, reconstructed from the events and the end state.
//!
//! # Sizes
//! An event has the requested size; allocated and active bytes need the size of the block. A request is rounded (`round_size`), its block
//! is cut from the front of a free block, and the rest is split off or stays inside (`should_split`). Free neighbors always join, so the
//! free block starts where the allocation starts and ends at the next active block or the end of the segment. So active blocks and
//! segments are enough, and no list of free blocks is kept. Only requests above 1 MiB outside expandable segments need the free block at
//! all.
//!
//! The size of a large block that was live before recording and gone by the end cannot always be known. No free block of the large pool
//! is smaller than 1 MiB, so a smaller gap behind the block belongs to it. A later allocation behind it starts at its end. Otherwise the
//! rounded size is used, and `Quality` counts the block.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_basics::count_steps;
use vramscope_engine::Policy;
use vramscope_trace::{
    Action, Block, BlockState, DeviceTrace, OtherAllocator, Segment, SegmentKind, StackId, TagsId, Trace,
};

use super::lifetime_changes::{LifetimeChange, LifetimeChanges};
use super::moment::{Moment, When};
use super::quality::{Contradictions, Missing, Quality};
use super::segment_events::{is_growth, is_release};
use super::segments::{Reserved, ReservedRange};
use super::skipped::SkippedActions;

/// One allocation: a block from the moment it was allocated to the moment it became available again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedAllocation {
    /// Device address of the first byte.
    pub address: u64,
    /// Requested bytes.
    pub requested: u64,
    /// Bytes of the allocated block.
    pub size: u64,
    /// The first moment at which the block is allocated.
    pub from: Moment,
    /// The first moment after the block was freed; [`Moment::NEVER`] if it was not freed.
    pub freed: Moment,
    /// The first moment after the block became available; later than `freed` if another stream still used it.
    pub to: Moment,
    /// The stack of the allocation; if that was not recorded, see [`origin`](Self::origin).
    pub stack: Option<StackId>,
    /// The event's stream, pool and texts; `None` for an allocation that is only in the end state.
    pub tags: Option<TagsId>,
    /// The stream of the allocation.
    pub stream: u64,
    /// The part of the recording that the allocation is known from.
    pub origin: Origin,
    /// `size` is not certain: the block is gone at the end, and the layout does not determine its size.
    pub size_inferred: bool,
}

/// The part of a recording that an allocation is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The `alloc` event was recorded.
    Recorded,
    /// The allocation was live before recording began, and its block was recorded: in the end state, or in the state at the start of a
    /// part of a recording. Its stack is that of the block.
    EndState,
    /// The allocation was live before recording began, and only its free was recorded; its stack is that of the free.
    FreeOnly,
}

impl RecordedAllocation {
    /// Whether the block is allocated at `moment`.
    pub fn is_allocated_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.freed
    }

    /// Whether the block is active at `moment`: allocated, or freed and waiting for another stream.
    pub fn is_active_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }

    /// An allocation of which only a free is known, with unknown sizes, stack and end.
    fn unknown(address: u64, from: Moment) -> Self {
        Self {
            address,
            requested: 0,
            size: 0,
            from,
            freed: Moment::NEVER,
            to: Moment::NEVER,
            stack: None,
            tags: None,
            stream: 0,
            origin: Origin::FreeOnly,
            size_inferred: false,
        }
    }

    /// Whether the size is inferred, and a replay that reaches this allocation can determine it.
    fn can_learn_size(&self) -> bool {
        self.size_inferred && self.origin == Origin::Recorded
    }

    /// Whether the allocation was live before recording began.
    pub fn is_preexisting(&self) -> bool {
        self.origin != Origin::Recorded
    }
}

/// Number of allocations before the cut of a log: of PyTorch's allocator, and of other libraries on the device and the host.
fn older_allocations(trace: &Trace, device: &DeviceTrace) -> usize {
    let Some(process) = &trace.process else { return 0 };
    let Some(cut) = &process.cut else { return 0 };
    let before = cut.device_events.iter().find(|(number, _)| *number == device.device);
    let actions = before.and_then(|&(_, events)| device.events.actions().get(..events)).unwrap_or_default();
    let others = process.events.get(..cut.driver_events).unwrap_or_default();
    actions.iter().filter(|&&action| action == Action::Alloc).count()
        + others.iter().filter(|e| e.device == device.device || e.memory.is_host()).count()
}

/// A device's recording, followed from the first event to the last. It shares the trace, so it can be stored and sent to other
/// threads.
#[derive(Debug, Clone)]
pub struct History {
    trace: Arc<Trace>,
    position: usize,
    /// All allocations, in order of first appearance.
    pub allocations: Vec<RecordedAllocation>,
    /// All ranges that the allocator reserved, by address and time.
    pub reserved: Vec<ReservedRange>,
    /// The allocator's rules, as far as the recording shows them.
    pub policy: Policy,
    /// How accurate these numbers are, and the reasons why not more.
    pub quality: Quality,
    /// The allocation of each event; `NOTHING` if the event has none.
    subjects: Vec<u32>,
    /// Allocations that begin or end without an event of their own, with the moment, in time order. An event of another
    /// allocation shows the change.
    unrecorded: Vec<(Moment, u32)>,
}

const NOTHING: u32 = u32::MAX;

impl History {
    /// Follows the recording of the device at `position` in [`Trace::devices`], under the rules that it shows.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn of(trace: &Arc<Trace>, position: usize) -> Self {
        Self::under(
            Policy::of_device(trace, &trace.devices[position], trace.shown_release()),
            trace,
            position,
        )
    }

    /// Like [`of`](Self::of), for a recording that was made under `policy`.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn under(policy: Policy, trace: &Arc<Trace>, position: usize) -> Self {
        let device = &trace.devices[position];
        let reserved = Reserved::of(trace, device, &policy);
        let skipped = SkippedActions::of(device, &policy, &reserved);
        let process = trace.process.as_ref();
        let mut this = Self {
            trace: Arc::clone(trace),
            position,
            allocations: Vec::new(),
            reserved: reserved.ranges,
            policy,
            quality: Quality {
                contradictions: Contradictions {
                    segment_contradictions: reserved.contradictions,
                    size_contradictions: reserved.resized,
                    ..Contradictions::default()
                },
                missing: Missing {
                    settings_assumed: trace.settings.is_none()
                        && !device.events.is_empty()
                        && !device.is_host(),
                    skipped,
                    seen_from_outside: trace.process.is_some(),
                    older_allocations: older_allocations(trace, device),
                    attached: process.is_some_and(|process| process.attached_us.is_some()),
                    stacks_from: process.and_then(|process| process.stacks_from),
                    damaged: device.gap.is_some(),
                    ends_early: trace.ends_early,
                    ..Missing::default()
                },
                ..Quality::default()
            },
            subjects: Vec::with_capacity(device.events.len()),
            unrecorded: Vec::new(),
        };
        let latest = this.match_events(trace, device);
        this.unrecorded.sort_unstable();
        this.join_end_state(device, &latest);
        this.follow_sizes();
        this.forget_explained();
        this.quality.inferred.lifetimes_inferred = this.has_inferred_lifetimes();
        this.quality.missing.preexisting =
            this.allocations.iter().filter(|a| a.from == Moment::START).count();
        this.quality.inferred.probably_overflowed = this.looks_overflowed();
        this.quality.inferred.no_segment_events = this.has_no_segment_events();
        this
    }

    /// The recording.
    #[inline]
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// The device's position in [`Trace::devices`].
    pub fn position(&self) -> usize {
        self.position
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> &DeviceTrace {
        &self.trace.devices[self.position]
    }

    /// Whether a replay could determine more than the layout: block sizes, or whether segment events were left out.
    pub(crate) fn asks_for_replay(&self) -> bool {
        let actions = self.device().events.actions();
        let may_lack_segments = self.quality.missing.preexisting == 0
            && !self.quality.missing.skipped.segments()
            && !(self.allocations.is_empty()
                || self.reserved.is_empty()
                || actions.iter().any(|&a| is_growth(a)));
        may_lack_segments || self.allocations.iter().any(RecordedAllocation::can_learn_size)
    }

    /// Updates the history with the results of a replay: the kinds of events that were left out, whether the replay reproduces
    /// the recording and, if it does, the block size of each allocation in bytes.
    pub(crate) fn learn(&mut self, skipped: SkippedActions, reproduces: bool, sizes: &[u64]) {
        self.quality.missing.skipped = skipped;
        self.quality.inferred.no_segment_events &= !skipped.segments();
        let is_checked = !skipped.segments() && (reproduces || skipped.is_empty());
        self.quality.inferred.reproduced = is_checked.then_some(reproduces);
        if reproduces {
            for (a, &size) in self.allocations.iter_mut().zip(sizes).filter(|(a, _)| a.can_learn_size()) {
                (a.size, a.size_inferred) = (size, false);
            }
            self.quality.inferred.inferred_sizes =
                self.allocations.iter().filter(|a| a.size_inferred).count();
        }
    }

    /// Returns the allocation that event `event` allocates or frees.
    pub fn subject(&self, event: usize) -> Option<&RecordedAllocation> {
        self.allocations.get(self.subjects[event] as usize)
    }

    /// Returns the index of that allocation in [`allocations`](Self::allocations).
    pub fn subject_number(&self, event: usize) -> Option<usize> {
        Some(self.subjects[event]).filter(|&id| id != NOTHING).map(|id| id as usize)
    }

    /// Calls `tell` for every allocation whose life begins or changes at `moment`, which must come after an event. `unrecorded`
    /// is the position at which the last call stopped.
    #[inline]
    pub(crate) fn each_changing_at(
        &self,
        moment: Moment,
        unrecorded: &mut usize,
        mut tell: impl FnMut(&RecordedAllocation),
    ) {
        let subject = moment.event().map_or(NOTHING, |event| self.subjects[event]);
        if let Some(a) = self.allocations.get(subject as usize) {
            tell(a);
        }
        while let Some(&(_, other)) = self.unrecorded.get(*unrecorded).filter(|s| s.0 <= moment) {
            if other != subject {
                tell(&self.allocations[other as usize]);
            }
            *unrecorded += 1;
        }
    }

    /// Calls `tell` for every allocation whose life begins or changes after an event, from `end` back to the first event. At one
    /// moment, an allocation is told once, and the event's own one comes last.
    pub(crate) fn each_changing_back(&self, end: Moment, mut tell: impl FnMut(Moment, &RecordedAllocation)) {
        let mut unrecorded = self.unrecorded.partition_point(|s| s.0 <= end);
        for event in (0..end.index()).rev() {
            let moment = Moment::after(event);
            let subject = self.subjects[event];
            while let Some(&(_, other)) =
                unrecorded.checked_sub(1).map(|last| &self.unrecorded[last]).filter(|s| s.0 >= moment)
            {
                if other != subject {
                    tell(moment, &self.allocations[other as usize]);
                }
                unrecorded -= 1;
            }
            if let Some(a) = self.allocations.get(subject as usize) {
                tell(moment, a);
            }
        }
    }

    /// Like [`each_changing_at`](Self::each_changing_at), but returns indices.
    pub(crate) fn changing_ids_at(
        &self,
        moment: Moment,
        unrecorded: &mut usize,
    ) -> impl Iterator<Item = u32> {
        let first = *unrecorded;
        while self.unrecorded.get(*unrecorded).is_some_and(|s| s.0 <= moment) {
            *unrecorded += 1;
        }
        let subject = moment.event().map_or(NOTHING, |event| self.subjects[event]);
        let others = self.unrecorded[first..*unrecorded].iter().map(|s| s.1).filter(move |&id| id != subject);
        std::iter::once(subject).filter(|&id| id != NOTHING).chain(others)
    }

    /// Returns the recorded allocations in the order of their events.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = &RecordedAllocation> {
        let all = self.allocations.iter().inspect(|_| count_steps(1));
        all.filter(|a| a.origin == Origin::Recorded)
    }

    /// Whether frees have their own stacks: at least one free has a different stack than its allocation. In a history that
    /// PyTorch recorded with `context="alloc"`, a free has the stack of its allocation.
    pub fn has_stacks_of_frees(&self) -> bool {
        let events = &self.device().events;
        let frees =
            events.actions().iter().enumerate().filter(|&(_, &action)| action == Action::FreeRequested);
        frees.into_iter().any(|(i, _)| {
            let stacks = self.subject(i).and_then(|a| a.stack).zip(events.get(i).stack);
            stacks.is_some_and(|(alloc, free)| alloc != free)
        })
    }

    /// Returns the stack of `a` if one with frames was captured.
    pub(crate) fn stack_of(&self, a: &RecordedAllocation) -> Option<StackId> {
        a.stack.filter(|&stack| !self.trace.stacks.get(stack).is_empty())
    }

    /// Returns the last moment of the recording.
    pub fn end(&self) -> Moment {
        match self.device().events.len() {
            0 => Moment::START,
            n => Moment::after(n - 1),
        }
    }

    /// Returns the moment that a request chose. The events of the device end before the recording does.
    pub fn moment(&self, when: When) -> Moment {
        match when {
            When::After(event) => Moment::after(event),
            When::End => self.end(),
        }
    }

    /// Returns the allocations that are allocated at `moment`.
    pub(crate) fn allocated_at(&self, moment: Moment) -> impl Iterator<Item = &RecordedAllocation> {
        let all = self.allocations.iter().inspect(|_| count_steps(1));
        all.filter(move |a| a.is_allocated_at(moment))
    }

    /// Pairs each free with its allocation by address. Returns the latest allocation at each address.
    fn match_events(&mut self, trace: &Trace, device: &DeviceTrace) -> HashMap<u64, u32> {
        let events = &device.events;
        let records_requests = events.actions().contains(&Action::FreeRequested);
        // If completions were left out, each free counts as completed when it was requested, as most are.
        let completes_at_once = self.quality.missing.skipped.contains(Action::FreeCompleted);
        let at_start: HashMap<u64, &Block> =
            device.start_blocks.iter().flatten().map(|b| (b.address, b)).collect();
        let mut latest: HashMap<u64, u32> = HashMap::new();
        let mut sizes = Agreement::default();
        for (number, e) in events.iter().enumerate() {
            let now = Moment::after(number);
            let (freed, to) = match e.action {
                Action::Alloc => {
                    let tags = trace.tags.get(e.tags);
                    let id = self.push(RecordedAllocation {
                        address: e.address(),
                        requested: e.size,
                        size: 0,
                        from: now,
                        freed: Moment::NEVER,
                        to: Moment::NEVER,
                        stack: e.stack,
                        tags: Some(e.tags),
                        stream: tags.stream,
                        origin: Origin::Recorded,
                        size_inferred: false,
                    });
                    if let Some(old_id) = latest.insert(e.address(), id) {
                        let old = &mut self.allocations[old_id as usize];
                        if old.to == Moment::NEVER {
                            // Its free is missing: it must have ended before this event.
                            old.to = now;
                            old.freed = old.freed.min(now);
                            self.quality.contradictions.lost_events += 1;
                            self.quality.contradictions.contradictory_bytes += old.requested;
                            self.unrecorded.push((now, old_id));
                        }
                    }
                    self.subjects.push(id);
                    continue;
                }
                Action::FreeRequested if completes_at_once => (now, now),
                Action::FreeRequested => (now, Moment::NEVER),
                Action::FreeCompleted | Action::Free => (now, now),
                _ => {
                    self.subjects.push(NOTHING);
                    continue;
                }
            };
            let known = latest.get(&e.address()).copied();
            let id = match known.map(|id| (id, self.allocations[id as usize].to)) {
                Some((id, Moment::NEVER)) => {
                    let a = &mut self.allocations[id as usize];
                    let is_requested = a.freed != Moment::NEVER;
                    // Its free was requested twice, or completed without a request.
                    self.quality.contradictions.lost_events += usize::from(match e.action {
                        Action::FreeRequested => is_requested,
                        Action::FreeCompleted => !is_requested && records_requests,
                        _ => false,
                    });
                    a.freed = a.freed.min(freed);
                    a.to = to;
                    sizes.compare(a.requested, e.size);
                    id
                }
                // It was allocated before recording began. If the address was used and freed since, the allocation event is
                // missing.
                other => {
                    let from = other.map_or(Moment::START, |(_, ended)| ended);
                    if other.is_some() {
                        self.quality.contradictions.lost_events += 1;
                        self.quality.contradictions.contradictory_bytes += e.size;
                    }
                    let block = at_start.get(&e.address()).filter(|_| other.is_none());
                    // A completion without a request was requested before recording began.
                    let waited = match block {
                        Some(block) => block.state == BlockState::ActivePendingFree,
                        None => e.action == Action::FreeCompleted && records_requests,
                    };
                    let known = block.map(|block| RecordedAllocation {
                        requested: block.requested_size,
                        size: block.size,
                        stack: block.stack,
                        tags: None,
                        origin: Origin::EndState,
                        ..RecordedAllocation::unknown(e.address(), from)
                    });
                    let known = known.unwrap_or(RecordedAllocation {
                        requested: e.size,
                        stack: e.stack,
                        tags: Some(e.tags),
                        ..RecordedAllocation::unknown(e.address(), from)
                    });
                    let id = self.push(RecordedAllocation {
                        freed: if waited { from } else { freed },
                        to,
                        stream: trace.tags.get(e.tags).stream,
                        ..known
                    });
                    latest.insert(e.address(), id);
                    if from != Moment::START {
                        self.unrecorded.push((from, id));
                    }
                    id
                }
            };
            self.subjects.push(id);
        }
        self.note_sizes(&sizes);
        if trace.other_allocator() == Some(OtherAllocator::Rmm) {
            // A log of RMM begins with its resource, so it has the allocation of each free.
            self.quality.contradictions.lost_events +=
                self.allocations.iter().filter(|a| a.is_preexisting()).count();
        }
        latest
    }

    /// Counts sizes that contradict each other.
    fn note_sizes(&mut self, sizes: &Agreement) {
        // Some recorders write other sizes in frees, or in the end state: then most differ.
        if sizes.differ <= sizes.same {
            self.quality.contradictions.size_contradictions += sizes.differ;
            self.quality.contradictions.contradictory_bytes += sizes.difference;
        }
    }

    fn push(&mut self, a: RecordedAllocation) -> u32 {
        self.allocations.push(a);
        // The number of events and blocks fits into 32 bits.
        (self.allocations.len() - 1) as u32
    }

    /// Adds live blocks of the end state that no event mentions, and counts disagreements between trace and end state.
    fn join_end_state(&mut self, device: &DeviceTrace, latest: &HashMap<u64, u32>) {
        let (mut sizes, mut sums) = (Agreement::default(), Agreement::default());
        for segment in &device.segments {
            sums.compare_sums(device, segment);
            for block in device.blocks_of(segment).iter().filter(|b| b.state.is_active()) {
                match latest.get(&block.address).map(|&id| &mut self.allocations[id as usize]) {
                    None => {
                        let pending = block.state == BlockState::ActivePendingFree;
                        self.push(RecordedAllocation {
                            address: block.address,
                            requested: block.requested_size,
                            size: block.size,
                            from: Moment::START,
                            freed: if pending { Moment::START } else { Moment::NEVER },
                            to: Moment::NEVER,
                            stack: block.stack,
                            tags: None,
                            stream: segment.stream,
                            origin: Origin::EndState,
                            size_inferred: false,
                        });
                    }
                    Some(a) if a.to == Moment::NEVER => {
                        a.size = block.size;
                        sizes.compare(a.requested, block.requested_size);
                    }
                    Some(_) => {
                        self.quality.contradictions.end_state_disagreements += 1;
                        self.quality.contradictions.end_state_disagreement_bytes += block.size;
                    }
                }
            }
        }
        self.note_sizes(&sizes);
        self.note_sizes(&sums);
        if device.segments.is_empty() {
            return;
        }
        // All allocations that the end state contains have a size by now.
        let unknown = |a: &&RecordedAllocation| a.to == Moment::NEVER && a.size == 0;
        for a in self.allocations.iter().filter(unknown) {
            self.quality.contradictions.end_state_disagreements += 1;
            self.quality.contradictions.end_state_disagreement_bytes += a.requested;
        }
    }

    /// Determines the block size of every allocation by following the layout.
    ///
    /// A request is rounded up. The free block that serves it starts at the same address and reaches to the next active block or
    /// to the end of the segment. The remainder is split off if it is large enough (`should_split`,
    /// `c10/cuda/CUDACachingAllocator.cpp`, PyTorch 2.11). In the small pool and in expandable segments, every remainder of at
    /// least 512 bytes is split off, so the block has the rounded size.
    fn follow_sizes(&mut self) {
        if self.quality.missing.seen_from_outside {
            self.allocations.iter_mut().for_each(|a| a.size = a.requested);
            return;
        }
        if self.policy.has_sizes_of_requests() {
            for a in &mut self.allocations {
                let size = self.policy.round_size(a.requested);
                if a.origin == Origin::Recorded && a.size != 0 && a.size != size {
                    self.quality.contradictions.size_mismatches += 1;
                }
                // The end state is better than the rule.
                a.size = if a.size == 0 { size } else { a.size };
            }
            return;
        }
        let policy = &self.policy;
        let leaves_rest = |rounded: u64| policy.always_splits(rounded);

        let mut layout = Neighbours::of(&self.reserved);
        for (id, a) in self.allocations.iter().enumerate().filter(|(_, a)| a.from == Moment::START) {
            if !leaves_rest(policy.round_size(a.requested)) {
                layout.active.insert(a.address, id as u32);
            }
        }
        for a in self.allocations.iter_mut().filter(|a| a.is_preexisting() && a.size == 0) {
            let rounded = policy.round_size(a.requested);
            a.size = rounded;
            if leaves_rest(rounded) {
                continue;
            }
            match layout.free_from(a.address).and_then(|free| free.checked_sub(rounded)) {
                // No free block of the large pool is as small as this, so the remainder belongs to the block.
                Some(rest) if rest < policy.large_remainder => a.size += rest,
                // A free block follows; some of the bytes before it may belong to this block.
                _ => a.size_inferred = true,
            }
        }
        for (number, &subject) in self.subjects.iter().enumerate() {
            if subject == NOTHING {
                layout.advance(Moment::after(number), &self.reserved);
                continue;
            }
            let Some(&RecordedAllocation { address, requested, from, origin, .. }) =
                self.allocations.get(subject as usize)
            else {
                continue;
            };
            let rounded = policy.round_size(requested);
            let begins = from == Moment::after(number) && origin == Origin::Recorded;
            if begins && !leaves_rest(rounded) {
                // The block starts at the front of a free block, so the previous block reaches up to it.
                let before = layout.active_before(address).map(|id| &mut self.allocations[id as usize]);
                if let Some(b) = before.filter(|b| b.size_inferred && b.origin == Origin::FreeOnly) {
                    let rest = address.saturating_sub(b.address.saturating_add(b.size));
                    if rest < policy.large_remainder {
                        b.size += rest;
                        b.size_inferred = false;
                    }
                }
            }
            let a = &mut self.allocations[subject as usize];
            if begins {
                let at_end = a.size;
                a.size = rounded;
                if !leaves_rest(rounded) {
                    match layout.free_from(a.address).and_then(|free| free.checked_sub(rounded)) {
                        Some(rest) if policy.splits(rounded, rest) => {}
                        Some(rest)
                            if rest < policy.large_remainder || policy.may_serve(rounded, rounded + rest) =>
                        {
                            a.size += rest;
                        }
                        _ => a.size_inferred = true,
                    }
                    layout.active.insert(a.address, subject);
                }
                if at_end != 0 && at_end != a.size {
                    a.size = at_end;
                    self.quality.contradictions.size_mismatches += 1;
                    a.size_inferred = false;
                }
            } else if a.to == Moment::after(number) && !leaves_rest(rounded) {
                layout.active.remove(&a.address);
            }
        }
        self.quality.inferred.inferred_sizes = self.allocations.iter().filter(|a| a.size_inferred).count();
    }

    /// Clears the count of segment contradictions if left-out segment events explain them.
    fn forget_explained(&mut self) {
        let quality = &mut self.quality;
        if quality.missing.skipped.segments() {
            quality.contradictions.segment_contradictions = 0;
        }
    }

    /// Whether left-out kinds of events make lifetimes inexact. If only free requests were left out, a free was requested when it
    /// was completed, unless another stream still used the block.
    fn has_inferred_lifetimes(&self) -> bool {
        let skipped = self.quality.missing.skipped;
        let first = self.allocations.first().map(|a| a.stream);
        let several_streams = || self.allocations.iter().any(|a| Some(a.stream) != first);
        skipped.contains(Action::Alloc)
            || skipped.contains(Action::FreeCompleted)
            || (skipped.contains(Action::FreeRequested) && several_streams())
    }

    fn has_no_segment_events(&self) -> bool {
        let is_of_segments = |&action: &Action| is_growth(action) || is_release(action);
        if self.allocations.is_empty() || self.reserved.is_empty() || self.quality.missing.skipped.segments()
        {
            return false;
        }
        let began_empty = self.quality.missing.preexisting == 0 && !self.quality.inferred.probably_overflowed;
        began_empty && !self.device().events.actions().iter().any(is_of_segments)
    }

    /// Whether the ring buffer dropped the oldest events. Recordings of most releases do not contain this. Two facts together show it:
    ///
    /// - A block of the end state has the stack of its allocation, but no event of it was recorded. PyTorch keeps stacks only
    ///   while it records, so there was such an event. A second recording of one process has such blocks, too.
    /// - The number of events is a typical size of a ring buffer: thousands, a few hundred, or a power of two. About one in a
    ///   thousand second recordings has such a number by chance.
    fn looks_overflowed(&self) -> bool {
        let device = self.device();
        // A part of a recording begins where the part before it ends.
        if device.start_blocks.is_some() {
            return false;
        }
        let n = device.events.len();
        if let Some(overflowed) = device.overflowed {
            return overflowed;
        }
        if let Some(most) = device.max_entries {
            return n as u64 >= most;
        }
        let is_round = n > 0
            && (n.is_multiple_of(1000)
                || (n < 1000 && n.is_multiple_of(100))
                || (n > 100 && n.is_power_of_two()));
        let was_recorded =
            |a: &RecordedAllocation| a.origin == Origin::EndState && self.stack_of(a).is_some();
        is_round
            && !self.quality.missing.skipped.contains(Action::Alloc)
            && self.allocations.iter().any(was_recorded)
    }
}

/// How many pairs of sizes that should be equal are so.
#[derive(Default)]
struct Agreement {
    same: usize,
    differ: usize,
    /// Sum of the differences in bytes.
    difference: u64,
}

impl Agreement {
    fn compare(&mut self, a: u64, b: u64) {
        if a == b {
            self.same += 1;
        } else {
            self.differ += 1;
            self.difference = self.difference.saturating_add(a.abs_diff(b));
        }
    }

    /// Compares the sums of a segment with its blocks.
    fn compare_sums(&mut self, device: &DeviceTrace, segment: &Segment) {
        let blocks = device.blocks_of(segment);
        let sum = |is: fn(BlockState) -> bool, size: fn(&Block) -> u64| -> u64 {
            blocks.iter().filter(|b| is(b.state)).map(size).fold(0, u64::saturating_add)
        };
        self.compare(segment.total_size, sum(|_| true, |b| b.size));
        for (recorded, blocks) in [
            (segment.allocated_size, sum(|state| state == BlockState::ActiveAllocated, |b| b.size)),
            (segment.active_size, sum(BlockState::is_active, |b| b.size)),
        ] {
            recorded.into_iter().for_each(|recorded| self.compare(recorded, blocks));
        }
    }
}

/// The start addresses of active blocks in large segments, and the segments themselves, as they change over the events.
struct Neighbours {
    /// Only blocks whose size depends on their neighbors, with the indices of their allocations.
    active: BTreeMap<u64, u32>,
    /// End of each large range by its start. Ranges of expandable segments are not needed.
    ranges: BTreeMap<u64, u64>,
    /// The changes of these ranges, by index.
    changes: LifetimeChanges<usize>,
}

impl Neighbours {
    fn of(reserved: &[ReservedRange]) -> Self {
        let large = reserved.iter().enumerate().filter(|(_, r)| serves_large(r));
        let changes = LifetimeChanges::of(large.map(|(i, r)| (r.from, r.to, i)));
        let mut this = Self { active: BTreeMap::new(), ranges: BTreeMap::new(), changes };
        this.advance(Moment::START, reserved);
        this
    }

    /// Applies the changes of ranges up to `now`.
    fn advance(&mut self, now: Moment, reserved: &[ReservedRange]) {
        while let Some((change, i)) = self.changes.next_until(now) {
            let r = &reserved[i];
            match change {
                LifetimeChange::Begins => {
                    self.ranges.insert(r.address, r.end());
                }
                LifetimeChange::Ends => {
                    self.ranges.remove(&r.address);
                }
            }
        }
    }

    /// Returns the bytes from `address` to the next active block or to the end of its segment.
    fn free_from(&self, address: u64) -> Option<u64> {
        let (_, &end) = self.ranges.range(..=address).next_back()?;
        let after = (Bound::Excluded(address), Bound::Unbounded);
        let next = self.active.range(after).next().map_or(end, |(&next, _)| next.min(end));
        next.checked_sub(address)
    }

    /// Returns the active block before `address` in its segment.
    fn active_before(&self, address: u64) -> Option<u32> {
        let (&start, _) = self.ranges.range(..=address).next_back()?;
        self.active.range(start..address).next_back().map(|(_, &id)| id)
    }
}

fn serves_large(r: &ReservedRange) -> bool {
    !r.expandable && r.kind != SegmentKind::Small
}
