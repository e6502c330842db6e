//! On which cards a program would fit.

use std::sync::Arc;

use vramscope_basics::gpus::Gpu;
use vramscope_trace::{Action, Trace};

use crate::frames::Frames;
use crate::history::History;
use crate::replay::{Capacity, DeviceReplay, Replay, ReplayError, ReplayOptions};

/// What one process asked of one device.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The device's number.
    pub device: i64,
    /// The highest bytes allocated.
    pub peak_allocated: u64,
    /// The highest bytes reserved.
    pub peak_reserved: u64,
    /// Requests that failed.
    pub ooms: u64,
    trace: Arc<Trace>,
    position: usize,
}

impl Demand {
    /// What a recording says of the device at `position` in [`Trace::devices`]; `None` where nobody used it.
    ///
    /// # Panics
    /// Where the trace has no such device.
    pub fn of(trace: &Arc<Trace>, position: usize) -> Option<Self> {
        let device = &trace.devices[position];
        if !device.was_used() {
            return None;
        }
        let peaks = History::of(trace, position).peaks();
        Some(Self {
            device: device.device,
            peak_allocated: peaks.allocated.bytes,
            peak_reserved: peaks.reserved.bytes,
            ooms: device.events.actions().iter().filter(|&&action| action == Action::Oom).count() as u64,
            trace: Arc::clone(trace),
            position,
        })
    }

    /// The settings with which it would fit on a device that it does not fit on, as for PYTORCH_CUDA_ALLOC_CONF.
    ///
    /// # Errors
    /// Where the recording cannot be replayed.
    pub fn remedy(&self, capacity: Capacity) -> Result<Option<String>, ReplayError> {
        let options = ReplayOptions { capacity: Some(capacity), ..ReplayOptions::default() };
        let replay =
            DeviceReplay::of(&self.trace, self.position, &Frames::of(&self.trace), &options, &|| {})?;
        let best = replay.best().filter(|best| best.outcome.fits());
        Ok(best.map(|best| best.setting.conf.clone()))
    }
}

/// What became of all demands on one kind of card.
#[derive(Debug, Clone, Copy)]
pub struct OnCard {
    /// The card.
    pub gpu: &'static Gpu,
    /// Nothing failed.
    pub fits: bool,
    /// The most bytes that PyTorch's allocator reserved of one card.
    pub peak_reserved: u64,
    /// How often the allocator gave its cache back because the card was full.
    pub num_alloc_retries: u64,
}

/// Replays all demands on each of `cards`, in their order, as long as `wanted` says so of what came of the last one. Of a card
/// `overhead` bytes are not the allocator's.
///
/// The demands are those of a run without a limit.
///
/// # Errors
/// Where a recording cannot be replayed.
pub fn on_cards<'d>(
    demands: impl IntoIterator<Item = &'d Demand>,
    cards: impl Iterator<Item = &'static Gpu>,
    overhead: impl Fn(&Gpu) -> u64,
    wanted: impl Fn(&OnCard) -> bool,
) -> Result<Vec<OnCard>, ReplayError> {
    let history = |demand: &Demand| History::of(&demand.trace, demand.position);
    let histories: Vec<History> = demands.into_iter().map(history).collect();
    let replays: Vec<Replay<'_>> = histories.iter().map(Replay::of).collect::<Result<_, _>>()?;
    let mut all = Vec::new();
    for gpu in cards {
        let capacity = Capacity { total: gpu.total_bytes, overhead: overhead(gpu) };
        let mut on = OnCard { gpu, fits: true, peak_reserved: 0, num_alloc_retries: 0 };
        for replay in &replays {
            let outcome = replay.under(&replay.policy, capacity)?;
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
