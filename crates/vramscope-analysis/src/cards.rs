//! On which cards a program would fit.

use std::ops::RangeInclusive;
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

/// Whether demands fit on a device of which between so many and so many bytes are not the allocator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// They fit, whatever of the range is taken.
    Fits,
    /// They fit where the low end of the range is taken, and not where the high end is.
    Barely,
    /// They do not fit even where the low end is taken.
    DoesNotFit,
}

/// A replay of all demands on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Whether any request failed.
    pub fit: Fit,
    /// The most bytes that PyTorch's allocator reserved of one device, with the high end taken where they fit then, else with the low end.
    pub peak_reserved: u64,
    /// How often the allocator gave its cache back because the device was full, in the same replay.
    pub num_alloc_retries: u64,
}

/// What became of all demands on one kind of card.
#[derive(Debug, Clone, Copy)]
pub struct OnCard {
    /// The card.
    pub gpu: &'static Gpu,
    /// The replay on it.
    pub replayed: Replayed,
}

/// Replays all demands on devices of `total` bytes each, of which `overhead` bytes are not the allocator's.
///
/// The demands are those of a run that did not run out of memory.
///
/// # Errors
/// Where a recording cannot be replayed.
pub fn on_device<'d>(
    demands: impl IntoIterator<Item = &'d Demand>,
    total: u64,
    overhead: RangeInclusive<u64>,
) -> Result<Replayed, ReplayError> {
    let histories = histories(demands);
    replay(&replays(&histories)?, total, overhead)
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
    overhead: impl Fn(&Gpu) -> RangeInclusive<u64>,
    wanted: impl Fn(&OnCard) -> bool,
) -> Result<Vec<OnCard>, ReplayError> {
    let histories = histories(demands);
    let replays = replays(&histories)?;
    let mut all = Vec::new();
    for gpu in cards {
        let on = OnCard { gpu, replayed: replay(&replays, gpu.total_bytes, overhead(gpu))? };
        all.push(on);
        if !wanted(&on) {
            break;
        }
    }
    Ok(all)
}

fn histories<'d>(demands: impl IntoIterator<Item = &'d Demand>) -> Vec<History> {
    demands.into_iter().map(|demand| History::of(&demand.trace, demand.position)).collect()
}

fn replays(histories: &[History]) -> Result<Vec<Replay<'_>>, ReplayError> {
    histories.iter().map(Replay::of).collect()
}

fn replay(
    replays: &[Replay<'_>],
    total: u64,
    overhead: RangeInclusive<u64>,
) -> Result<Replayed, ReplayError> {
    let (low, high) = overhead.into_inner();
    let taken = |overhead, fit| -> Result<Replayed, ReplayError> {
        let mut on = Replayed { fit, peak_reserved: 0, num_alloc_retries: 0 };
        for replay in replays {
            let outcome = replay.under(&replay.policy, Capacity { total, overhead })?;
            if !outcome.fits() {
                on.fit = Fit::DoesNotFit;
            }
            on.peak_reserved = on.peak_reserved.max(outcome.statistics.reserved.peak);
            on.num_alloc_retries += outcome.statistics.num_alloc_retries;
        }
        Ok(on)
    };
    let at_most = taken(high, Fit::Fits)?;
    if at_most.fit == Fit::Fits || low == high { Ok(at_most) } else { taken(low, Fit::Barely) }
}
