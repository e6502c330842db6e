//! Idle memory: allocations that are live while nothing uses them.
//!
//! A recording on a phantom GPU has the [accesses](vramscope_trace::Accesses) of each allocation. They divide its lifetime:
//!
//! ```text
//!   allocated    first use   use       use   last use    freed
//!       |- - - - - -|=========| - - - - |=======| - - - - -|
//!          early                idle                late
//! ```
//!
//! A finding is one kind of idle interval at one line of the user's code, in modules of one name. Its remaining peak is the peak of
//! allocated bytes if these allocations were not live in these intervals: freed after the last use, allocated before the first one,
//! or moved away between two uses. It is computed from the allocated bytes at every moment, so it is exact for the recorded requests.
//!
//! Accesses do not tell reads from writes. If an allocation is idle for longest after its first access, that access is taken for its
//! initialization: the program could have allocated it later. Results of modules, activations and gradients are exceptions, because their
//! first access computes them.
//!
//! Memory that is live at the end of the recording may be used later. So it is idle after its last access only if that interval is longer than
//! all intervals between two accesses. A parameter must also have a single access. Workspaces of libraries are left out.

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_trace::{AllocationAccesses, Category, StackId, Trace};

use crate::basics::{Column, RangeMax};
use crate::groups::{AllocationProperties, By, HolderKey, stack_key};
use crate::history::{History, LifetimeChange, LifetimeChanges, Moment, Origin, Peak, RecordedAllocation};
use crate::stacks::Frames;

/// A finding that lowers the peak by less than this part of it is left out.
const LEAST_PART_SAVED: u64 = 1000;

/// A finding with at least this part of the peak is listed, even if another moment keeps the peak from falling.
const LEAST_PART_AT_PEAK: u64 = 100;

/// The uses of an allocation: its accesses by kernels, libraries and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// The moment of the first access.
    pub first: Moment,
    /// The moment of the last access.
    pub last: Moment,
    /// Number of accesses, at least 1.
    pub count: u64,
    /// The two consecutive accesses with the most events between them; both are `first` for a single access.
    pub longest_idle: (Moment, Moment),
}

impl Uses {
    /// Returns the uses of an allocation. `None` if its accesses are unknown: the recording has no accesses, or the allocation is older than
    /// the recording. `Some(None)` if it was never accessed.
    #[must_use]
    pub fn of(history: &History, a: &RecordedAllocation) -> Option<Option<Self>> {
        let all = &history.trace().accesses.as_ref()?.allocations;
        let event = (a.origin == Origin::Recorded).then(|| a.from.event()).flatten()?;
        let key = (history.device().device, event);
        let found = all.binary_search_by_key(&key, |of| (of.device, of.allocation));
        let end = Moment::from_index(a.freed.index().saturating_sub(1)).min(history.end()).max(a.from);
        Some(found.ok().map(|at| Self::within(a.from, end, &all[at])))
    }

    /// Moves accesses into the moments of an allocation, and in order.
    fn within(begin: Moment, end: Moment, of: &AllocationAccesses) -> Self {
        let first = Moment::from_index(of.first).clamp(begin, end);
        let last = Moment::from_index(of.last).clamp(first, end);
        let (from, to) = of.longest_idle;
        let from = Moment::from_index(from).clamp(first, last);
        let to = Moment::from_index(to).clamp(from, last);
        Self { first, last, count: of.count.max(1), longest_idle: (from, to) }
    }
}

/// A kind of idle memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdleKind {
    /// Freed some time after its last access.
    FreedLate,
    /// Not accessed for some time before the recording ended, and not freed.
    NotFreed,
    /// Allocated some time before its first access, or before the first one after its initialization.
    AllocatedEarly,
    /// Never accessed.
    NeverUsed,
    /// Not accessed for some time between two accesses.
    BetweenUses,
}

impl IdleKind {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FreedLate => "freed_late",
            Self::NotFreed => "not_freed",
            Self::AllocatedEarly => "allocated_early",
            Self::NeverUsed => "never_used",
            Self::BetweenUses => "between_uses",
        }
    }
}

/// An interval in which an allocation is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleInterval {
    /// The index of the allocation in [`History::allocations`].
    pub allocation: u32,
    /// The moment of the access before the interval; or the first moment of the allocation.
    pub from: Moment,
    /// The moment of the access after the interval; or the last moment of the allocation.
    pub to: Moment,
}

impl IdleInterval {
    /// Number of events between the two moments.
    #[must_use]
    pub fn events(self) -> usize {
        self.to.index().saturating_sub(self.from.index())
    }

    /// Microseconds between the events before the two moments; `None` if they have no times.
    #[must_use]
    pub fn duration_us(self, trace: &Trace, device: i64) -> Option<i64> {
        let events = &trace.devices.iter().find(|d| d.device == device)?.events;
        let time = |moment: Moment| events.time(moment.event()?);
        Some(time(self.to)?.saturating_sub(time(self.from)?).max(0))
    }
}

/// One kind of idle memory at one line, in modules of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleFinding {
    /// What kind it is.
    pub kind: IdleKind,
    /// The line that allocated: [`HolderKey::Line`] or [`HolderKey::NoStack`].
    pub line: HolderKey,
    /// The stack of the allocation of `longest`.
    pub stack: Option<StackId>,
    /// The path of the modules that allocated, as `h.*.mlp` if their numbers differ; `None` if no module allocated.
    pub module: Option<String>,
    /// The category of all these allocations; `None` if they differ.
    pub category: Option<Category>,
    /// The most bytes of these allocations that are idle at one moment.
    pub bytes: u64,
    /// Bytes of these allocations that are idle at the peak of allocated bytes.
    pub bytes_at_peak: u64,
    /// Idle bytes, summed over the moments.
    pub byte_events: u128,
    /// The peak of allocated bytes without these intervals.
    pub remaining_peak: u64,
    /// The interval with the most byte-events.
    pub longest: IdleInterval,
    /// Whether each of these allocations was accessed exactly once.
    pub is_used_once: bool,
    /// The allocations, as sorted indices into [`History::allocations`].
    pub allocations: Vec<u32>,
}

/// The idle memory of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleMemory {
    /// The device's number.
    pub device: i64,
    /// Number of launches, library calls and copies in the whole recording.
    pub launches: u64,
    /// The part of `launches` whose parameters are unknown.
    pub unknown_launches: u64,
    /// The peak of allocated bytes.
    pub peak: Peak,
    /// The peak if every allocation lived from its first to its last access. Allocations with unknown accesses keep their lifetimes.
    pub lower_bound: u64,
    /// The findings. First those that need no extra work when mended, then those between two uses; each by the fall of the peak, then by
    /// byte-events.
    pub findings: Vec<IdleFinding>,
    /// Number of further findings, which hardly lower the peak.
    pub left_out: usize,
    /// The sum of the [bytes](IdleFinding::bytes) of these findings.
    pub left_out_bytes: u64,
}

impl IdleMemory {
    /// Computes the idle memory of a device, among the allocations that `takes` accepts. `None` if the recording has no accesses.
    pub fn of(
        history: &History,
        frames: &Frames,
        known: &impl AllocationProperties,
        takes: impl Fn(&RecordedAllocation) -> bool,
    ) -> Option<Self> {
        let accesses = history.trace().accesses.as_ref()?;
        let bits = history.allocations.iter().fold(0, |bits, a| bits | a.size);
        let mut allocated = Column::of_sums(bits, history.device().events.len() + 1);
        history.walk().for_each(|(_, counters)| allocated.push(counters.allocated));
        let allocated = RangeMax::new(allocated);
        let last = allocated.values().len() - 1;
        let peak = Peak {
            bytes: allocated.highest(0, last),
            moment: Moment::from_index(allocated.position(0, last)),
        };

        let mut groups =
            Groups { history, frames, of_alike: HashMap::new(), of_key: HashMap::new(), all: Vec::new() };
        let mut results: HashMap<StackId, bool> = HashMap::new();
        let mut used = Vec::with_capacity(history.allocations.len());
        for (id, a) in (0u32..).zip(&history.allocations).filter(|(_, a)| a.from < a.freed) {
            let uses = Uses::of(history, a);
            used.extend(match uses {
                None => Some((a.from, a.freed, id)),
                Some(None) => None,
                Some(Some(Uses { first, last, .. })) => Some((first, after(last), id)),
            });
            let Some(uses) = uses.filter(|_| a.size > 0 && takes(a)) else { continue };
            let category = || known.category(id as usize);
            let stack = history.stack_of(a);
            let is_result =
                || stack.is_none_or(|of| *results.entry(of).or_insert_with(|| is_in_module(history, of)));
            for (kind, from, to) in
                idle_intervals(history, a, uses, category, is_result).into_iter().flatten()
            {
                let group = groups.of(kind, a, category(), || known.layer(id as usize));
                group.add(kind, a, IdleInterval { allocation: id, from, to }, uses);
            }
        }
        let mut this = Self {
            device: history.device().device,
            launches: accesses.launches,
            unknown_launches: accesses.unknown_launches,
            peak,
            lower_bound: highest(history, used),
            findings: Vec::new(),
            left_out: 0,
            left_out_bytes: 0,
        };
        for finding in groups.all.into_iter().map(|group| group.finding(&allocated, peak)) {
            if this.lists(&finding) {
                this.findings.push(finding);
            } else {
                this.left_out += 1;
                this.left_out_bytes = this.left_out_bytes.saturating_add(finding.bytes);
            }
        }
        this.findings.sort_by(|a, b| {
            let key =
                |f: &IdleFinding| (f.kind == IdleKind::BetweenUses, f.remaining_peak, Reverse(f.byte_events));
            let name = |f: &IdleFinding| (f.kind, f.longest.allocation);
            (key(a), name(a)).cmp(&(key(b), name(b)))
        });
        Some(this)
    }

    /// Returns the bytes by which the peak falls without the intervals of `finding`.
    #[must_use]
    pub fn saved(&self, finding: &IdleFinding) -> u64 {
        self.peak.bytes.saturating_sub(finding.remaining_peak)
    }

    fn lists(&self, finding: &IdleFinding) -> bool {
        let saved = self.saved(finding);
        let part = |of: u64| self.peak.bytes / of;
        (saved > 0 && saved >= part(LEAST_PART_SAVED))
            // Of memory that is used again and again, only the longest interval is known.
            || (finding.kind != IdleKind::BetweenUses
                && finding.bytes_at_peak > 0
                && finding.bytes_at_peak >= part(LEAST_PART_AT_PEAK))
    }
}

fn after(moment: Moment) -> Moment {
    Moment::after(moment.index())
}

fn before(moment: Moment) -> Moment {
    Moment::from_index(moment.index().saturating_sub(1))
}

/// Whether a stack is that of a call of a `torch.nn.Module` (`Module._call_impl`, `torch/nn/modules/module.py`).
fn is_in_module(history: &History, stack: StackId) -> bool {
    let trace = history.trace();
    let name = |&frame| trace.strings.get(trace.frames.get(frame).name);
    trace.stacks.get(stack).iter().any(|frame| name(frame) == "_call_impl")
}

/// The idle intervals of an allocation. Empty ones are left out.
fn idle_intervals(
    history: &History,
    a: &RecordedAllocation,
    uses: Option<Uses>,
    category: impl Fn() -> Category,
    is_result: impl FnOnce() -> bool,
) -> [Option<(IdleKind, Moment, Moment)>; 3] {
    let is_freed = a.freed != Moment::NEVER;
    let end = if is_freed { before(a.freed) } else { history.end() };
    // A temporary that is never freed is the workspace of a library, which some calls do not use.
    let is_workspace = !is_freed && matches!(category(), Category::Temporary | Category::Workspace);
    let Some(Uses { first, last, count, longest_idle: (from, to) }) = uses else {
        return [(!is_workspace).then_some((IdleKind::NeverUsed, a.from, end)), None, None];
    };
    // At the moments of both accesses, the allocation is in use.
    let is_idle = after(from) < to;
    let is_initialized = is_idle
        && from == first
        && !matches!(category(), Category::Activation | Category::Gradient)
        && !is_result();
    let used_from = if is_initialized { to } else { first };
    let early = (a.from < used_from).then_some((IdleKind::AllocatedEarly, a.from, used_from));
    let middle = (is_idle && !is_initialized).then_some((IdleKind::BetweenUses, from, to));
    let rested = |from: Moment, to: Moment| to.index().saturating_sub(from.index());
    let is_unused = || {
        let is_parameter = count > 1 && category() == Category::Parameter;
        rested(last, end) > rested(from, to) && !is_parameter && !is_workspace
    };
    let late = match is_freed {
        true => (last < end).then_some((IdleKind::FreedLate, last, end)),
        false => (last < end && is_unused()).then_some((IdleKind::NotFreed, last, end)),
    };
    [early, middle, late]
}

/// The highest sum of sizes of allocations that live from one moment up to, but not including, another.
fn highest(history: &History, lifetimes: Vec<(Moment, Moment, u32)>) -> u64 {
    let (mut bytes, mut highest) = (0_u64, 0);
    for (_, change, id) in LifetimeChanges::of(lifetimes) {
        let size = history.allocations[id as usize].size;
        match change {
            LifetimeChange::Begins => bytes += size,
            LifetimeChange::Ends => bytes -= size,
        }
        highest = highest.max(bytes);
    }
    highest
}

/// The kind, the line and the modules of a group. Without a stack, also the category, as of gradients from a thread of autograd.
type Key = (IdleKind, HolderKey, Option<String>, Option<Category>);

/// The kind, the stack and the module of an allocation. Without a stack, also the category.
type Alike = (IdleKind, Option<StackId>, Option<Arc<str>>, Option<Category>);

struct Groups<'h> {
    history: &'h History,
    frames: &'h Frames,
    /// Indices into `all`.
    of_alike: HashMap<Alike, usize>,
    of_key: HashMap<Key, usize>,
    all: Vec<Group>,
}

struct Group {
    key: Key,
    /// The path of the modules while there is only one.
    module: Option<Arc<str>>,
    category: Option<Category>,
    stack: Option<StackId>,
    longest: (u128, IdleInterval),
    byte_events: u128,
    is_used_once: bool,
    allocations: Vec<u32>,
    /// First moment, first moment after the last one, and bytes of each idle interval.
    intervals: Vec<(Moment, Moment, (u64, u32))>,
}

impl Groups<'_> {
    fn of(
        &mut self,
        kind: IdleKind,
        a: &RecordedAllocation,
        category: Category,
        layer: impl Fn() -> Option<Arc<str>>,
    ) -> &mut Group {
        let (history, frames) = (self.history, self.frames);
        let stack = history.stack_of(a);
        let module = layer();
        let divided_by = stack.is_none().then_some(category);
        let index = *self.of_alike.entry((kind, stack, module.clone(), divided_by)).or_insert_with(|| {
            let line = stack_key(history, frames, stack, By::Line);
            let key = (kind, line, module.as_deref().map(without_numbers), divided_by);
            *self.of_key.entry(key).or_insert_with_key(|key| {
                self.all.push(Group {
                    key: key.clone(),
                    module: module.clone(),
                    category: Some(category),
                    stack,
                    longest: (0, IdleInterval { allocation: 0, from: Moment::START, to: Moment::START }),
                    byte_events: 0,
                    is_used_once: true,
                    allocations: Vec::new(),
                    intervals: Vec::new(),
                });
                self.all.len() - 1
            })
        });
        let group = &mut self.all[index];
        if group.module != module {
            group.module = None;
        }
        group.category = group.category.filter(|&of| of == category);
        group
    }
}

impl Group {
    fn add(&mut self, kind: IdleKind, a: &RecordedAllocation, interval: IdleInterval, uses: Option<Uses>) {
        let IdleInterval { allocation: id, from, to } = interval;
        // At the moment of an access, the allocation is in use.
        let (first, end) = match kind {
            IdleKind::FreedLate | IdleKind::NotFreed => (after(from), after(to)),
            IdleKind::AllocatedEarly => (from, to),
            IdleKind::NeverUsed => (from, after(to)),
            IdleKind::BetweenUses => (after(from), to),
        };
        let byte_events = u128::from(a.size) * end.index().saturating_sub(first.index()) as u128;
        if self.allocations.is_empty() || byte_events > self.longest.0 {
            self.longest = (byte_events, interval);
            self.stack = a.stack;
        }
        self.byte_events += byte_events;
        self.is_used_once &= uses.is_some_and(|uses| uses.count == 1);
        self.allocations.push(id);
        self.intervals.push((first, end, (a.size, id)));
    }

    /// Computes the effect of the group on the allocated bytes.
    fn finding(self, allocated: &RangeMax, peak: Peak) -> IdleFinding {
        let Self {
            key: (kind, line, module, _), stack, longest, byte_events, is_used_once, allocations, ..
        } = self;
        let end = allocated.values().len();
        let (mut bytes, mut bytes_at_peak, mut remaining_peak) = (0, 0, 0);
        let mut idle = 0;
        // The idle bytes are constant from one change to the next.
        let mut from = 0;
        let mut see = |from: usize, to: usize, idle: u64| {
            if from >= to {
                return;
            }
            remaining_peak = remaining_peak.max(allocated.highest(from, to - 1).saturating_sub(idle));
            bytes = bytes.max(idle);
            if (from..to).contains(&peak.moment.index()) {
                bytes_at_peak = idle;
            }
        };
        for (moment, change, (size, _)) in LifetimeChanges::of(self.intervals) {
            let at = moment.index().min(end);
            see(from, at, idle);
            from = at;
            match change {
                LifetimeChange::Begins => idle += size,
                LifetimeChange::Ends => idle -= size,
            }
        }
        see(from, end, idle);
        IdleFinding {
            kind,
            line,
            stack,
            module: self.module.map(|path| path.to_string()).or(module),
            category: self.category,
            bytes,
            bytes_at_peak,
            byte_events,
            remaining_peak,
            longest: longest.1,
            is_used_once,
            allocations,
        }
    }
}

/// Replaces the numbers among the parts of a path, as `h.*.mlp` for `h.11.mlp`.
fn without_numbers(path: &str) -> String {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = path.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    parts.join(".")
}
