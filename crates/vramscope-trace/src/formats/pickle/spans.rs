//! Recognising a stack by its bytes.
//!
//! A recording repeats few stacks very often, and each time as the same bytes: a batch of references to
//! memoised frames. A training loop also repeats their order. So the stack that followed the last two the
//! time before is tried first: one comparison of bytes instead of a hundred opcodes. A wrong guess costs
//! the comparison up to the first difference.

use crate::ids::StackId;

/// Bytes of batches kept for comparing; stacks beyond are decoded each time.
const BUDGET: usize = 16 << 20;

/// Guesses kept, by the two stacks before.
const GUESSES: usize = 1 << 12;

pub(super) struct Spans {
    bytes: Vec<u8>,
    /// Of each stack, by number, where its bytes lie; empty where they are not kept.
    spans: Vec<std::ops::Range<usize>>,
    guesses: Vec<Option<StackId>>,
    last: [usize; 2],
}

impl Spans {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), spans: Vec::new(), guesses: vec![None; GUESSES], last: [0; 2] }
    }

    /// The stack that probably comes next, and its bytes up to and with the `APPENDS`.
    pub(super) fn guess(&self) -> Option<(StackId, &[u8])> {
        let stack = self.guesses[self.context()]?;
        let bytes = &self.bytes[self.spans.get(stack.index())?.clone()];
        (!bytes.is_empty()).then_some((stack, bytes))
    }

    /// Tells which stack came.
    pub(super) fn came(&mut self, stack: StackId) {
        let context = self.context();
        self.guesses[context] = Some(stack);
        self.last = [self.last[1], stack.index() + 1];
    }

    /// Keeps the bytes of a stack that was decoded.
    pub(super) fn keep(&mut self, stack: StackId, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > BUDGET {
            return;
        }
        if self.spans.len() <= stack.index() {
            self.spans.resize(stack.index() + 1, 0..0);
        }
        let span = &mut self.spans[stack.index()];
        if span.start == span.end {
            *span = self.bytes.len()..self.bytes.len() + bytes.len();
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A frame's place in the memo was taken by something else: the same bytes may mean another stack.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    fn context(&self) -> usize {
        (self.last[0].wrapping_mul(31) ^ self.last[1].wrapping_mul(1009)) % GUESSES
    }
}
