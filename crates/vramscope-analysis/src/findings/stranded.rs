//! Cache of streams that make no more requests.
//!
//! PyTorch's and CuPy's allocators keep freed blocks for the stream that allocated them. If a program uses a stream for one part, such as
//! the loading of a checkpoint, the freed blocks of this stream stay reserved, and no other stream can use them.
//!
//! With a history, the stream of a cache is *idle* at the end if
//!
//! - it made none of the later half of all requests since its own first one, and
//! - since its last request, the program made at least twice as many requests as between any two of its requests. A stream that is used
//!   in every step, or in every tenth, is never idle by this rule.
//!
//! Without a history, only the end state remains: no block of the stream is in use, and other streams have blocks in use.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vramscope_engine::Allocator;
use vramscope_trace::{Action, PoolId, StackId};

use crate::history::{History, Layout};

/// The cache of one stream that makes no more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrandedStream {
    /// The stream.
    pub stream: u64,
    /// Bytes of its free blocks in the default pool.
    pub bytes: u64,
    /// Number of these blocks.
    pub blocks: usize,
    /// Event and stack of the last request of this stream; `None` if it made none in the recording.
    pub last_request: Option<(usize, Option<StackId>)>,
    /// Number of requests of other streams since then.
    pub later_requests: u64,
}

/// The caches of streams that make no more requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrandedCache {
    /// The streams, most bytes first.
    pub streams: Vec<StrandedStream>,
    /// Whether the recording has requests. Without them, only the end state shows that the streams are idle.
    pub has_history: bool,
}

impl StrandedCache {
    /// Bytes of all free blocks of these streams.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().map(|of| of.bytes).sum()
    }
}

/// Smaller caches are no finding: one large segment of PyTorch has 20 MiB.
const LEAST: u64 = 20 << 20;

/// A cache is a finding if it has at least one of this many parts of the reserved bytes.
const PARTS: u64 = 100;

/// Returns the caches of idle streams at the end, given the layout there.
pub(crate) fn stranded_cache(history: &History, end: &Layout<'_>) -> Option<StrandedCache> {
    if matches!(history.policy.allocator, Allocator::TorchHost | Allocator::Other(_)) {
        return None;
    }
    let mut caches: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for free in end.free_blocks().iter().filter(|free| free.pool.unwrap_or_default() == PoolId::default()) {
        let (bytes, blocks) = caches.entry(free.stream).or_default();
        *bytes += free.size;
        *blocks += 1;
    }
    let uses = Uses::of(history);
    let is_idle = |stream: u64| match uses.streams.get(&stream) {
        Some(used) => used.is_idle(uses.requests),
        None if uses.requests > 0 => true,
        None => end.active().all(|a| a.stream != stream) && end.active().next().is_some(),
    };
    let stranded = caches.into_iter().filter(|&(stream, _)| is_idle(stream));
    let mut streams: Vec<StrandedStream> = stranded
        .map(|(stream, (bytes, blocks))| {
            let used = uses.streams.get(&stream);
            StrandedStream {
                stream,
                bytes,
                blocks,
                last_request: used.map(|used| (used.event, history.device().events.get(used.event).stack)),
                later_requests: uses.requests - used.map_or(0, |used| used.last),
            }
        })
        .collect();
    streams.sort_by_key(|of| (Reverse(of.bytes), of.stream));
    let cache = StrandedCache { streams, has_history: uses.requests > 0 };
    (cache.bytes() >= LEAST.max(end.counters().reserved / PARTS)).then_some(cache)
}

/// The requests of each stream.
#[derive(Default)]
struct Uses {
    /// Number of all requests.
    requests: u64,
    streams: BTreeMap<u64, StreamUse>,
}

/// The requests of one stream, numbered from 1 among those of all streams.
struct StreamUse {
    first: u64,
    last: u64,
    /// The event of the last one.
    event: usize,
    /// Most requests between two of them, including the later one.
    longest_gap: u64,
}

impl Uses {
    fn of(history: &History) -> Self {
        let events = &history.device().events;
        let tags = &history.trace().tags;
        let mut uses = Self::default();
        for (event, _) in events.actions().iter().enumerate().filter(|&(_, &action)| action == Action::Alloc)
        {
            uses.requests += 1;
            let number = uses.requests;
            let stream = tags.get(events.get(event).tags).stream;
            let of = uses.streams.entry(stream);
            let of = of.or_insert(StreamUse { first: number, last: number, event, longest_gap: 0 });
            of.longest_gap = of.longest_gap.max(number - of.last);
            (of.last, of.event) = (number, event);
        }
        uses
    }
}

impl StreamUse {
    /// Whether the stream is idle after `requests` requests of all streams.
    fn is_idle(&self, requests: u64) -> bool {
        let since = requests - self.last;
        since * 2 > requests - self.first && since >= self.longest_gap * 2
    }
}
