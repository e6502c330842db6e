//! Whether the program fits, on which cards, and what would make it fit.

use std::sync::Arc;

use anyhow::Context as _;
use vramscope::analysis::{Capacity, DeviceReplay, Frames, History, Replay, ReplayOptions};
use vramscope::gpus::Gpu;
use vramscope::trace::Trace;
use vramscope::trace::formats::ReadOptions;

use super::recordings::Recorded;
use crate::input;

/// What one process asked of one card, by its recording.
pub(crate) struct Demand {
    pub(crate) rank: Option<u64>,
    /// The card's number.
    pub(crate) device: i64,
    pub(crate) peak_allocated: u64,
    pub(crate) peak_reserved: u64,
    /// Requests that failed.
    pub(crate) ooms: u64,
    trace: Arc<Trace>,
    position: usize,
}

/// What the processes of a run asked of their cards. Cards that nobody used are left out.
pub(crate) fn demands(recordings: &[Recorded]) -> anyhow::Result<Vec<Demand>> {
    let mut demands = Vec::new();
    for recorded in recordings {
        let recording = input::read(&recorded.file, ReadOptions::default())?;
        for position in 0..recording.trace.devices.len() {
            let device = &recording.trace.devices[position];
            if device.events.is_empty() && device.segments.is_empty() {
                continue;
            }
            let history = History::of(&recording.trace, position);
            let peaks = history.peaks();
            let is_oom = |action: &&vramscope::trace::Action| **action == vramscope::trace::Action::Oom;
            demands.push(Demand {
                rank: recorded.facts.rank,
                device: recorded.gpu(device.device),
                peak_allocated: peaks.allocated.bytes,
                peak_reserved: peaks.reserved.bytes,
                ooms: device.events.actions().iter().filter(is_oom).count() as u64,
                trace: Arc::clone(&recording.trace),
                position,
            });
        }
    }
    Ok(demands)
}

impl Demand {
    /// The history, to be replayed on other cards.
    fn history(&self) -> History {
        History::of(&self.trace, self.position)
    }

    /// The settings with which this would fit on a card that it does not fit on, as for PYTORCH_CUDA_ALLOC_CONF.
    pub(crate) fn remedy(&self, capacity: Capacity) -> anyhow::Result<Option<String>> {
        let options = ReplayOptions { capacity: Some(capacity), ..ReplayOptions::default() };
        let frames = Frames::of(&self.trace);
        let replay =
            DeviceReplay::of(&self.trace, self.position, &frames, &options, &|| {}).context("replay")?;
        let best = replay.best().filter(|best| best.outcome.fits());
        Ok(best.map(|best| best.setting.conf.clone()))
    }
}

/// What became of all demands on one kind of card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnCard {
    pub(crate) gpu: &'static Gpu,
    pub(crate) fits: bool,
    /// The most that PyTorch's allocator reserved of one card.
    pub(crate) peak_reserved: u64,
    /// How often the allocator gave its cache back because the card was full.
    pub(crate) num_alloc_retries: u64,
}

/// Replays all demands on each of `cards`, in their order, as long as `wanted` says so of what came of the last one.
///
/// The demands are those of a run without a limit.
pub(crate) fn on_cards(
    demands: &[Demand],
    cards: impl Iterator<Item = &'static Gpu>,
    overhead: impl Fn(&Gpu) -> u64,
    wanted: impl Fn(&OnCard) -> bool,
) -> anyhow::Result<Vec<OnCard>> {
    let histories: Vec<History> = demands.iter().map(Demand::history).collect();
    let replays: Vec<Replay<'_>> =
        histories.iter().map(Replay::of).collect::<Result<_, _>>().context("replay")?;
    let mut all = Vec::new();
    for gpu in cards {
        let capacity = Capacity { total: gpu.total_bytes, overhead: overhead(gpu) };
        let mut on = OnCard { gpu, fits: true, peak_reserved: 0, num_alloc_retries: 0 };
        for replay in &replays {
            let outcome = replay.under(&replay.policy, Some(capacity)).context("replay")?;
            on.fits &= outcome.fits();
            on.peak_reserved = on.peak_reserved.max(outcome.statistics.reserved.peak);
            on.num_alloc_retries += outcome.statistics.num_alloc_retries;
        }
        all.push(on);
        if !wanted(&on) {
            break;
        }
    }
    Ok(all)
}
