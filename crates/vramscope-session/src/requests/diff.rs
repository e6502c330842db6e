//! The comparison of two recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use vramscope_analysis::{
    AllocationCategories, Both, Cancel, ComparedHistory, ComparedPart, Devices, Difference, History, Steps,
    changed_settings, diff_devices,
};
use vramscope_report::DiffAnswers;

use crate::error::{Result, SessionError};
use crate::session::Session;

/// A question for the changes from one recording to another.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields = nullable))]
#[serde(default, deny_unknown_fields)]
pub struct DiffRequest {
    /// Only this device
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub device: Option<i64>,
    /// Compare at the peaks of step N (counted from 1) instead of at the peaks of the recordings
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))
    )]
    pub at_step: Option<u32>,
}

impl DiffRequest {
    /// The compared moments, for sentences; `None` for the peaks of the recordings.
    #[must_use]
    pub fn at(&self) -> Option<String> {
        self.at_step.map(|step| format!("At the peak of step {step}"))
    }
}

impl Session {
    /// Compares the requested device or all devices of this recording with those of `other`.
    ///
    /// # Errors
    /// Neither recording used such a device, one has fewer steps, or the request was cancelled.
    pub fn diff<'s>(
        &'s self,
        other: &'s Self,
        request: &DiffRequest,
        cancel: &Cancel,
    ) -> Result<DiffAnswers<'s>> {
        let sessions = Both { a: self, b: other };
        let used = sessions.map(|session| session.used_devices(request.device));
        let used = match used {
            Both { a: Err(error), b: Err(_) } => {
                return Err(SessionError::Argument(error.about(self.name())));
            }
            // A device that only one recording has is part of the answer.
            Both { a, b } => Both { a: a.unwrap_or_default(), b: b.unwrap_or_default() },
        };
        if used.a.is_empty() && used.b.is_empty() {
            let device = request.device.map_or_else(String::new, |n| format!(" on device {n}"));
            return Err(SessionError::Unanswerable(format!(
                "nothing was recorded{device}; there is nothing to compare"
            )));
        }
        let parts =
            Both { a: self.parts(&used.a, request, cancel)?, b: other.parts(&used.b, request, cancel)? };
        let of = Both {
            a: Devices { trace: self.trace(), frames: self.frames(), positions: &used.a },
            b: Devices { trace: other.trace(), frames: other.frames(), positions: &used.b },
        };
        let part = |history: &History| {
            let parts = if Arc::ptr_eq(history.trace(), self.trace()) { &parts.a } else { &parts.b };
            parts.get(&history.position()).copied()
        };
        let (devices, only) = diff_devices(of, &part);
        Ok(DiffAnswers {
            recordings: sessions.map(|session| session.compared()),
            devices,
            only,
            settings: changed_settings(of.map(|of| &**of.trace)),
            at: request.at(),
            advice: *self.advice(),
        })
    }

    /// The requested step of each device, by its position; empty for the whole recordings.
    ///
    /// # Errors
    /// A device has no such step, or the request was cancelled.
    fn parts(
        &self,
        positions: &[usize],
        request: &DiffRequest,
        cancel: &Cancel,
    ) -> Result<BTreeMap<usize, ComparedPart>> {
        let Some(step) = request.at_step else { return Ok(BTreeMap::new()) };
        let refused = |why: String| SessionError::Argument(format!("{}: {why}", self.name()));
        let part = |&position: &usize| {
            let history = self.history(position, cancel)?;
            let steps = Steps::of(&history, &AllocationCategories::of(&history)).steps;
            let device = self.number(position);
            let chosen = (step as usize).checked_sub(1).and_then(|index| steps.get(index));
            match (chosen, steps.len()) {
                (Some(chosen), _) => Ok((position, ComparedPart::from(chosen))),
                (None, 0) => {
                    let option = self.advice().option("at-step");
                    Err(refused(format!("no steps were found on device {device}; omit {option}")))
                }
                (None, known) => {
                    Err(refused(format!("device {device} has {known} steps; there is no step {step}")))
                }
            }
        };
        positions.iter().map(part).collect()
    }
}

/// The difference in live memory between two devices, each given by its session and its position. Their indices may differ.
///
/// # Errors
/// A recording has fewer steps than requested, or the request was cancelled.
pub fn difference(
    devices: Both<(&Session, usize)>,
    request: &DiffRequest,
    cancel: &Cancel,
) -> Result<Difference> {
    let moment = |(session, position): (&Session, usize)| {
        let part = session.parts(&[position], request, cancel)?.remove(&position);
        Ok::<_, SessionError>(part.map(|part| part.at))
    };
    let at = Both { a: moment(devices.a)?, b: moment(devices.b)? };
    let [a, b] = [devices.a, devices.b].map(|(session, position)| session.history(position, cancel));
    let (a, b) = (a?, b?);
    Ok(Difference::of(Both {
        a: ComparedHistory { history: &a, frames: devices.a.0.frames(), at: at.a },
        b: ComparedHistory { history: &b, frames: devices.b.0.frames(), at: at.b },
    }))
}
