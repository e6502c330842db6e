//! Histories that know what a replay finds out: what puts a [`History`] and a [`Replay`] together stands above both.

use vramscope_trace::{DeviceTrace, Trace};

use crate::history::History;
use crate::replay::Replay;

impl<'t> History<'t> {
    /// As [`of`](Self::of), with the block sizes of a [`Replay`] in place of those that the layout alone does not
    /// tell, where it reproduces the recording.
    pub fn replayed(trace: &'t Trace, device: &'t DeviceTrace) -> Self {
        let mut history = Self::of(trace, device);
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
