//! Who allocated when the peak of a call was reached.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use vramscope_allocator::{CapturedStack, StackRecorder};

use super::source_reader::Peak;
use crate::source::{AllocationObserver, BlockEvent};
use vramscope_basics::lock;

/// Is told of every allocation and captures the stack of those with which more is allocated than ever in a call that is
/// open. Only these cost more than a look at one number a call.
pub(super) struct PeakStacks {
    recorder: Arc<StackRecorder>,
    open: RwLock<Vec<Weak<PeakStack>>>,
}

/// The stack at which one call's peak was reached.
pub(super) struct PeakStack {
    /// The block of the peak, as it changes.
    highest: Arc<AtomicU64>,
    /// The last that was captured, and the block for which it was.
    captured: Mutex<Option<(u64, CapturedStack)>>,
}

impl PeakStacks {
    pub(super) fn new(recorder: Arc<StackRecorder>) -> Arc<Self> {
        Arc::new(Self { recorder, open: RwLock::default() })
    }

    /// Captures stacks for a peak from here on; `None` where its source does not tell which block it is.
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
            // Another thread may have gone higher meanwhile, and have told so before this one.
            if stack.highest.load(Ordering::Relaxed) == block.id {
                *captured = here.map(|stack| (block.id, stack));
            }
        }
    }

    fn freed(&self, _: BlockEvent) {}
}

impl PeakStack {
    /// The stack, unless the peak was there from the beginning or its allocation was not seen.
    pub(super) fn stack(&self) -> Option<CapturedStack> {
        let highest = self.highest.load(Ordering::Relaxed);
        lock(&self.captured).filter(|&(block, _)| block == highest).map(|(_, stack)| stack)
    }
}
