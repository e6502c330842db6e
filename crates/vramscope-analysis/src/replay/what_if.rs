//! Tries many settings and device sizes on one recording.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use vramscope_basics::gpus::{self, Gpu};
use vramscope_engine::{DEVICE_PAGE as PAGE, Policy, TorchRelease};

use super::capacity::{Capacity, ReplayDevice, UNLIMITED};
use super::error::ReplayError;
use super::limitations::ReplayLimitation;
use super::run::Outcome;
use super::runs::Replay;
use super::setting_change::SettingChange;
use super::settings::{Setting, useful_settings};
use crate::history::History;

/// A setting, with the outcome of a replay under it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The setting that was tried.
    pub setting: Setting,
    /// The outcome of the replay.
    pub outcome: Outcome,
}

/// The recommended settings for a recording that ran out of memory: the smallest change among those that fit, else the best that
/// was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BestSetting {
    /// The text for `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// Whether the run fits on the recording's device under this setting.
    pub fits: bool,
    /// Peak of reserved bytes of a replay under this setting on that device.
    pub peak_reserved: u64,
    /// How the setting differs from the recorded one.
    pub change: SettingChange,
    /// Number of tried settings, including this one.
    pub of: usize,
    /// If the program grows with every step: how many more steps it would run before it fails again.
    pub more_steps: Option<u64>,
    /// The setting that needs the least memory, if not even the best one fits.
    pub nearest: Option<Nearest>,
    /// The effect of the setting that PyTorch's error text recommends.
    pub recommended: Recommended,
    /// Reasons why the result may not be exact.
    pub limitations: Vec<ReplayLimitation>,
}

/// The effect of the setting that PyTorch's out-of-memory text recommends: `expandable_segments:True` (since 2.2;
/// `max_split_size_mb` before).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recommended {
    /// It was on when the request failed.
    WasOn,
    /// Added to the recorded settings, it makes the run fit.
    Helps,
    /// Added to the recorded settings, it does not make the run fit.
    DoesNotHelp,
}

/// The setting that needs the least memory, if none fits on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nearest {
    /// The text for `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// Size in bytes of a device on which the run fits under this setting. A smaller device may be enough if the cache is
    /// released.
    pub needed: u64,
    /// By how many bytes the device is too small.
    pub missing: u64,
}

/// A GPU on which a recording fits.
#[derive(Debug, Clone, PartialEq)]
pub struct FittingGpu {
    /// The GPU.
    pub gpu: &'static Gpu,
    /// Bytes of the GPU that the allocator cannot use.
    pub overhead: u64,
    /// The outcome of the recording on the GPU.
    pub outcome: Outcome,
}

impl BestSetting {
    /// Tries settings on the recording of `history`. Returns `None` if the device's capacity is unknown, or if the replay does
    /// not fail under the recorded settings.
    pub fn of(history: &History) -> Option<Self> {
        let replay = Replay::of(history).ok()?;
        Self::of_replay(&replay, replay.failing_capacity()?, None)
    }

    /// Tries settings on a device of [`Replay::failing_capacity`], for a program that gains `growth` bytes per step.
    pub(crate) fn of_replay(replay: &Replay<'_>, capacity: Capacity, growth: Option<u64>) -> Option<Self> {
        let recorded = replay.history.trace().settings.clone().unwrap_or_default();
        let recorded_conf = replay.recorded_setting().conf;
        let settings = useful_settings(&recorded, &replay.policy, None);
        let of = settings.len();
        let all = replay.try_settings(settings.clone(), capacity, &|| {}).ok()?;
        let recommended = recommended(replay, &all);
        let change = |tried: &Tried| SettingChange::between(&recorded_conf, &tried.setting.conf);
        let fitting = all.iter().filter(|tried| tried.outcome.fits());
        // The best come first; among equal changes, the first is chosen.
        let tried = fitting.min_by_key(|tried| change(tried).size()).or(all.first())?.clone();
        let mut limitations = replay.limitations(&tried.setting.policy, capacity);
        limitations.extend(replay.guesses_limit().then_some(ReplayLimitation::GuessedLimit));
        let fits = tried.outcome.fits();
        let nearest = if fits { None } else { replay.nearest(settings, capacity, &|| {}).ok()? };
        let room = capacity.total.saturating_sub(capacity.overhead);
        let left = room.saturating_sub(tried.outcome.reserved_at_end());
        let more_steps = growth.filter(|&growth| fits && growth > 0).map(|growth| left / growth);
        let change = change(&tried);
        let peak_reserved = tried.outcome.statistics.reserved.peak;
        let conf = tried.setting.conf;
        Some(Self { conf, fits, peak_reserved, change, of, more_steps, nearest, recommended, limitations })
    }
}

/// Other settings under which a run without a failed request reserves clearly less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LessReserved {
    /// The change of the recorded settings.
    pub change: SettingChange,
    /// The peak of reserved bytes in the replay with this change.
    pub peak_reserved: u64,
    /// Whether the replay is exact.
    pub is_exact: bool,
}

/// A run wastes memory if its peak of reserved bytes exceeds that of allocated bytes by at least this many bytes, and by one of this many parts.
const LEAST_WASTE: (u64, u64) = (512 << 20, 4);

/// Other settings must save at least one of this many parts.
const LEAST_SAVED_PART: u64 = 10;

impl LessReserved {
    /// Replays without each recorded setting, and with expandable segments, if the run reserved far more than it allocated. `None` if none
    /// of them reserves clearly less.
    pub(crate) fn of(replay: &Replay<'_>, allocated: u64, reserved: u64) -> Option<Self> {
        if !Self::wastes(allocated, reserved) {
            return None;
        }
        let recorded = replay.history.trace().settings.clone().unwrap_or_default();
        let recorded_conf = replay.recorded_setting().conf;
        let peak = |setting: Setting| {
            let change = SettingChange::between(&recorded_conf, &setting.conf);
            if !matches!(change.add.as_slice(), [] | [_]) || change.add.iter().any(|item| item != EXPANDABLE)
            {
                return None;
            }
            let outcome = replay.under(&setting.policy, ReplayDevice::Recorded).ok()?;
            let is_exact = replay.limitations(&setting.policy, ReplayDevice::Recorded).is_empty();
            let peak_reserved = outcome.statistics.reserved.peak;
            outcome.fits().then_some(Self { change, peak_reserved, is_exact })
        };
        let tried = useful_settings(&recorded, &replay.policy, None).into_iter().filter_map(peak);
        let best = tried
            .min_by(|a, b| (a.peak_reserved, a.change.size()).cmp(&(b.peak_reserved, b.change.size())))?;
        (best.peak_reserved <= reserved - reserved / LEAST_SAVED_PART).then_some(best)
    }

    /// Whether a run reserved far more than it allocated.
    pub(crate) fn wastes(allocated: u64, reserved: u64) -> bool {
        let free = reserved.saturating_sub(allocated);
        free >= LEAST_WASTE.0 && free >= reserved / LEAST_WASTE.1
    }
}

/// The setting that most often helps.
const EXPANDABLE: &str = "expandable_segments:True";

/// Returns the effect of the setting that PyTorch's error text recommends; `tried` contains it, added to the recorded ones.
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
    /// Whether no request of the replay failed.
    pub fn fits(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the bytes reserved when the replay ended.
    fn reserved_at_end(&self) -> u64 {
        self.reserved.last().map_or(0, |&(_, reserved)| reserved)
    }

    /// Returns the bytes reserved after an event.
    pub(crate) fn reserved_after(&self, event: usize) -> u64 {
        let later = self.reserved.partition_point(|&(at, _)| at <= event);
        later.checked_sub(1).map_or(0, |last| self.reserved[last].1)
    }

    /// Returns a sort key; smaller is better. Outcomes that fit come first, then those that get furthest, then those that release
    /// their cache least often (releases mean that the device is full), then those that reserve least, then those that allocate
    /// from the device least often.
    pub fn rank(&self) -> impl Ord + use<> {
        let s = &self.statistics;
        let got_to = self.failure.map_or(usize::MAX, |f| f.event);
        (!self.fits(), std::cmp::Reverse(got_to), s.num_alloc_retries, s.reserved.peak, s.num_device_alloc)
    }
}

/// Sorts by [`Outcome::rank`]; among equals, the shorter text comes first.
pub(super) fn best_first(tried: &mut [Tried]) {
    tried.sort_by_cached_key(|t| (t.outcome.rank(), t.setting.conf.len(), t.setting.conf.clone()));
}

impl Replay<'_> {
    /// Returns the recorded capacity, if the replay fails on it under the recorded settings. If it fits, the replay lacks the reason
    /// why the run failed, and the success of other settings shows nothing.
    pub(crate) fn failing_capacity(&self) -> Option<Capacity> {
        let capacity = self.recorded_capacity()?;
        (!self.under(&self.policy, capacity).ok()?.fits()).then_some(capacity)
    }

    /// Replays under each of `settings`, on as many threads as there are cores, and returns the outcomes, best first. `done` is
    /// called after each replay, on any thread.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub(crate) fn try_settings(
        &self,
        settings: Vec<Setting>,
        device: impl Into<ReplayDevice>,
        done: &(dyn Fn() + Sync),
    ) -> Result<Vec<Tried>, ReplayError> {
        let device = device.into();
        // Settings that are equivalent for this recording are replayed once.
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

    /// For settings under which the recording does not fit on a device of `capacity`, returns the one that needs the least
    /// memory, with the missing bytes. Returns `None` if none is found to fit on a larger device. `done` is called for each
    /// replay.
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
            // A limit by fraction leaves less than the whole device.
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

    /// Returns the size in bytes of a device larger than `capacity` on which the recording fits under its own settings, with the
    /// outcome. It is the smallest one on which the cache need not be released. Returns `None` if the recording fits on no
    /// device, or on `capacity`.
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

    /// Returns the known GPU with the least memory of its own on which the recording fits under `policy`. The allocator cannot
    /// use `overhead` bytes of each GPU; if `overhead` is 0, the largest size of a CUDA context is used. `done` is called for
    /// each replay.
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
        for (gpu, overhead) in gpus::with_room_for(needed, overhead) {
            done();
            let outcome = self.under(policy, Capacity { total: gpu.total_bytes, overhead })?;
            if outcome.fits() {
                return Ok(Some(FittingGpu { gpu, overhead, outcome }));
            }
        }
        Ok(None)
    }

    /// Returns the smallest device, in whole pages of 2 MiB, on which the recording fits under `policy` with `overhead` unusable
    /// bytes. It is found by bisection, so a still smaller device might fit by chance: a recording that fits on a device does not
    /// always fit on every larger one. `done` is called for each replay.
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
            // A limit by fraction leaves less than the whole device; a segment of odd size takes more pages.
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
