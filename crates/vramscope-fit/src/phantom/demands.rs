//! The demands of a run's processes on their GPUs.

use anyhow::Context as _;
use vramscope_analysis::Demand;
use vramscope_trace::formats::Reader;

use super::recordings::Recorded;
use crate::control::Control;

/// The demand of one process on one GPU.
pub(crate) struct Asked {
    pub(crate) rank: Option<u64>,
    /// The GPU's number in the machine.
    pub(crate) gpu: i64,
    pub(crate) demand: Demand,
}

/// The demands of a run's processes on their GPUs, without unused GPUs. A recording without its older events shows no demand, because
/// the peak may be among them.
pub(crate) fn asked(recordings: &[Recorded], control: &dyn Control) -> anyhow::Result<Vec<Asked>> {
    let mut asked = Vec::new();
    for recorded in recordings.iter().filter(|recorded| !recorded.facts.may_have_dropped) {
        let name = || recorded.file.display().to_string();
        let recording = Reader::open(&recorded.file)?.read().with_context(name)?;
        for notice in recording.notices.to_string().lines() {
            control.say(&format!("note: {}: {notice}", name()));
        }
        let trace = recording.trace;
        let demands = (0..trace.devices.len()).filter_map(|position| Demand::of(&trace, position));
        asked.extend(demands.map(|demand| Asked {
            rank: recorded.facts.rank,
            gpu: recorded.gpu(demand.device),
            demand,
        }));
    }
    Ok(asked)
}
