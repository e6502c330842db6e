//! The stacks that allocated what is live.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use vramscope_allocator::{CapturedStack, SourceFrame, StackRecorder};

use crate::source::{AllocationObserver, BlockEvent, LiveHolder, MemorySource, Observation};
use vramscope_basics::lock;

/// Counts the live blocks of a source by the stack that allocated them. Blocks that were live before it was made do not count.
///
/// While it lives, a malloc takes about a microsecond longer: a stack is captured and a few tables are updated.
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

/// The sum of the live blocks of one stack.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StackTotal {
    pub(crate) bytes: u64,
    pub(crate) count: u64,
}

impl LiveStacks {
    /// Begins to count the blocks of `source`; `None` where the source does not see allocations.
    pub fn of(source: &dyn MemorySource) -> Option<Self> {
        Self::with_stacks(source, StackRecorder::new())
    }

    /// As [`of`](Self::of), with stacks captured by `stacks`, which may be those of another language.
    pub fn with_stacks(source: &dyn MemorySource, stacks: StackRecorder) -> Option<Self> {
        let shared = Arc::new(LiveObserver { stacks: Arc::new(stacks), live: Mutex::default() });
        let observation = source.observe(Arc::clone(&shared) as _)?;
        Some(Self { shared, _observation: observation })
    }

    /// The stacks that hold most bytes, at most `top` of them, with symbols looked up now: that may take seconds the first time.
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
        let holder = |(stack, StackTotal { bytes, count })| LiveHolder { bytes, count, stack };
        let mut holders: Vec<LiveHolder> = by_lines.into_iter().map(holder).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders.truncate(top);
        holders
    }

    /// As [`holders`](Self::holders), without symbols: by return addresses, of which optimised code has several for one line.
    pub(crate) fn held(&self, top: usize) -> Vec<(Option<CapturedStack>, StackTotal)> {
        if top == 0 {
            // Answered without the lock, for which the program's allocations would have to wait.
            return Vec::new();
        }
        let mut held: Vec<_> = lock(&self.shared.live).by_stack.iter().map(|(s, h)| (*s, *h)).collect();
        held.sort_by_key(|&(stack, h)| (std::cmp::Reverse(h.bytes), stack));
        held.truncate(top);
        held
    }

    /// The recorder that looks up the symbols of the stacks.
    pub(crate) fn stacks(&self) -> Arc<StackRecorder> {
        Arc::clone(&self.shared.stacks)
    }
}

/// The frames of a stack, each as `file:line function`. The first time may take seconds.
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

#[cfg(test)]
mod tests {
    use vramscope_allocator::{MemoryPool, Policy};

    use super::*;
    use crate::source::PoolSource;

    #[test]
    fn holders_are_what_is_live_most_first() {
        let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
        let before = pool.malloc(512).unwrap();
        let live = LiveStacks::of(PoolSource::new(&pool, 0).unwrap().as_ref()).unwrap();
        let small: Vec<_> = (0..3).map(|_| pool.malloc(512).unwrap()).collect();
        let large = pool.malloc(4096).unwrap();
        drop(before);
        let held =
            |live: &LiveStacks| live.holders(10).iter().map(|h| (h.bytes, h.count)).collect::<Vec<_>>();
        assert_eq!(held(&live), [(4096, 1), (1536, 3)]);
        // On another thread than it was allocated on.
        std::thread::scope(|s| drop(s.spawn(|| drop(large))));
        assert_eq!(held(&live), [(1536, 3)]);
        drop(small);
        assert_eq!(held(&live), []);
    }
}
