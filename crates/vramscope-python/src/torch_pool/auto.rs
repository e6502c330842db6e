//! Plans that the pool makes by itself: `use_pool(plan="auto")`.

use std::sync::atomic::{AtomicU64, Ordering};

use vramscope::allocator::{DevicePool, HistoryOptions, MemoryPool};
use vramscope::analysis::{History, StepPlan};

/// Number of requests before the first search for a repeated step.
const FIRST: u64 = 500;
/// Number of requests after which the search ends.
const LAST: u64 = 400_000;

/// The search for a repeated step in the requests of one GPU.
pub(super) struct StepSearch {
    /// Whether streams share the memory of the plan.
    share_streams: bool,
    requests: AtomicU64,
    /// Number of requests at which the next search begins.
    next: AtomicU64,
}

impl StepSearch {
    pub(super) fn new(share_streams: bool) -> Self {
        Self { share_streams, requests: AtomicU64::new(0), next: AtomicU64::new(FIRST) }
    }

    /// What the pool records for the search.
    pub(super) fn history() -> HistoryOptions {
        HistoryOptions { context: None, ..HistoryOptions::default() }
    }

    /// Counts a request. Returns whether a search begins with it.
    #[inline]
    pub(super) fn count(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1 == self.next.load(Ordering::Relaxed)
    }

    /// Whether more searches follow.
    pub(super) fn continues(&self) -> bool {
        self.next.load(Ordering::Relaxed) != u64::MAX
    }

    /// Searches once. If the program repeats a step, its requests follow a plan of it from now on.
    pub(super) fn search(&self, pool: &MemoryPool, device: &DevicePool) {
        let found = plan(pool, device, self.share_streams)
            .is_some_and(|StepPlan { plan, streams }| device.join_plan(plan, streams));
        let requests = self.requests.load(Ordering::Relaxed);
        let ends = found || requests > LAST;
        self.next.store(if ends { u64::MAX } else { requests + requests / 4 }, Ordering::Relaxed);
    }
}

fn plan(pool: &MemoryPool, device: &DevicePool, share_streams: bool) -> Option<StepPlan> {
    let trace = pool.snapshot().ok()?;
    let index = trace.devices.iter().position(|recorded| recorded.device == i64::from(device.device_id()))?;
    StepPlan::of(&History::of(&trace, index), share_streams)
}
