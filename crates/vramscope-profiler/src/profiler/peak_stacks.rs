//! The stacks of the allocations that reach the peaks of calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use vramscope_allocator::{CapturedStack, StackRecorder};

use super::source_reader::Peak;
use crate::source::{AllocationObserver, BlockEvent};
use vramscope_basics::lock;

/// Observes every allocation, and captures its stack if it raises the peak of an open call. Otherwise it only reads one number per open
/// call.
pub(super) struct PeakStacks {
    recorder: Arc<StackRecorder>,
    open: RwLock<Vec<Weak<PeakStack>>>,
}

/// The stack that reached the peak of one call.
pub(super) struct PeakStack {
    /// The id of the block whose allocation reached the peak; the source updates it as the peak rises.
    highest: Arc<AtomicU64>,
    /// The last captured stack, and the id of its block.
    captured: Mutex<Option<(u64, CapturedStack)>>,
}

impl PeakStacks {
    pub(super) fn new(recorder: Arc<StackRecorder>) -> Arc<Self> {
        Arc::new(Self { recorder, open: RwLock::default() })
    }

    /// Captures stacks for a peak from now on; `None` if the source does not report the block that reaches it.
    pub(super) fn watch(&self, peak: &Peak) -> Option<Arc<PeakStack>> {
        let stack = Arc::new(PeakStack { highest: peak.highest_block()?, captured: Mutex::default() });
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.retain(|stack| stack.strong_count() > 0);
        open.push(Arc::downgrade(&stack));
        Some(stack)
    }
}

impl AllocationObserver for PeakStacks {
    fn allocated(&self, block: BlockEvent) {
        let mut here = None;
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        for stack in open.iter().filter_map(Weak::upgrade) {
            if stack.highest.load(Ordering::Relaxed) != block.id {
                continue;
            }
            here = here.or_else(|| self.recorder.capture());
            let mut captured = lock(&stack.captured);
            // Another thread may have raised the peak in the meantime, and captured its stack first.
            if stack.highest.load(Ordering::Relaxed) == block.id {
                *captured = here.map(|stack| (block.id, stack));
            }
        }
    }

    fn freed(&self, _: BlockEvent) {}
}

impl PeakStack {
    /// Returns the stack of the allocation that reached the peak. `None` if allocated bytes never exceeded their value at the start, or if
    /// that allocation was not observed.
    pub(super) fn stack(&self) -> Option<CapturedStack> {
        let highest = self.highest.load(Ordering::Relaxed);
        lock(&self.captured).filter(|&(block, _)| block == highest).map(|(_, stack)| stack)
    }
}
