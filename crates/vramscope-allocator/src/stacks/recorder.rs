//! Stacks for observers outside this crate.

use std::sync::{Arc, Mutex};

use super::{SourceFrame, StackKey, StackSource, StackStore, Stacks, Symbols};
use vramscope_basics::lock;

/// Captures stacks as addresses, which is fast, and resolves their symbols later. For hooks and observers outside this crate.
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

/// A stack that a [`StackRecorder`] captured. Within one recorder, equal stacks compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CapturedStack(pub(crate) StackKey);

impl StackRecorder {
    /// Creates a recorder of native stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a recorder of the stacks from `source`; with [`Stacks::All`], of native stacks too.
    pub fn with_source(source: Arc<dyn StackSource>, stacks: Stacks) -> Self {
        let recorder = Self { stacks, ..Self::default() };
        recorder.store.set_source(Some(source));
        recorder
    }

    /// Captures the calling thread's stack, in well under a microsecond; `None` if it is empty.
    pub fn capture(&self) -> Option<CapturedStack> {
        self.store.capture(self.stacks).map(CapturedStack)
    }

    /// Returns the stack's frames, innermost first, without frames of the profiler, of the standard library and of program startup.
    /// Resolving an address is slow the first time.
    pub fn frames(&self, stack: CapturedStack) -> Vec<SourceFrame> {
        let mut symbols = lock(&self.symbols);
        let mut frames = Vec::new();
        for site in self.store.sites(stack.0) {
            let all = symbols.frames(&self.store, site);
            let shown = |f: &&SourceFrame| site.is_supplied() || !f.is_own() && !f.is_runtime();
            frames.extend(all.iter().filter(shown).cloned());
        }
        frames
    }
}
