//! Out-of-memory events: each failed request in numbers, explained by the memory state at that moment.

use hashbrown::HashMap;
use vramscope_engine::Policy;
use vramscope_trace::{Action, StackId};

use super::fragmentation::{Fragmentation, Request};
use super::late_block::{LateBlock, Waited};
use super::oom_causes::{Failing, Inside, OomCauses};
use super::pins::Pins;
use super::rise::Rise;
use crate::groups::{Holder, by_line};
use crate::history::{Counters, History, Layout, Moment};
use crate::stacks::Frames;

/// Whether a request of `rounded` bytes failed at a limit on reserved bytes, such as `per_process_memory_fraction`. This is the
/// case if the device had room for the segment. `device_free` is the number of bytes that the driver had free.
pub(crate) fn is_at_limit(policy: &Policy, rounded: u64, device_free: u64) -> bool {
    policy.device_bytes(rounded) <= device_free
}

/// A failed request, with the memory state at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomExplanation {
    /// The event index.
    pub event: usize,
    /// Time in microseconds since the Unix epoch, if recorded.
    pub time_us: Option<i64>,
    /// The request, in bytes after rounding.
    pub request: Request,
    /// Free bytes of the device, as reported to the allocator.
    pub device_free: u64,
    /// The device had room for the request: it failed at a limit on reserved bytes.
    pub at_limit: bool,
    /// Requested, allocated, active and reserved bytes at that moment.
    pub counters: Counters,
    /// How allocated bytes rose before the request; `None` for a failure in a replay.
    pub rise: Option<Rise>,
    /// Why no free block could serve the request.
    pub fragmentation: Fragmentation,
    /// The causes of the failure, each in bytes.
    pub causes: OomCauses,
    /// Size of the device in bytes, if recorded.
    pub device_total: Option<u64>,
    /// The lines that kept free blocks from being merged.
    pub pins: Pins,
    /// The stack of the request.
    pub stack: Option<StackId>,
    /// The lines that held the allocated bytes, most bytes first.
    pub holders: Vec<Holder>,
    /// A block that fits the request, and became free too late for it; `None` for a failure in a replay.
    pub late_block: Option<LateBlock>,
}

impl OomExplanation {
    /// Whether the device's free bytes and the unused reserved bytes together were enough for the request.
    pub fn enough_in_total(&self) -> bool {
        self.device_free.saturating_add(self.fragmentation.external) >= self.request.bytes
    }

    /// Returns the bytes of the device that the allocator could use: reserved bytes plus the driver's free bytes. `None` if the
    /// request failed at a limit on reserved bytes, because the device is then larger.
    pub fn device_bytes(&self) -> Option<u64> {
        (!self.at_limit).then(|| self.counters.reserved.saturating_add(self.device_free))
    }

    /// Returns the bytes that would still be missing if all unused reserved bytes could be used.
    pub fn missing(&self) -> u64 {
        self.request.bytes.saturating_sub(self.device_free.saturating_add(self.fragmentation.external))
    }
}

/// Number of out-of-memory events that are explained one by one; a program that catches them may have thousands.
const MOST_EXPLAINED: usize = 20;

/// A failed request without an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRequest {
    /// The event index.
    pub event: usize,
    /// Time in microseconds since the Unix epoch, if recorded.
    pub time_us: Option<i64>,
    /// The request, in bytes after rounding.
    pub bytes: u64,
    /// Free bytes of the device, as reported to the allocator; `None` if they were not recorded.
    pub device_free: Option<u64>,
}

/// The out-of-memory events after those that [`ooms`] explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnexplainedOoms {
    /// Number of events.
    pub count: usize,
    /// The first of them.
    pub first: FailedRequest,
    /// The last of them.
    pub last: FailedRequest,
    /// The largest request; the first one among equals.
    pub largest: FailedRequest,
}

impl UnexplainedOoms {
    /// Summarizes the events with these indices; `None` if there are none.
    fn of(history: &History, mut unexplained: impl Iterator<Item = usize>) -> Option<Self> {
        let events = &history.device().events;
        let request = |event: usize| {
            let e = events.get(event);
            FailedRequest { event, time_us: e.time_us, bytes: e.size, device_free: e.device_free() }
        };
        let first = request(unexplained.next()?);
        let mut all = Self { count: 1, first, last: first, largest: first };
        for failed in unexplained.map(request) {
            all.count += 1;
            all.last = failed;
            if failed.bytes > all.largest.bytes {
                all.largest = failed;
            }
        }
        Some(all)
    }
}

/// Explains the first twenty out-of-memory events of a recording, oldest first, and summarizes further ones.
///
/// The causes are only those that the allocator's state shows. [`Summary`](crate::Summary) also weighs leaks, and replays the
/// first failure without single settings.
pub fn ooms(history: &History, frames: &Frames) -> (Vec<OomExplanation>, Option<UnexplainedOoms>) {
    let actions = history.device().events.actions().iter().enumerate();
    let mut events = actions.filter(|&(_, &action)| action == Action::Oom).map(|(event, _)| event);
    let first: Vec<usize> = events.by_ref().take(MOST_EXPLAINED).collect();
    let rises = Rise::before_each(history, &first);
    let explained =
        first.iter().zip(rises).map(|(&event, rise)| explain(history, frames, event, rise)).collect();
    (explained, UnexplainedOoms::of(history, events))
}

fn explain(history: &History, frames: &Frames, event: usize, rise: Rise) -> OomExplanation {
    let e = history.device().events.get(event);
    let tags = history.trace().tags.get(e.tags);
    let request = Request { bytes: e.size, stream: tags.stream, pool: tags.pool };
    let layout = Layout::at(history, Moment::after(event));
    let device_free = e.device_free().unwrap_or(0);
    let (counters, at_limit) = (layout.counters(), is_at_limit(&history.policy, e.size, device_free));
    let fragmentation = Fragmentation::in_layout(history, &layout, request);
    let waited = Waited::for_request(history, event);
    let failing = Failing {
        policy: &history.policy,
        settings_are_known: history.trace().settings.is_some(),
        request,
        counters,
        fragmentation: &fragmentation,
        device_free,
        device_total: history.device().total_bytes,
        at_limit,
        inside: Inside::of(&history.policy, layout.allocated().map(|a| (a.size, a.requested))),
        pending: waited.pending(&layout, request),
        idle: idle(history, &layout, event, request),
        rise: Some(rise),
    };
    OomExplanation {
        event,
        time_us: e.time_us,
        request,
        device_free,
        device_total: history.device().total_bytes,
        at_limit,
        counters,
        rise: Some(rise),
        causes: failing.causes(),
        fragmentation,
        pins: Pins::at(history, frames, &layout),
        stack: e.stack,
        holders: by_line(history, frames, layout.allocated()),
        late_block: LateBlock::of(&waited, &layout, request),
    }
}

/// Returns the free bytes of other streams that are idle: a stream is idle if it made none of the later half of all requests
/// since its own first one.
fn idle(history: &History, layout: &Layout<'_>, event: usize, request: Request) -> u64 {
    let default = request.pool.unwrap_or_default();
    let free = layout.free_blocks();
    let others = free.iter().filter(|b| b.stream != request.stream && b.pool.unwrap_or_default() == default);
    let others: Vec<_> = others.filter(|b| b.kind == history.policy.kind(request.bytes)).collect();
    if others.is_empty() {
        return 0;
    }
    let events = &history.device().events;
    let mut requests = 0u64;
    let mut first_and_last: HashMap<u64, (u64, u64)> = HashMap::new();
    for e in (0..event).filter(|&e| events.actions()[e] == Action::Alloc) {
        requests += 1;
        let stream = history.trace().tags.get(events.get(e).tags).stream;
        first_and_last.entry(stream).or_insert((requests, requests)).1 = requests;
    }
    let is_idle = |stream: u64| {
        let (first, last) = first_and_last.get(&stream).copied().unwrap_or((0, 0));
        (requests - last) * 2 > requests - first
    };
    others.into_iter().filter(|b| is_idle(b.stream)).map(|b| b.size).sum()
}
