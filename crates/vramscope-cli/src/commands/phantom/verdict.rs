//! What the processes of a run asked of their cards.

use vramscope::analysis::Demand;
use vramscope::trace::formats::ReadOptions;

use super::recordings::Recorded;
use crate::input;

/// What one process asked of one card.
pub(crate) struct Asked {
    pub(crate) rank: Option<u64>,
    /// The card's number in the machine.
    pub(crate) gpu: i64,
    pub(crate) demand: Demand,
}

/// What the processes of a run asked of their cards. Cards that nobody used are left out.
pub(crate) fn asked(recordings: &[Recorded]) -> anyhow::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for recorded in recordings {
        let trace = input::read(&recorded.file, ReadOptions::default())?.trace;
        let demands = (0..trace.devices.len()).filter_map(|position| Demand::of(&trace, position));
        asked.extend(demands.map(|demand| Asked {
            rank: recorded.facts.rank,
            gpu: recorded.gpu(demand.device),
            demand,
        }));
    }
    Ok(asked)
}
