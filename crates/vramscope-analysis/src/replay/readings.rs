//! Finds the interpretation of an incomplete recording that reproduces most of it.

use std::sync::Arc;

use vramscope_engine::{Allocator, Policy};
use vramscope_trace::AllocatorSettings;

use super::capacity::ReplayDevice;
use super::error::{MOST_ARENAS, ReplayError};
use super::first_difference::ReplayDifference;
use super::first_use::FirstUses;
use super::program::{Program, Reading, Readings};
use super::reach::Reach;
use super::run::Outcome;
use super::runs::{Replay, Reproduction};
use super::start::Start;
use crate::history::History;
use vramscope_basics::Cancel;

/// The largest number of requests that are interpreted in a less likely way.
const MOST_AMBIGUOUS: usize = 16;

/// Fails if the allocator's rules are unknown.
fn check_rules(history: &History) -> Result<(), ReplayError> {
    match history.policy.allocator {
        Allocator::Other(other) => Err(ReplayError::UnknownRules(other)),
        Allocator::TorchHost => {
            let settings =
                history.trace().settings.as_ref().map(AllocatorSettings::in_force).unwrap_or_default();
            let is_limit = |setting: Option<i64>| setting.is_some_and(|bytes| bytes >= 0);
            let limited = is_limit(settings.max_round_threshold) || is_limit(settings.max_cached_size);
            if limited { Err(ReplayError::HostLimits) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

impl<'h> Replay<'h> {
    /// Replays the recording of `history`.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn of(history: &'h History) -> Result<Self, ReplayError> {
        Self::of_unless(history, &Cancel::default())
    }

    /// Like [`of`](Self::of), but can be cancelled; this also applies to further replays with the result.
    pub(crate) fn of_unless(history: &'h History, cancel: &Cancel) -> Result<Self, ReplayError> {
        check_rules(history)?;
        let program = Arc::new(Program::of(history, &Readings::new()));
        let mut best = Self::reproducing(history, &history.policy, Arc::clone(&program), cancel)?;
        if best.gets_to() < usize::MAX
            && let Some(release) = history.policy.release()
        {
            let policy = history.policy.in_order_of(release.of_other_order());
            let other = Self::reproducing(history, &policy, program, cancel)?;
            if other.gets_to() == usize::MAX {
                best = other;
            }
        }
        best.checked()
    }

    /// Like [`of_unless`](Self::of_unless), but only with the rules of the history, whose release is known.
    pub(super) fn of_known_release_unless(
        history: &'h History,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        check_rules(history)?;
        let program = Arc::new(Program::of(history, &Readings::new()));
        Self::reproducing(history, &history.policy, program, cancel)?.checked()
    }

    /// If the replay diverges from the recording: tries whether segments were allocated at their first use without recorded
    /// events. If events were left out, replays the requests alone.
    fn checked(mut self) -> Result<Self, ReplayError> {
        if self.gets_to() < usize::MAX
            && !self.skipped.segments()
            && let Some(mut other) = self.with_first_uses()?
        {
            other.skipped.set_growth(&self.policy, true);
            return Ok(other);
        }
        if self.gets_to() < usize::MAX && self.history.reserved.is_empty() {
            // All allocations were in some segment.
            self.skipped.set_growth(&self.policy, true);
        }
        if self.is_unchecked() {
            let (run, finished) = self.run(&self.policy, ReplayDevice::Recorded, false)?;
            self.reproduction.outcome = run.outcome(!finished);
        } else if matches!(self.reproduction.first_difference, Some(ReplayDifference::Event { .. })) {
            self.reproduction = self.reproduce(false)?;
        }
        Ok(self)
    }

    /// Returns the interpretation in which all segments, or as few as possible, were allocated at their first use, if it
    /// reproduces the recording.
    fn with_first_uses(&self) -> Result<Option<Self>, ReplayError> {
        let all = FirstUses::of(self.history);
        if all.is_empty() {
            return Ok(None);
        }
        let program = Arc::new(Program::of(self.history, &Readings::new()));
        let read = |uses: &FirstUses| {
            Self::reading(self.history, &self.policy, Arc::clone(&program), uses.clone(), &self.cancel)
        };
        let mut reading = read(&all)?;
        let mut some = FirstUses::default();
        let mut place = self.gets_to();
        let mut too_early = all.used_later(self.history, self.reproduction.first_difference);
        for _ in 0..MOST_AMBIGUOUS {
            if reading.gets_to() == usize::MAX {
                return Ok(Some(reading));
            }
            let Some((address, event)) = too_early else { break };
            some.insert(address, event);
            reading = read(&some)?;
            if reading.gets_to() <= place {
                break;
            }
            place = reading.gets_to();
            too_early = all.used_later(self.history, reading.reproduction.first_difference);
        }
        Ok(Some(reading).filter(|reading| reading.gets_to() == usize::MAX))
    }

    /// Returns the interpretation that reproduces most of the recording. Requests are reinterpreted, starting with the last one
    /// before the first difference, as long as the replay then gets further. `program` is the likely interpretation.
    fn reproducing(
        history: &'h History,
        policy: &Policy,
        program: Arc<Program>,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        let mut readings = Readings::new();
        let mut best = Self::reading(history, policy, program, FirstUses::default(), cancel)?;
        for _ in 0..MOST_AMBIGUOUS {
            let place = best.gets_to();
            let before = |&&request: &&u32| request as usize <= place;
            let last = best.program.ambiguous.iter().rev().find(before).copied();
            let Some(request) = last.filter(|r| place < usize::MAX && !readings.contains_key(r)) else {
                break;
            };
            let mut further = None;
            for other in Reading::OTHERS {
                readings.insert(request, other);
                let program = Arc::new(Program::of(history, &readings));
                let reading = Self::reading(history, policy, program, FirstUses::default(), cancel)?;
                if reading.gets_to() > place {
                    further = Some(reading);
                    break;
                }
            }
            let Some(further) = further else { break };
            best = further;
        }
        Ok(best)
    }

    /// Returns the event at which the replay diverges from the recording; `usize::MAX` if it does not.
    fn gets_to(&self) -> usize {
        match self.reproduction.first_difference {
            None => usize::MAX,
            Some(ReplayDifference::Event { event, .. }) => event,
            Some(ReplayDifference::EndState { .. }) => self.history.device().events.len(),
        }
    }

    /// Builds one interpretation and replays it as far as it agrees with the recording.
    fn reading(
        history: &'h History,
        policy: &Policy,
        program: Arc<Program>,
        first_uses: FirstUses,
        cancel: &Cancel,
    ) -> Result<Self, ReplayError> {
        if program.arenas.len() > MOST_ARENAS {
            return Err(ReplayError::TooManyArenas(program.arenas.len()));
        }
        let start = Start::of(history, &program, &first_uses);
        let reproduction = Reproduction {
            outcome: Outcome::default(),
            first_difference: None,
            compared_end: false,
            sizes: Vec::new(),
        };
        let cancel = cancel.clone();
        let (policy, skipped) = (policy.clone(), history.quality.missing.skipped);
        let reach = Reach::of(history, &program);
        let mut this =
            Self { history, cancel, program, start, first_uses, skipped, reach, policy, reproduction };
        this.reproduction = this.reproduce(true)?;
        Ok(this)
    }
}
