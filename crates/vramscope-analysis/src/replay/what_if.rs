//! Many settings and sizes tried on one recording.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_basics::gpus::{self, Gpu, NEWEST_CUDA};
use vramscope_engine::{DEVICE_PAGE as PAGE, Policy, TorchRelease};

use super::capacity::{Capacity, ReplayDevice, UNLIMITED};
use super::doubts::Doubt;
use super::error::ReplayError;
use super::run::Outcome;
use super::runs::Replay;
use super::setting_change::SettingChange;
use super::settings::{Setting, useful_settings};
use crate::history::History;

/// A setting, and what a replay under it came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The setting that was tried.
    pub setting: Setting,
    /// What the replay came to.
    pub outcome: Outcome,
}

/// The settings to change for a recording that ran out of memory: of those that fit the smallest change, else the best that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct BestSetting {
    /// The setting, and what came of it on the recording's device.
    pub tried: Tried,
    /// How it differs from the recorded one.
    pub change: SettingChange,
    /// How many settings were tried, this one included.
    pub of: usize,
    /// Where the program grows with every step: how many more steps it would run before it fails again.
    pub more_steps: Option<u64>,
    /// Which setting comes nearest, where the best does not fit either.
    pub nearest: Option<Nearest>,
    /// What the setting does that PyTorch's own error text recommends.
    pub recommended: Recommended,
    /// Why the answer may not be exact.
    pub doubts: Vec<Doubt>,
}

/// What the setting does that PyTorch's text of an out of memory recommends: `expandable_segments:True` (since 2.2;
/// `max_split_size_mb` before).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recommended {
    /// It was on when the request failed.
    WasOn,
    /// Added to the recorded settings, it makes the run fit.
    Helps,
    /// Added to the recorded settings, it does not make the run fit.
    DoesNotHelp,
}

/// The setting that needs least where none fits on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// What is given in `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// Bytes of a device on which the run fits under it; a smaller one may do where the cache is given back.
    pub needed: u64,
    /// By how many bytes the device is smaller than that.
    pub missing: u64,
}

/// A GPU on which a recording fits.
#[derive(Debug, Clone, PartialEq)]
pub struct FittingGpu {
    /// The GPU.
    pub gpu: &'static Gpu,
    /// Bytes of it that the allocator cannot have.
    pub overhead: u64,
    /// What came of the recording on it.
    pub outcome: Outcome,
}

impl BestSetting {
    /// Tries settings on the recording behind `history`; `None` where nothing is known of its device, or
    /// where the replay does not fail under the recorded settings.
    pub fn of(history: &History) -> Option<Self> {
        let replay = Replay::of(history).ok()?;
        Self::of_replay(&replay, None)
    }

    /// As [`of`](Self::of), for a program that gains `growth` bytes with every step.
    pub(crate) fn of_replay(replay: &Replay<'_>, growth: Option<u64>) -> Option<Self> {
        let capacity = replay.recorded_capacity()?;
        // Where the recorded settings fit, the replay lacks what made the run fail, and another setting that fits shows nothing.
        if replay.under(&replay.policy, capacity).ok()?.fits() {
            return None;
        }
        let recorded = replay.history.trace().settings.clone().unwrap_or_default();
        let recorded_conf = replay.recorded_setting().conf;
        let settings = useful_settings(&recorded, &replay.policy, None);
        let of = settings.len();
        let all = replay.try_settings(settings.clone(), capacity, &|| {}).ok()?;
        let recommended = recommended(replay, &all);
        let change = |tried: &Tried| SettingChange::between(&recorded_conf, &tried.setting.conf);
        let fitting = all.iter().filter(|tried| tried.outcome.fits());
        // The best come first, and of equal changes the first is taken.
        let tried = fitting.min_by_key(|tried| change(tried).size()).or(all.first())?.clone();
        let mut doubts = replay.doubts(&tried.setting.policy, capacity);
        doubts.extend(replay.guesses_limit().then_some(Doubt::GuessedLimit));
        let fits = tried.outcome.fits();
        let nearest = if fits { None } else { replay.nearest(settings, capacity, &|| {}).ok()? };
        let room = capacity.total.saturating_sub(capacity.overhead);
        let left = room.saturating_sub(tried.outcome.reserved_at_end());
        let more_steps = growth.filter(|&growth| fits && growth > 0).map(|growth| left / growth);
        let change = change(&tried);
        Some(Self { tried, change, of, more_steps, nearest, recommended, doubts })
    }
}

/// What the setting does that PyTorch's error text recommends. `tried` has it beside the recorded ones.
fn recommended(replay: &Replay<'_>, tried: &[Tried]) -> Recommended {
    let mut with = replay.policy.clone();
    if replay.policy.release().is_some_and(|release| release < TorchRelease::new(2, 2)) {
        if replay.policy.max_split_size.is_some() {
            return Recommended::WasOn;
        }
        let fits = |t: &Tried| t.outcome.fits() && t.setting.policy.max_split_size.is_some();
        return if tried.iter().any(fits) { Recommended::Helps } else { Recommended::DoesNotHelp };
    }
    if replay.policy.expandable_segments {
        return Recommended::WasOn;
    }
    with.expandable_segments = true;
    let fits = tried.iter().any(|t| t.setting.policy == with && t.outcome.fits());
    if fits { Recommended::Helps } else { Recommended::DoesNotHelp }
}

impl Outcome {
    /// No request of the replay failed.
    pub fn fits(&self) -> bool {
        self.failure.is_none()
    }

    /// Bytes reserved when the replay ended.
    fn reserved_at_end(&self) -> u64 {
        self.reserved.last().map_or(0, |&(_, reserved)| reserved)
    }

    /// Bytes reserved after an event.
    pub(crate) fn reserved_after(&self, event: usize) -> u64 {
        let later = self.reserved.partition_point(|&(at, _)| at <= event);
        later.checked_sub(1).map_or(0, |last| self.reserved[last].1)
    }

    /// The less, the better: what fits comes first, then what gives its cache back least often, for then the
    /// device is full; then what reserves least, then what asks the device least often.
    pub fn rank(&self) -> impl Ord + use<> {
        let s = &self.statistics;
        let got_to = self.failure.map_or(usize::MAX, |f| f.event);
        (!self.fits(), std::cmp::Reverse(got_to), s.num_alloc_retries, s.reserved.peak, s.num_device_alloc)
    }
}

/// Sorts by [`Outcome::rank`]; of equals the shorter text comes first.
pub(super) fn best_first(tried: &mut [Tried]) {
    tried.sort_by_cached_key(|t| (t.outcome.rank(), t.setting.conf.len(), t.setting.conf.clone()));
}

impl Replay<'_> {
    /// Replays under each of `settings`, on as many threads as there are cores, and returns what came of
    /// them, the best first. `done` is told of each that is done, on any thread.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn try_settings(
        &self,
        settings: Vec<Setting>,
        device: impl Into<ReplayDevice>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Tried>, ReplayError> {
        let device = device.into();
        // Settings whose differences make none to this recording are replayed once.
        let mut rules: Vec<Policy> = Vec::new();
        let mut rule_of = Vec::with_capacity(settings.len());
        for setting in &settings {
            let policy = self.reach.rules_that_matter(&setting.policy);
            rule_of.push(rules.iter().position(|rule| *rule == policy).unwrap_or_else(|| {
                rules.push(policy);
                rules.len() - 1
            }));
        }
        let outcomes: Vec<OnceLock<Result<Outcome, ReplayError>>> =
            rules.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&n| n < rules.len()) {
                outcomes[number].get_or_init(|| self.under(&rules[number], device));
                rule_of.iter().filter(|&&rule| rule == number).for_each(|_| done());
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(rules.len());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let tried = settings.into_iter().zip(rule_of).map(|(setting, rule)| {
            let outcome = outcomes[rule].get().cloned().unwrap_or(Err(ReplayError::Cancelled))?;
            Ok(Tried { setting, outcome })
        });
        let mut tried = tried.collect::<Result<Vec<_>, ReplayError>>()?;
        best_first(&mut tried);
        Ok(tried)
    }

    /// Of settings under which the recording does not fit on a device of `capacity` the one that takes least memory where there is
    /// enough, and how much more that is. `None` where none is found to fit then. `done` is told of each replay.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn nearest(
        &self,
        settings: Vec<Setting>,
        capacity: Capacity,
        done: &(dyn Fn() + Sync),
    ) -> Result<Option<Nearest>, ReplayError> {
        let needed = |tried: &Tried| {
            let most = tried.outcome.statistics.reserved.peak;
            let needed = most.next_multiple_of(PAGE).saturating_add(capacity.overhead);
            // A limit by fraction leaves less than the device.
            let limit = tried.setting.policy.memory_fraction.filter(|&f| f > 0.0 && f < 1.0);
            limit.map_or(needed, |fraction| needed.max((most as f64 / fraction).ceil() as u64))
        };
        let mut tried = self.try_settings(settings, ReplayDevice::Unlimited, done)?;
        tried.sort_by_key(needed);
        for tried in &tried {
            let total = needed(tried);
            if total > capacity.total
                && self.under(&tried.setting.policy, Capacity { total, ..capacity })?.fits()
            {
                let conf = tried.setting.conf.clone();
                return Ok(Some(Nearest { conf, needed: total, missing: total - capacity.total }));
            }
        }
        Ok(None)
    }

    /// A device larger than `capacity` on which the recording fits under its own settings, in bytes, and what comes of it there: the
    /// smallest on which the cache need not be given back. `None` where it fits on none, or on `capacity`.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn larger_device(&self, capacity: Capacity) -> Result<Option<(u64, Outcome)>, ReplayError> {
        let overhead = capacity.overhead;
        let unbounded = self.under(&self.policy, Capacity { total: UNLIMITED, overhead })?;
        let total = unbounded.statistics.reserved.peak.next_multiple_of(PAGE).saturating_add(overhead);
        if total <= capacity.total {
            return Ok(None);
        }
        let outcome = self.under(&self.policy, Capacity { total, overhead })?;
        Ok(outcome.fits().then_some((total, outcome)))
    }

    /// The GPU with the least memory, of those that are known and have their own, on which the recording fits under `policy`.
    /// Of each `overhead` bytes are not the allocator's; where that is 0, as many as a CUDA context takes at most. `done` is told of each
    /// replay.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn smallest_gpu(
        &self,
        policy: &Policy,
        overhead: u64,
        done: &(dyn Fn() + Sync),
    ) -> Result<Option<FittingGpu>, ReplayError> {
        let needed = self.under(policy, ReplayDevice::Unlimited)?.statistics.requested.peak;
        for gpu in gpus::by_size() {
            let overhead = if overhead == 0 { *gpu.context_bytes(NEWEST_CUDA).end() } else { overhead };
            // What shares the host's memory has no memory that is known to be free.
            if gpu.integrated || gpu.total_bytes < needed.saturating_add(overhead) {
                continue;
            }
            done();
            let outcome = self.under(policy, Capacity { total: gpu.total_bytes, overhead })?;
            if outcome.fits() {
                return Ok(Some(FittingGpu { gpu, overhead, outcome }));
            }
        }
        Ok(None)
    }

    /// The smallest device, in whole pages of 2 MiB, on which the recording fits under `policy` with
    /// `overhead` bytes taken by others; found by halving, so a still smaller one might do by luck: what
    /// fits on a device need not fit on every larger one. `done` is told of each replay.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn smallest_capacity(
        &self,
        policy: &Policy,
        overhead: u64,
        done: &(dyn Fn() + Sync),
    ) -> Result<(u64, Outcome), ReplayError> {
        let total = |pages: u64| overhead.saturating_add(pages.saturating_mul(PAGE));
        let on = |pages: u64| {
            done();
            self.under(policy, Capacity { total: total(pages), overhead })
        };
        let unlimited = self.under(policy, ReplayDevice::Unlimited)?;
        let mut most = unlimited.statistics.reserved.peak.div_ceil(PAGE).max(1);
        let mut least = 0;
        let mut best = on(most)?;
        while !best.fits() {
            // A limit by fraction leaves less than the device; a segment of odd size takes more pages.
            least = most;
            most *= 2;
            if most > UNLIMITED / PAGE {
                return Ok((u64::MAX, best));
            }
            best = on(most)?;
        }
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            let outcome = on(middle)?;
            if outcome.fits() {
                (most, best) = (middle, outcome);
            } else {
                least = middle;
            }
        }
        Ok((total(most), best))
    }
}
