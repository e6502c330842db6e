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
    /// Of each stack, by number, where its bytes lie, where they are kept.
    spans: Vec<Span>,
    /// How often everything was forgotten.
    forgotten: u32,
    guesses: Vec<Option<StackId>>,
    last: [usize; 2],
}

/// Bytes `start..end`, kept when everything had been forgotten `forgotten` times.
#[derive(Default, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    forgotten: u32,
}

impl Spans {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            spans: Vec::new(),
            forgotten: 0,
            guesses: vec![None; GUESSES],
            last: [0; 2],
        }
    }

    /// The stack that probably comes next, and its bytes up to and with the `APPENDS`.
    pub(super) fn guess(&self) -> Option<(StackId, &[u8])> {
        let stack = self.guesses[self.context()]?;
        let span = self.spans.get(stack.index())?;
        if span.forgotten != self.forgotten || span.start == span.end {
            return None;
        }
        Some((stack, &self.bytes[span.start as usize..span.end as usize]))
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
            self.spans.resize(stack.index() + 1, Span::default());
        }
        let span = &mut self.spans[stack.index()];
        if span.start == span.end || span.forgotten != self.forgotten {
            // The budget is far below what 32 bits count.
            let [start, end] = [self.bytes.len(), self.bytes.len() + bytes.len()].map(|i| i as u32);
            *span = Span { start, end, forgotten: self.forgotten };
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A frame's place in the memo was taken by something else: the same bytes may mean another stack.
    /// This may happen after every stack, so it must not cost more where there are many.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
        self.forgotten = self.forgotten.wrapping_add(1);
        // After four billion times an old span would seem new again.
        if self.forgotten == 0 {
            self.spans.clear();
        }
    }

    fn context(&self) -> usize {
        (self.last[0].wrapping_mul(31) ^ self.last[1].wrapping_mul(1009)) % GUESSES
    }
}
