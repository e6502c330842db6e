//! The complete result of replaying one device.

use std::sync::Arc;

use vramscope_engine::{Policy, TorchRelease};
use vramscope_trace::{Action, Trace};

use super::capacity::{Capacity, ReplayDevice};
use super::error::ReplayError;
use super::first_difference::ReplayDifference;
use super::limitations::ReplayLimitation;
use super::lower_bounds::{LowerBounds, pack_history};
use super::plan::{PlanReplay, PlanSource};
use super::run::Outcome;
use super::runs::Replay;
use super::setting_change::SettingChange;
use super::settings::{Setting, useful_settings};
use super::what_if::{FittingGpu, Nearest, Tried, best_first};
use crate::basics::beside;
use crate::findings::OomExplanation;
use crate::history::{History, SkippedActions, is_growth};
use crate::stacks::Frames;
use vramscope_basics::Cancel;
use vramscope_packing::Packing;

/// Options of a replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The release whose rules apply, instead of the one that the recording shows.
    pub release: Option<TorchRelease>,
    /// The settings to replay under, instead of the recorded ones.
    pub setting: Option<Setting>,
    /// The size of the device. Without it, the size comes from the recording if it ran out of memory.
    pub capacity: Option<Capacity>,
    /// Settings to compare. If empty, and `setting` is `None`, settings that often help are compared.
    pub sweep: Vec<Setting>,
    /// Searches for the smallest device and the smallest GPU on which the recording fits, instead of comparing settings. The
    /// value is the overhead in bytes; if it is 0, a GPU's overhead is that of a CUDA context.
    pub find_capacity: Option<u64>,
    /// Also replays with a plan.
    pub plan: Option<PlanSource>,
    /// Ends the replay with [`ReplayError::Cancelled`] when cancelled.
    pub cancel: Cancel,
}

/// The source of a device's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityFrom {
    /// The size was given in the options.
    Given,
    /// The recording ran out of memory; the size is what the allocator could use then.
    Recording,
}

/// Figures of the recording itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Peak of reserved bytes.
    pub peak_reserved: u64,
    /// Number of segments allocated from the device during the recording.
    pub segments_allocated: u64,
    /// Number of segments released to the device during the recording.
    pub segments_freed: u64,
}

/// The result for one device.
#[derive(Debug, Clone)]
pub struct DeviceReplay {
    /// The device index.
    pub device: i64,
    /// Number of recorded events.
    pub events: usize,
    /// The allocator whose rules were used, with its release, such as `PyTorch 2.11`.
    pub rules: String,
    /// The PyTorch release; `None` for other allocators.
    pub release: Option<TorchRelease>,
    /// Figures of the recording itself.
    pub recorded: Recorded,
    /// The recorded settings.
    pub recorded_setting: Setting,
    /// The device's size and its source, if known.
    pub capacity: Option<(Capacity, CapacityFrom)>,
    /// The requested settings, or else the recorded ones, with their outcome.
    pub asked: Tried,
    /// Whether the settings of `asked` differ from the recorded ones.
    pub is_what_if: bool,
    /// Where the replay under the recorded settings differs from the recording. Also `None` if this is unknown because events
    /// were left out.
    pub first_difference: Option<ReplayDifference>,
    /// Kinds of events that were left out.
    pub skipped: SkippedActions,
    /// Whether the recorded settings reproduce the recording. `None` if nothing was recorded, or if left-out events make the
    /// answer unknown.
    pub reproduced: Option<bool>,
    /// Events were left out and the recording is not reproduced: the requests were replayed by the rules alone.
    pub is_unchecked: bool,
    /// The recording has no event for an allocated segment.
    pub lacks_growth: bool,
    /// Whether the layout at the end was compared with the recorded one.
    pub compared_end: bool,
    /// The compared settings, including the recorded ones, best first.
    pub tried: Vec<Tried>,
    /// The outcome with a plan before the allocator of `asked`; only if requested. Also `None` if the recording is too large for a plan.
    pub plan: Option<PlanReplay>,
    /// Lower bounds on the memory that any allocator needs.
    pub lower_bounds: LowerBounds,
    /// The size of the smallest device in bytes, with the outcome on it; only if requested.
    pub smallest: Option<(u64, Outcome)>,
    /// The smallest GPU on which the recording fits; only if requested and if there is one.
    pub smallest_gpu: Option<FittingGpu>,
    /// If no tried setting fits, the one that needs the least memory.
    pub nearest: Option<Nearest>,
    /// Why the requested settings run out of memory, if they do.
    pub oom: Option<OomExplanation>,
    /// Reasons why `asked` may not be exact.
    pub limitations: Vec<ReplayLimitation>,
    /// Reasons why the outcomes of other settings may not be exact.
    pub what_if_limitations: Vec<ReplayLimitation>,
}

impl DeviceReplay {
    /// Replays the device at `position` in [`Trace::devices`] with `options`. `frames` must be those of `trace`. `done` is called
    /// after each replay, on any thread.
    ///
    /// # Errors
    /// See [`ReplayError`].
    ///
    /// # Panics
    /// If the trace has no device at `position`.
    pub fn of(
        trace: &Arc<Trace>,
        position: usize,
        frames: &Frames,
        options: &ReplayOptions,
        done: &(dyn Fn() + Sync),
    ) -> Result<Self, ReplayError> {
        let release = options.release.unwrap_or_else(|| trace.shown_release());
        let history =
            History::under(Policy::of_device(trace, &trace.devices[position], release), trace, position);
        // Packing does not depend on an allocator's rules, so it runs in parallel with the replays.
        std::thread::scope(|scope| {
            let packing = beside(scope, || pack_history(&history, &options.cancel));
            Self::of_history(&history, frames, options, packing, done)
        })
    }

    /// Computes the result; `packing` waits for the packing of the history.
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
        // Only a history needs the block sizes.
        replay.reproduction.sizes = Vec::new();
        // The release whose rules the replay used may differ from the one that the recording seems to show.
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
        let plan = match &options.plan {
            Some(source) => replay.planned(source, &asked.setting.policy, on, frames, done)?,
            None => None,
        };
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
        let outcomes = tried.iter().chain([&asked]).map(|t| &t.outcome);
        let outcomes = outcomes.chain(plan.iter().map(|plan| &plan.outcome)).filter(|o| o.fits());
        let best = outcomes.map(|outcome| outcome.statistics.reserved.peak).min();
        let found = smallest.as_ref().map(|&(total, _)| total).zip(options.find_capacity);
        let searched = found.map(|(total, overhead)| ReplayDevice::Of(Capacity { total, overhead }));
        let at_limit = matches!(capacity, Some((_, CapacityFrom::Recording))) && replay.guesses_limit();
        let limitations = |policy: &Policy| {
            let mut limitations = replay.limitations(policy, searched.unwrap_or(on));
            limitations.extend(at_limit.then_some(ReplayLimitation::GuessedLimit));
            limitations
        };
        let mut what_if_limitations: Vec<ReplayLimitation> = Vec::new();
        for other in tried.iter().filter(|t| t.setting.policy != replay.policy) {
            what_if_limitations.extend(limitations(&other.setting.policy));
        }
        what_if_limitations.sort_unstable();
        what_if_limitations.dedup();
        let limitations = limitations(&asked.setting.policy);
        let numbers = device.events.actions();
        let same = replay.reproduction.first_difference.is_none();
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
            first_difference: replay.reproduction.first_difference.filter(|_| replay.skipped.is_empty()),
            skipped: replay.skipped,
            reproduced,
            is_unchecked: replay.is_unchecked(),
            lacks_growth: !numbers.iter().any(|&action| is_growth(action)),
            compared_end: replay.reproduction.compared_end,
            plan,
            lower_bounds: LowerBounds::of(&packing, best),
            smallest,
            smallest_gpu,
            nearest,
            oom,
            limitations,
            what_if_limitations,
            asked,
            tried,
        })
    }

    /// Returns how a tried setting differs from the recorded one.
    pub fn change(&self, tried: &Tried) -> SettingChange {
        SettingChange::between(&self.recorded_setting.conf, &tried.setting.conf)
    }

    /// Returns the best tried setting if it makes a difference: the run fits, or it reserves at least one percent less, or it
    /// never releases its cache. If the requested settings do not fit, returns the smallest change of the recorded settings that
    /// does.
    pub fn best(&self) -> Option<&Tried> {
        let best = if self.asked.outcome.fits() {
            self.tried.first().filter(|best| best.outcome.fits())?
        } else {
            // The best come first; among equal changes, the first is chosen.
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
