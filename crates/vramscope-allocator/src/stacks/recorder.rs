//! Stacks for observers outside of this crate.

use std::sync::{Arc, Mutex};

use super::{SourceFrame, StackKey, StackSource, StackStore, Stacks, Symbols};
use vramscope_basics::lock;

/// Captures stacks as addresses, which is fast, and looks up their symbols later: for hooks and observers outside of this
/// crate.
///
/// ```
/// use vramscope_allocator::StackRecorder;
///
/// let recorder = StackRecorder::new();
/// let here: Vec<_> = (0..2).map(|_| recorder.capture()).collect();
/// assert_eq!(here[0], here[1]);
/// for frame in here[0].map(|stack| recorder.frames(stack)).unwrap_or_default() {
///     println!("{}:{} {}", frame.filename, frame.line, frame.name);
/// }
/// ```
#[derive(Default)]
pub struct StackRecorder {
    stacks: Stacks,
    store: StackStore,
    symbols: Mutex<Symbols>,
}

/// A stack that a [`StackRecorder`] captured. Of one recorder, the same stack always compares equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CapturedStack(StackKey);

impl StackRecorder {
    /// Captures native stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Captures the stacks that `source` supplies; with [`Stacks::All`], native ones too.
    pub fn with_source(source: Arc<dyn StackSource>, stacks: Stacks) -> Self {
        let recorder = Self { stacks, ..Self::default() };
        recorder.store.set_source(Some(source));
        recorder
    }

    /// The calling thread's stack, in well under a microsecond; `None` where there is none to see.
    pub fn capture(&self) -> Option<CapturedStack> {
        self.store.capture(self.stacks).map(CapturedStack)
    }

    /// Its frames, innermost first, without those of the profiler, of the standard library and of what starts a
    /// program. The first time an address is looked up takes long.
    pub fn frames(&self, stack: CapturedStack) -> Vec<SourceFrame> {
        let mut symbols = lock(&self.symbols);
        let mut frames = Vec::new();
        for site in self.store.sites(stack.0) {
            let all = symbols.frames(&self.store, site);
            frames.extend(all.iter().filter(|f| !f.is_own() && !f.is_runtime()).cloned());
        }
        frames
    }
}
