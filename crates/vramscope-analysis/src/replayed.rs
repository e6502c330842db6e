//! Histories that know what a replay finds out: what puts a [`History`] and a [`Replay`] together stands above both.

use std::sync::Arc;

use vramscope_trace::Trace;

use crate::history::History;
use crate::replay::Replay;

impl History {
    /// As [`of`](Self::of), with the block sizes of a [`Replay`] in place of those that the layout alone does not
    /// tell, where it reproduces the recording.
    ///
    /// # Panics
    /// Where the trace has no device at `position`.
    pub fn replayed(trace: &Arc<Trace>, position: usize) -> Self {
        let mut history = Self::of(trace, position);
        if !history.asks_for_replay() {
            return history;
        }
        let found = Replay::of(&history).map(|replay| (replay.skipped, replay.reproduction));
        if let Ok((skipped, reproduction)) = found {
            history.learn(skipped, reproduction.divergence.is_none(), &reproduction.sizes);
        }
        history
    }
}
