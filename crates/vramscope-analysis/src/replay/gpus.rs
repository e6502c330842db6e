//! GPU models on which a program would fit.

use std::ops::RangeInclusive;
use std::sync::Arc;

use vramscope_basics::gpus::Gpu;
use vramscope_trace::{Action, Trace};

use crate::history::History;
use crate::replay::{Capacity, DeviceReplay, Replay, ReplayError, ReplayOptions};
use crate::stacks::Frames;

/// The memory that one process requested from one device.
#[derive(Debug, Clone)]
pub struct Demand {
    /// The device index.
    pub device: i64,
    /// Peak of allocated bytes.
    pub peak_allocated: u64,
    /// Peak of reserved bytes.
    pub peak_reserved: u64,
    /// Number of failed requests.
    pub ooms: u64,
    trace: Arc<Trace>,
    position: usize,
}

impl Demand {
    /// Returns the recorded demand for the device at `position` in [`Trace::devices`]; `None` if the device
    /// was not used, and for the host.
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn of(trace: &Arc<Trace>, position: usize) -> Option<Self> {
        let device = &trace.devices[position];
        if !device.was_used() || device.is_host() {
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

    /// Returns settings, in the format of `PYTORCH_CUDA_ALLOC_CONF`, under which the demand fits on a device
    /// of this capacity. Returns `None` if no tried setting makes it fit.
    ///
    /// # Errors
    /// If the recording cannot be replayed.
    pub fn remedy(&self, capacity: Capacity) -> Result<Option<String>, ReplayError> {
        let options = ReplayOptions { capacity: Some(capacity), ..ReplayOptions::default() };
        let replay =
            DeviceReplay::of(&self.trace, self.position, &Frames::of(&self.trace), &options, &|| {})?;
        let best = replay.best().filter(|best| best.outcome.fits());
        Ok(best.map(|best| best.setting.conf.clone()))
    }
}

/// Whether demands fit on a device. The number of bytes that the allocator cannot use is known only as a
/// range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// They fit for every value of the range.
    Fits,
    /// They fit at the low end of the range, but not at the high end.
    Barely,
    /// They do not fit even at the low end.
    DoesNotFit,
}

/// The result of replaying all demands on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitReplay {
    /// Whether any request failed.
    pub fit: Fit,
    /// The highest peak of PyTorch's reserved bytes on one device. It comes from the replay with the high end
    /// of the range if the demands fit there, else from the replay with the low end.
    pub peak_reserved: u64,
    /// How often the allocator released its cache because the device was full, in the same replay.
    pub num_alloc_retries: u64,
}

/// The result of replaying all demands on one GPU model.
#[derive(Debug, Clone, Copy)]
pub struct GpuFit {
    /// The GPU model.
    pub gpu: &'static Gpu,
    /// The result of the replay.
    pub replayed: FitReplay,
}

/// Replays all demands on devices of `total` bytes each, of which the allocator cannot use `overhead` bytes.
///
/// The demands must come from a run that did not run out of memory.
///
/// # Errors
/// If a recording cannot be replayed.
pub fn fit_on_device<'d>(
    demands: impl IntoIterator<Item = &'d Demand>,
    total: u64,
    overhead: RangeInclusive<u64>,
) -> Result<FitReplay, ReplayError> {
    let histories = histories(demands);
    replay(&replays(&histories)?, total, overhead)
}

/// Replays all demands on each of `gpus`, in order, and stops after the first result for which `wanted`
/// returns false. `overhead` returns the range of bytes that the allocator cannot use on a GPU.
///
/// The demands must come from a run without a memory limit.
///
/// # Errors
/// If a recording cannot be replayed.
pub fn fit_on_gpus<'d>(
    demands: impl IntoIterator<Item = &'d Demand>,
    gpus: impl Iterator<Item = &'static Gpu>,
    overhead: impl Fn(&Gpu) -> RangeInclusive<u64>,
    wanted: impl Fn(&GpuFit) -> bool,
) -> Result<Vec<GpuFit>, ReplayError> {
    let histories = histories(demands);
    let replays = replays(&histories)?;
    let mut all = Vec::new();
    for gpu in gpus {
        let on = GpuFit { gpu, replayed: replay(&replays, gpu.total_bytes, overhead(gpu))? };
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
) -> Result<FitReplay, ReplayError> {
    let (low, high) = overhead.into_inner();
    let taken = |overhead, fit| -> Result<FitReplay, ReplayError> {
        let mut on = FitReplay { fit, peak_reserved: 0, num_alloc_retries: 0 };
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
