//! Everything a replay of one device is asked for, answered together.

use std::sync::Arc;

use vramscope_engine::{Policy, TorchRelease};
use vramscope_trace::{Action, Trace};

use super::capacity::{Capacity, ReplayDevice};
use super::divergence::Divergence;
use super::doubts::Doubt;
use super::error::ReplayError;
use super::floors::{Floors, pack_history};
use super::run::Outcome;
use super::runs::Replay;
use super::setting_change::SettingChange;
use super::settings::{Setting, useful_settings};
use super::what_if::{FittingGpu, Nearest, Tried, best_first};
use crate::beside::beside;
use crate::cancel::Cancel;
use crate::frames::Frames;
use crate::history::History;
use crate::out_of_memory::OutOfMemory;
use crate::packing::Packing;
use crate::segment_events::is_growth;
use crate::skipped::SkippedActions;

/// What to ask of a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The release whose rules hold, instead of the one the recording shows.
    pub release: Option<TorchRelease>,
    /// The settings to replay under, instead of the recorded ones.
    pub setting: Option<Setting>,
    /// The device's size, instead of what the recording shows where it ran out of memory.
    pub capacity: Option<Capacity>,
    /// Settings to compare; where empty, and none is asked for, those that often help.
    pub sweep: Vec<Setting>,
    /// Look for the smallest device and the smallest GPU on which it fits, with this overhead in bytes, instead of comparing. Of a GPU
    /// a CUDA context's is taken where it is 0.
    pub find_capacity: Option<u64>,
    /// Ends the replay with [`ReplayError::Cancelled`] when it is cancelled.
    pub cancel: Cancel,
}

/// Where a device's size comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityFrom {
    /// It was given with the question.
    Given,
    /// The recording ran out of memory: it is what the allocator had then.
    Recording,
}

/// What the recording itself shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// The highest reserved bytes.
    pub peak_reserved: u64,
    /// Segments taken from the device while it was recorded.
    pub segments_allocated: u64,
    /// Segments given back to the device while it was recorded.
    pub segments_freed: u64,
}

/// The answers for one device.
#[derive(Debug, Clone)]
pub struct DeviceReplay {
    /// The device's number.
    pub device: i64,
    /// Events recorded.
    pub events: usize,
    /// The allocator whose rules were followed, with its release, as `PyTorch 2.11`.
    pub rules: String,
    /// The release of PyTorch, where it is PyTorch.
    pub release: Option<TorchRelease>,
    /// What the recording itself shows.
    pub recorded: Recorded,
    /// The recorded settings.
    pub recorded_setting: Setting,
    /// The device's size, where it is known.
    pub capacity: Option<(Capacity, CapacityFrom)>,
    /// The settings asked for, or the recorded ones, and what came of them.
    pub asked: Tried,
    /// The settings of `asked` are others than the recorded ones.
    pub is_what_if: bool,
    /// Where the recorded settings do not reproduce the recording; `None` also where it cannot be told, for events were
    /// left out.
    pub divergence: Option<Divergence>,
    /// Kinds of events that were left out.
    pub skipped: SkippedActions,
    /// The recorded settings reproduce the recording; `None` where nothing was recorded, or events were left out without
    /// which it cannot be told.
    pub reproduced: Option<bool>,
    /// Events were left out, and what was recorded is not reproduced: the requests were followed by the rules alone.
    pub is_unchecked: bool,
    /// No event says that a segment was taken.
    pub lacks_growth: bool,
    /// The layout at the end was compared with the recorded one.
    pub compared_end: bool,
    /// Settings compared, the best first. The recorded ones are among them.
    pub tried: Vec<Tried>,
    /// The least memory that any allocator could do with.
    pub floors: Floors,
    /// The smallest device, in bytes, where that was asked for, and what comes of it.
    pub smallest: Option<(u64, Outcome)>,
    /// The smallest GPU on which it fits, where that was asked for and there is one.
    pub smallest_gpu: Option<FittingGpu>,
    /// Where nothing that was tried fits: what comes nearest.
    pub nearest: Option<Nearest>,
    /// Why the settings asked for run out of memory, if they do.
    pub oom: Option<OutOfMemory>,
    /// Why `asked` may not be exact.
    pub doubts: Vec<Doubt>,
    /// Why what came of other settings may not be exact.
    pub what_if_doubts: Vec<Doubt>,
}

impl DeviceReplay {
    /// Answers `options` for the device at `position` in [`Trace::devices`]. `frames` are those of `trace`; `done` is told
    /// of each replay, on any thread.
    ///
    /// # Errors
    /// See [`ReplayError`].
    ///
    /// # Panics
    /// Where the trace has no device at `position`.
    pub fn of(
        trace: &Arc<Trace>,
        position: usize,
        frames: &Frames,
        options: &ReplayOptions,
        done: &(dyn Fn() + Sync),
    ) -> Result<Self, ReplayError> {
        let release = options.release.unwrap_or_else(|| trace.shown_release());
        let history = History::under(Policy::recorded_by(trace, release), trace, position);
        // Packing follows no allocator's rules, so that it need not wait for a replay.
        std::thread::scope(|scope| {
            let packing = beside(scope, || pack_history(&history, &options.cancel));
            Self::of_history(&history, frames, options, packing, done)
        })
    }

    /// The answer; `packing` waits for the packing of the history.
    fn of_history(
        history: &History,
        frames: &Frames,
        options: &ReplayOptions,
        packing: impl FnOnce() -> Option<Packing>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Self, ReplayError> {
        let (trace, device, cancel) = (history.trace(), history.device(), &options.cancel);
        let mut replay = match options.release {
            Some(_) => Replay::of_known_release_unless(history, cancel)?,
            None => Replay::of_unless(history, cancel)?,
        };
        // Only a history asks for the sizes of blocks.
        replay.reproduction.sizes = Vec::new();
        // The release that the replay followed, which may be another than the recording seems to show.
        let allocator = replay.policy.allocator;
        let settings = trace.settings.clone().unwrap_or_default();
        let recorded_setting = replay.recorded_setting();
        let asked = options.setting.clone().map(|s| s.in_order_of(&replay.policy));
        let setting = asked.unwrap_or_else(|| recorded_setting.clone());
        let is_what_if = setting.policy != replay.policy;
        let capacity = match options.capacity {
            Some(given) => Some((given, CapacityFrom::Given)),
            None => replay.recorded_capacity().map(|c| (c, CapacityFrom::Recording)),
        };
        let size = capacity.map(|(c, _)| c);
        let on = size.map_or(ReplayDevice::Recorded, ReplayDevice::Of);
        let outcome = replay.under(&setting.policy, on)?;
        let asked = Tried { setting, outcome };

        let compare = if options.find_capacity.is_some() || history.allocations.is_empty() {
            Vec::new()
        } else if options.sweep.is_empty() && options.setting.is_none() {
            useful_settings(&settings, &replay.policy, options.capacity)
        } else {
            options.sweep.clone()
        };
        let compare = compare.into_iter().map(|s| s.in_order_of(&replay.policy)).collect();
        let mut tried = replay.try_settings(compare, on, done)?;
        if options.sweep.is_empty() && options.find_capacity.is_none() && !tried.contains(&asked) {
            tried.push(asked.clone());
        }
        if is_what_if || !options.sweep.is_empty() {
            let outcome = replay.under(&replay.policy, on)?;
            tried.push(Tried { setting: recorded_setting.clone(), outcome });
        }
        best_first(&mut tried);
        let smallest = match options.find_capacity {
            Some(overhead) => Some(replay.smallest_capacity(&asked.setting.policy, overhead, done)?),
            None => None,
        };
        let smallest_gpu = match options.find_capacity {
            Some(overhead) => replay.smallest_gpu(&asked.setting.policy, overhead, done)?,
            None => None,
        };
        let fails =
            options.find_capacity.is_none() && tried.iter().chain([&asked]).all(|t| !t.outcome.fits());
        let nearest = match size.filter(|_| fails) {
            Some(size) => {
                let all = tried.iter().chain([&asked]).map(|t| t.setting.clone());
                replay.nearest(all.collect(), size, done)?
            }
            None => None,
        };
        let oom = match (asked.outcome.failure, options.find_capacity) {
            (Some(_), None) => replay.explain(frames, &asked.setting.policy, on)?,
            _ => None,
        };
        let packing = packing().ok_or(ReplayError::Cancelled)?;
        let complete = tried.iter().chain([&asked]).filter(|t| t.outcome.fits());
        let best = complete.map(|t| t.outcome.statistics.reserved.peak).min();
        let found = smallest.as_ref().map(|&(total, _)| total).zip(options.find_capacity);
        let searched = found.map(|(total, overhead)| ReplayDevice::Of(Capacity { total, overhead }));
        let at_limit = matches!(capacity, Some((_, CapacityFrom::Recording))) && replay.guesses_limit();
        let doubts = |policy: &Policy| {
            let mut doubts = replay.doubts(policy, searched.unwrap_or(on));
            doubts.extend(at_limit.then_some(Doubt::GuessedLimit));
            doubts
        };
        let mut what_if_doubts: Vec<Doubt> = Vec::new();
        for other in tried.iter().filter(|t| t.setting.policy != replay.policy) {
            what_if_doubts.extend(doubts(&other.setting.policy));
        }
        what_if_doubts.sort_unstable();
        what_if_doubts.dedup();
        let doubts = doubts(&asked.setting.policy);
        let numbers = device.events.actions();
        let same = replay.reproduction.divergence.is_none();
        let can_tell = !device.events.is_empty() && !replay.skipped.segments() && !replay.is_unchecked();
        let reproduced = can_tell.then_some(same);
        let count = |action| numbers.iter().filter(|&&a| a == action).count() as u64;
        Ok(Self {
            device: device.device,
            events: device.events.len(),
            rules: allocator.to_string(),
            release: allocator.release(),
            recorded: Recorded {
                peak_reserved: history.peaks().reserved.bytes,
                segments_allocated: count(Action::SegmentAlloc),
                segments_freed: count(Action::SegmentFree),
            },
            recorded_setting,
            capacity,
            is_what_if,
            divergence: replay.reproduction.divergence.filter(|_| replay.skipped.is_empty()),
            skipped: replay.skipped,
            reproduced,
            is_unchecked: replay.is_unchecked(),
            lacks_growth: !numbers.iter().any(|&action| is_growth(action)),
            compared_end: replay.reproduction.compared_end,
            floors: Floors::of(&packing, best),
            smallest,
            smallest_gpu,
            nearest,
            oom,
            doubts,
            what_if_doubts,
            asked,
            tried,
        })
    }

    /// How a setting differs from the recorded one.
    pub fn change(&self, tried: &Tried) -> SettingChange {
        SettingChange::between(&self.recorded_setting.conf, &tried.setting.conf)
    }

    /// The setting tried that serves best, if it makes a difference: the run fits, or it reserves one percent
    /// less at least, or never gives its cache back. Where the settings asked for do not fit, it is the smallest change of the
    /// recorded ones that does.
    pub fn best(&self) -> Option<&Tried> {
        let best = if self.asked.outcome.fits() {
            self.tried.first().filter(|best| best.outcome.fits())?
        } else {
            // The best come first, and of equal changes the first is taken.
            let fitting = self.tried.iter().filter(|tried| tried.outcome.fits());
            fitting.min_by_key(|tried| self.change(tried).size())?
        };
        let (new, old) = (&best.outcome.statistics, &self.asked.outcome.statistics);
        let saves = new.reserved.peak.saturating_add(old.reserved.peak / 100) <= old.reserved.peak;
        let calmer = new.num_alloc_retries == 0 && old.num_alloc_retries > 0;
        let better = !self.asked.outcome.fits() || saves || calmer;
        (better && best.setting.policy != self.asked.setting.policy).then_some(best)
    }
}
