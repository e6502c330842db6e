//! The demands of a run's processes on their GPUs.

use vramscope::analysis::Demand;
use vramscope::trace::formats::ReadOptions;

use super::recordings::Recorded;
use crate::input;

/// The demand of one process on one GPU.
pub(crate) struct Asked {
    pub(crate) rank: Option<u64>,
    /// The GPU's number in the machine.
    pub(crate) gpu: i64,
    pub(crate) demand: Demand,
}

/// The demands of a run's processes on their GPUs, without unused GPUs. A recording without its older events shows no demand, because
/// the peak may be among them.
pub(crate) fn asked(recordings: &[Recorded]) -> anyhow::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for recorded in recordings.iter().filter(|recorded| !recorded.facts.may_have_dropped) {
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
