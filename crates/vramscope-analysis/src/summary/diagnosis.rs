//! Diagnosis of an out-of-memory event beyond the allocator's state: leaks, replays without single settings, and remedies.

use serde::{Deserialize, Serialize};

use super::unsplit::unsplit_growth;
use crate::findings::{
    AllocatorFinding, Certainty, IneffectiveAdvice, LeakSuspect, OWN_CONTEXT, OomCause, OomCauseKind,
    OomExplanation, held_checkpoint, retained,
};
use crate::history::{History, Moment, Peaks};
use crate::replay::{BestSetting, Capacity, LessReserved, Nearest, Outcome, Recommended, Replay};
use crate::stacks::Frames;
use crate::steps::Steps;
use vramscope_basics::{Cancel, count_steps};

/// A change, other than of settings, that makes a run fit, with the peak of reserved bytes in a replay of that change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The device without the limit on reserved bytes.
    WithoutLimit(u64),
    /// A device on which most of the memory outside the allocator is free.
    WithoutOutside(u64),
    /// All requests use the default pool.
    WithoutPools(u64),
    /// No freed block waits for another stream.
    WithoutWaiting(u64),
    /// A larger device.
    LargerDevice(Nearest, u64),
}

/// Findings about a recording and its out-of-memory events that go beyond the allocator's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diagnosis {
    pub(crate) best_setting: Option<BestSetting>,
    pub(crate) remedy: Option<Remedy>,
    pub(crate) findings: Vec<AllocatorFinding>,
    pub(crate) less_reserved: Option<LessReserved>,
}

impl Diagnosis {
    /// Weighs leaks in all of `ooms`, and replays the first one without single settings. `growth` is the number of bytes that the
    /// program gains per step. Without an out of memory, only settings that often cost memory are replayed.
    pub(crate) fn of(
        history: &History,
        frames: &Frames,
        ooms: &mut [OomExplanation],
        leaks: &[LeakSuspect],
        peaks: &Peaks,
        growth: Option<u64>,
        cancel: &Cancel,
    ) -> Self {
        let retained = retained(history, leaks);
        for oom in &mut *ooms {
            weigh_growth(oom, growth);
            weigh_leaks(history, oom, leaks, &retained);
            weigh_checkpoint(history, frames, oom);
        }
        let policy = &history.policy;
        let has_setting = policy.max_split_size.is_some() && policy.release().is_some();
        let (allocated, reserved) = (peaks.allocated.bytes, peaks.reserved.bytes);
        if ooms.is_empty() && !has_setting && !LessReserved::wastes(allocated, reserved) {
            return Self::default();
        }
        let Ok(replay) = Replay::of_unless(history, cancel) else { return Self::default() };
        let mut findings: Vec<AllocatorFinding> =
            unsplit_growth(history, &replay).map(AllocatorFinding::UnsplitGrowth).into_iter().collect();
        let Some(oom) = ooms.first_mut() else {
            let less_reserved = LessReserved::of(&replay, allocated, reserved);
            return Self { findings, less_reserved, ..Self::default() };
        };
        let best_setting = replay.failing_capacity().and_then(|capacity| {
            try_without_settings(&replay, oom, capacity);
            BestSetting::of_replay(&replay, capacity, growth)
        });
        let helps = best_setting.as_ref().map(|best| best.recommended == Recommended::Helps);
        let advice = IneffectiveAdvice::of(&replay.policy, oom, helps);
        findings.extend(advice.map(AllocatorFinding::IneffectiveAdvice));
        Self { best_setting, remedy: remedy(&replay, oom), findings, less_reserved: None }
    }
}

/// Returns the bytes that the program gains per step: the median over all steps except the first and the last. With too few
/// steps, returns the sum of all leaks' growth per step. Returns `None` if the program gains nothing or its growth is unknown.
pub(crate) fn growth_per_step(steps: &Steps, leaks: &[LeakSuspect]) -> Option<u64> {
    let whole = steps.steps.get(1..steps.steps.len().saturating_sub(1)).unwrap_or_default();
    let mut kept: Vec<i64> = whole.iter().map(|step| step.bytes.kept).collect();
    kept.sort_unstable();
    let median =
        kept.get(kept.len() / 2).filter(|_| kept.len() >= 2).and_then(|&kept| u64::try_from(kept).ok());
    let leaked: u64 = leaks.iter().filter_map(|leak| leak.kept_per_step).sum();
    median.or(Some(leaked)).filter(|&growth| growth > 0)
}

/// Adds a loaded checkpoint that is still held, if no line leaks.
fn weigh_checkpoint(history: &History, frames: &Frames, oom: &mut OomExplanation) {
    if oom.causes.all.iter().any(|cause| matches!(cause.kind, OomCauseKind::Leak(_))) {
        return;
    }
    let Some((line, bytes)) = held_checkpoint(history, frames, Moment::after(oom.event)) else { return };
    let is_decisive =
        bytes >= oom.causes.lacking && bytes >= oom.causes.shortage.min(oom.counters.allocated / LEAST_PART);
    oom.causes.add([OomCause::of(OomCauseKind::Leak(line), bytes, is_decisive, Certainty::Likely)]);
}

/// Growth by less than one of this many parts of the bytes needed is not what fills the device.
const LEAST_GROWTH_PART: u64 = 100;

/// Says of memory that rises with every step by how much. If the device is too small by no more than a step adds, the growth is the cause.
fn weigh_growth(oom: &mut OomExplanation, growth: Option<u64>) {
    let bytes = oom.counters.allocated.saturating_add(oom.request.bytes);
    let Some(growth) = growth.filter(|&growth| growth >= bytes / LEAST_GROWTH_PART) else { return };
    let rising = oom.causes.get(OomCauseKind::Rising).copied();
    let too_small = oom.causes.get(OomCauseKind::Size).filter(|size| size.bytes <= growth).copied();
    let Some(cause) = rising.or(too_small) else { return };
    if cause.kind == OomCauseKind::Size {
        oom.causes.put(OomCause { bytes: 0, ..cause });
    }
    let rising = OomCause::of(OomCauseKind::Rising, bytes, true, Certainty::Likely);
    oom.causes.put(OomCause { per_step: Some(growth), ..rising });
}

/// A leak of at least one of this many parts of the allocated bytes decides, even if more was needed.
const LEAST_PART: u64 = 10;

/// Adds each leak as a cause, with the bytes that it held when the request failed. `retained` has the allocations that each leak retains.
fn weigh_leaks(history: &History, oom: &mut OomExplanation, leaks: &[LeakSuspect], retained: &[Vec<usize>]) {
    let (moment, lacking, shortage) = (Moment::after(oom.event), oom.causes.lacking, oom.causes.shortage);
    let allocated = oom.counters.allocated;
    // A leak decides if no place of free blocks has more bytes.
    let others = oom.causes.all.iter().filter(|cause| cause.is_decisive && cause.kind != OomCauseKind::Size);
    let others = others.filter(|cause| cause.kind != OomCauseKind::Rising).map(|cause| cause.bytes);
    let most_of_others = others.max().unwrap_or_default();
    let cause = |(leak, kept): (&LeakSuspect, &Vec<usize>)| {
        count_steps(kept.len());
        let live = kept.iter().map(|&id| &history.allocations[id]).filter(|a| a.is_allocated_at(moment));
        let bytes = live.map(|a| a.size).sum();
        OomCause {
            kind: OomCauseKind::Leak(leak.line),
            bytes,
            is_decisive: bytes >= lacking
                && (bytes >= shortage || bytes >= allocated / LEAST_PART)
                && bytes >= most_of_others,
            certainty: leak.certainty,
            per_step: leak.growth_per_step(),
            per_repetition: Some(leak.kept_per_repetition),
        }
    };
    oom.causes.add(leaks.iter().zip(retained).map(cause));
}

/// Replays without each recorded setting that may have caused the failure, and records whether the request is then served.
fn try_without_settings(replay: &Replay<'_>, oom: &mut OomExplanation, capacity: Capacity) {
    for kind in [OomCauseKind::Rounding, OomCauseKind::Unsplit, OomCauseKind::Collection] {
        let mut policy = replay.policy.clone();
        match kind {
            OomCauseKind::Rounding => policy.roundup_power2_divisions = Default::default(),
            OomCauseKind::Unsplit => policy.max_split_size = None,
            _ => policy.garbage_collection_threshold = None,
        }
        if policy == replay.policy {
            continue;
        }
        let Ok(outcome) = replay.under(&policy, capacity) else { return };
        let is_served = outcome.failure.is_none_or(|failure| failure.event > oom.event);
        let is_decisive = is_served && oom.causes.shortage == 0;
        let bytes = match oom.causes.get(kind) {
            Some(cause) => cause.bytes,
            None if kind == OomCauseKind::Collection && is_decisive => {
                let wanted = replay.policy.segment_size(oom.request.bytes);
                let needed = oom.counters.reserved.saturating_add(wanted);
                needed.saturating_sub(outcome.reserved_after(oom.event))
            }
            None => continue,
        };
        let needed = oom.counters.allocated.saturating_add(oom.request.bytes);
        let is_new = oom.rise.is_some_and(|rise| rise.is_new_maximum(needed));
        let certainty = if is_new { Certainty::Likely } else { Certainty::Shown };
        oom.causes.put(OomCause::of(kind, bytes, is_decisive, certainty));
    }
}

/// Returns the change of the program or its device that removes the main cause, if there is one.
fn remedy(replay: &Replay<'_>, oom: &OomExplanation) -> Option<Remedy> {
    let capacity = replay.recorded_capacity()?;
    let mut policy = replay.policy.clone();
    match oom.causes.main()?.kind {
        OomCauseKind::Limit => {
            policy.memory_fraction = None;
            let outcome = replay.under(&policy, replay.capacity_without_limit()?).ok()?;
            peak_if_it_fits(&outcome).map(Remedy::WithoutLimit)
        }
        OomCauseKind::Outside => {
            let own = Capacity { overhead: capacity.overhead.min(OWN_CONTEXT), ..capacity };
            let outcome = replay.under(&policy, own).ok()?;
            peak_if_it_fits(&outcome).map(Remedy::WithoutOutside)
        }
        OomCauseKind::OtherPool => {
            let outcome = replay.without_private_pools(&policy, capacity).ok()?;
            peak_if_it_fits(&outcome).map(Remedy::WithoutPools)
        }
        OomCauseKind::Pending => {
            let outcome = replay.without_waiting(&policy, capacity).ok()?;
            peak_if_it_fits(&outcome).map(Remedy::WithoutWaiting)
        }
        OomCauseKind::Size | OomCauseKind::Rising => {
            let (needed, outcome) = replay.larger_device(capacity).ok()??;
            let conf = replay.recorded_setting().conf;
            let nearest = Nearest { conf, needed, missing: needed - capacity.total };
            Some(Remedy::LargerDevice(nearest, outcome.statistics.reserved.peak))
        }
        _ => None,
    }
}

/// The peak of reserved bytes, if no request failed.
fn peak_if_it_fits(outcome: &Outcome) -> Option<u64> {
    outcome.fits().then_some(outcome.statistics.reserved.peak)
}
