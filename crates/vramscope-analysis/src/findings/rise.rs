//! How allocated bytes rose before a failed request: whether the program had ever allocated as much as the request needs.

use vramscope_basics::count_steps;
use vramscope_trace::Action;

use crate::history::{History, Moment, RecordedAllocation};

/// Allocated bytes before a failed request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rise {
    /// The most bytes allocated before the request.
    pub highest: u64,
    /// The most bytes allocated in the first three quarters of the run before the request, by the bytes of all allocations.
    pub highest_earlier: u64,
    /// Number of allocations before the request.
    pub allocations: usize,
    /// If the same stack made a block of at least half the size before, and freed it: the bytes that were allocated beyond it while it was
    /// live, in proportion to the size.
    pub beyond_the_same: Option<u64>,
}

/// Fewer allocations before a request show no trend.
const FEWEST_ALLOCATIONS: usize = 8;

/// Part of the run before a request whose rise tells how the program would have gone on: the last of this many.
const PARTS: u64 = 4;

impl Rise {
    /// The bytes that follow a request that makes allocated memory `needed`, as far as the recording tells. 0 if the program had as many bytes
    /// allocated before, because what it needs is then known to be enough. If it made the same request before, it is what followed then. Else
    /// it is as much as allocated bytes rose in the last quarter of the run; too few of them show no trend.
    pub(crate) fn expected(self, needed: u64) -> u64 {
        if !self.is_new_maximum(needed) || self.allocations < FEWEST_ALLOCATIONS {
            return 0;
        }
        self.beyond_the_same.unwrap_or(needed - self.highest_earlier.min(needed))
    }

    /// Whether the program never had so many bytes allocated before the request.
    pub(crate) fn is_new_maximum(self, needed: u64) -> bool {
        needed > self.highest
    }

    /// The rises before the events with these indices, which must be sorted.
    pub(super) fn before_each(history: &History, events: &[usize]) -> Vec<Self> {
        let Some(&last) = events.last() else { return Vec::new() };
        let bytes: Vec<u64> = history.walk().take(last + 1).map(|(_, c)| c.allocated).collect();
        count_steps(last);
        events.iter().map(|&event| Self::before(history, &bytes[..=event], event)).collect()
    }

    /// The rise before an event; `bytes` has the allocated bytes at each moment up to it.
    fn before(history: &History, bytes: &[u64], event: usize) -> Self {
        let actions = &history.device().events.actions()[..event];
        let allocations = actions.iter().filter(|&&action| action == Action::Alloc).count();
        // All bytes that were allocated by each moment: a thousand small blocks are less work than one large one.
        let risen = |pair: &[u64; 2]| pair[1].saturating_sub(pair[0]);
        let all = bytes.array_windows().map(risen).fold(bytes[0], u64::saturating_add);
        let (mut so_far, mut highest_earlier) = (bytes[0], bytes[0]);
        for pair in bytes.array_windows() {
            so_far = so_far.saturating_add(risen(pair));
            if so_far > all / PARTS * (PARTS - 1) {
                break;
            }
            highest_earlier = highest_earlier.max(pair[1]);
        }
        count_steps(event);
        Self {
            highest: bytes.iter().copied().max().unwrap_or_default(),
            highest_earlier,
            allocations,
            beyond_the_same: same_request(history, bytes, event).map(|same| {
                let live = &bytes[same.from.index()..same.freed.index().min(bytes.len())];
                let beyond = live.iter().max().copied().unwrap_or_default()
                    - live.first().copied().unwrap_or_default();
                let times = history.device().events.get(event).size as f64 / same.size.max(1) as f64;
                (beyond as f64 * times.max(1.0)) as u64
            }),
        }
    }
}

/// Returns the last block that the stack of a failed request made in at least half its size and freed, before memory fell below that
/// level: the program called this line again. The layers of one forward pass make the same requests too, but memory only rises between
/// them.
fn same_request<'h>(history: &'h History, bytes: &[u64], event: usize) -> Option<&'h RecordedAllocation> {
    let failed = history.device().events.get(event);
    let has_frames = |stack| !history.trace().stacks.get(stack).is_empty();
    let mut lowest = u64::MAX;
    for earlier in (0..event).rev() {
        lowest = lowest.min(bytes[earlier + 1]);
        let Some(a) = history.subject(earlier).filter(|a| a.from == Moment::after(earlier)) else { continue };
        // Threads of the backward pass have no stack. There, only the size tells, and memory falls within one pass.
        let is_same = match failed.stack.filter(|&stack| has_frames(stack)) {
            Some(stack) => a.stack == Some(stack) && a.size >= failed.size / 2 && lowest < bytes[earlier],
            None => {
                let is_size = a.requested <= failed.size && failed.size <= a.size;
                a.stack.is_none_or(|stack| !has_frames(stack)) && is_size && lowest < bytes[earlier] / 2
            }
        };
        if is_same && a.freed <= Moment::after(event) {
            return Some(a);
        }
    }
    None
}
