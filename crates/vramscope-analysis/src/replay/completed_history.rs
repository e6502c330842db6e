//! Histories with the block sizes of a replay, where the recording alone does not determine them.

use std::sync::Arc;

use vramscope_trace::Trace;

use crate::history::History;
use crate::replay::Replay;
use vramscope_basics::Cancel;

impl History {
    /// Like [`of`](Self::of). If a [`Replay`] reproduces the recording, its block sizes replace those that the layout alone does
    /// not determine.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn replayed(trace: &Arc<Trace>, position: usize) -> Self {
        Self::of(trace, position).with_sizes_of_replay(&Cancel::default())
    }

    /// Like [`replayed`](Self::replayed); returns `None` if cancelled.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn replayed_unless(trace: &Arc<Trace>, position: usize, cancel: &Cancel) -> Option<Self> {
        let history = Self::of(trace, position).with_sizes_of_replay(cancel);
        (!cancel.is_cancelled()).then_some(history)
    }

    fn with_sizes_of_replay(mut self, cancel: &Cancel) -> Self {
        if !self.asks_for_replay() {
            return self;
        }
        let found = Replay::of_unless(&self, cancel).map(|replay| (replay.skipped, replay.reproduction));
        if let Ok((skipped, reproduction)) = found {
            self.learn(skipped, reproduction.first_difference.is_none(), &reproduction.sizes);
        }
        self
    }
}
