//! The stacks of live blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use vramscope_allocator::{CapturedStack, SourceFrame, StackRecorder};

use crate::source::{AllocationObserver, BlockEvent, LiveHolder, MemorySource, Observation};
use vramscope_basics::lock;

/// Counts the live blocks of a source by the stack that allocated them. Blocks from before its creation do not count.
///
/// While it is alive, a malloc takes about a microsecond longer: it captures a stack and updates a few tables.
pub struct LiveStacks {
    shared: Arc<LiveObserver>,
    _observation: Observation,
}

#[derive(Default)]
struct LiveObserver {
    stacks: Arc<StackRecorder>,
    live: Mutex<LiveBlocks>,
}

#[derive(Default)]
struct LiveBlocks {
    blocks: HashMap<u64, Option<CapturedStack>>,
    by_stack: HashMap<Option<CapturedStack>, StackTotal>,
}

/// The totals of one stack's live blocks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StackTotal {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

impl LiveStacks {
    /// Starts counting the blocks of `source`; `None` if the source does not report allocations.
    pub fn of(source: &dyn MemorySource) -> Option<Self> {
        Self::with_stacks(source, StackRecorder::new())
    }

    /// Like [`of`](Self::of), with stacks captured by `stacks`, which may come from another language.
    pub fn with_stacks(source: &dyn MemorySource, stacks: StackRecorder) -> Option<Self> {
        let shared = Arc::new(LiveObserver { stacks: Arc::new(stacks), live: Mutex::default() });
        let observation = source.observe(Arc::clone(&shared) as _)?;
        Some(Self { shared, _observation: observation })
    }

    /// Returns at most `top` stacks with the most live bytes. Resolves symbols, which may take seconds the first time.
    pub fn holders(&self, top: usize) -> Vec<LiveHolder> {
        if top == 0 {
            return Vec::new();
        }
        let mut by_lines: BTreeMap<Vec<String>, StackTotal> = BTreeMap::new();
        for (stack, held) in self.held(usize::MAX) {
            let lines = stack.map(|stack| in_words(&self.shared.stacks, stack)).unwrap_or_default();
            let total = by_lines.entry(lines).or_default();
            total.bytes += held.bytes;
            total.count += held.count;
        }
        let holder = |(stack, StackTotal { bytes, count })| LiveHolder { bytes, count, stack: Some(stack) };
        let mut holders: Vec<LiveHolder> = by_lines.into_iter().map(holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders.truncate(top);
        holders
    }

    /// Like [`holders`](Self::holders), without symbols: grouped by return address. Optimized code may have several addresses per line.
    pub(crate) fn held(&self, top: usize) -> Vec<(Option<CapturedStack>, StackTotal)> {
        if top == 0 {
            // Return without taking the lock, which would delay the program's allocations.
            return Vec::new();
        }
        let mut held: Vec<_> = lock(&self.shared.live).by_stack.iter().map(|(s, h)| (*s, *h)).collect();
        held.sort_by_key(|&(stack, h)| (std::cmp::Reverse(h.bytes), stack));
        held.truncate(top);
        held
    }

    /// Returns the recorder that resolves the stacks' symbols.
    pub(crate) fn stacks(&self) -> Arc<StackRecorder> {
        Arc::clone(&self.shared.stacks)
    }
}

/// Returns the frames of a stack, each as `file:line function`. The first call may take seconds.
pub(crate) fn in_words(stacks: &StackRecorder, stack: CapturedStack) -> Vec<String> {
    let in_words = |frame: &SourceFrame| format!("{}:{} {}", frame.filename, frame.line, frame.name);
    stacks.frames(stack).iter().map(in_words).collect()
}

impl AllocationObserver for LiveObserver {
    fn allocated(&self, block: BlockEvent) {
        let stack = self.stacks.capture();
        let mut live = lock(&self.live);
        live.blocks.insert(block.id, stack);
        let held = live.by_stack.entry(stack).or_default();
        held.bytes += block.size;
        held.count += 1;
    }

    fn freed(&self, block: BlockEvent) {
        let mut live = lock(&self.live);
        let Some(stack) = live.blocks.remove(&block.id) else { return };
        if let Some(held) = live.by_stack.get_mut(&stack) {
            held.bytes -= block.size;
            held.count -= 1;
            if held.count == 0 {
                live.by_stack.remove(&stack);
            }
        }
    }
}
