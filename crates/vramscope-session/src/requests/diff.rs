//! The comparison of two recordings.

use serde::Deserialize;
use vramscope_analysis::{
    AllocationCategories, Both, Cancel, ComparedPart, DeviceDiff, DeviceHistory, Difference, History, Side,
    Steps, changed_settings,
};
use vramscope_report::DiffAnswers;

use crate::error::{Result, SessionError};
use crate::session::Session;
use crate::values;

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
    /// Bytes that the change from A to B should free, as 2GiB: state how much of it is free at the peaks and at the end
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[cfg_attr(test, ts(as = "Option<u64>"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub promised: Option<u64>,
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
        let in_other = |&at: &usize| used.b.iter().copied().find(|&b| other.number(b) == self.number(at));
        let both = used.a.iter().filter_map(|at| Some(Both { a: (self, *at), b: (other, in_other(at)?) }));
        let compare = |devices| {
            compared(devices, request, cancel, |devices, parts| DeviceDiff::of(devices, parts, cancel))?
                .ok_or(SessionError::Cancelled)
        };
        let devices = both.map(compare).collect::<Result<_>>()?;
        let numbers = Both {
            a: used.a.iter().map(|&at| self.number(at)).collect::<Vec<i64>>(),
            b: used.b.iter().map(|&at| other.number(at)).collect(),
        };
        let only = |side: Side| {
            let others = numbers.of(side.other());
            numbers.of(side).iter().copied().filter(|number| !others.contains(number)).collect()
        };
        Ok(DiffAnswers {
            recordings: sessions.map(|session| session.compared()),
            devices,
            only: Both { a: only(Side::A), b: only(Side::B) },
            settings: changed_settings(sessions.map(|session| &**session.trace())),
            at: request.at(),
            promised: request.promised,
            advice: *self.advice(),
        })
    }

    /// The requested step of a device; `None` for the whole recording.
    ///
    /// # Errors
    /// The device has no such step.
    fn part(&self, history: &History, request: &DiffRequest) -> Result<Option<ComparedPart>> {
        let Some(step) = request.at_step else { return Ok(None) };
        let refused = |why: String| Err(SessionError::Argument(format!("{}: {why}", self.name())));
        let steps = Steps::of(history, &AllocationCategories::of(history)).steps;
        let device = history.device().device;
        let chosen = (step as usize).checked_sub(1).and_then(|index| steps.get(index));
        match (chosen, steps.len()) {
            (Some(chosen), _) => Ok(Some(ComparedPart::from(chosen))),
            (None, 0) => {
                let option = self.advice().option("at-step");
                refused(format!("no steps were found on device {device}; omit {option}"))
            }
            (None, known) => refused(format!("device {device} has {known} steps; there is no step {step}")),
        }
    }
}

/// Calls `compare` with the histories and the requested parts of two devices, each given by its session and its position.
fn compared<R>(
    devices: Both<(&Session, usize)>,
    request: &DiffRequest,
    cancel: &Cancel,
    compare: impl FnOnce(Both<DeviceHistory<'_>>, Both<Option<ComparedPart>>) -> R,
) -> Result<R> {
    let history = |side: Side| devices.of(side).0.history(devices.of(side).1, cancel);
    let histories = Both { a: history(Side::A)?, b: history(Side::B)? };
    let part = |side: Side| devices.of(side).0.part(histories.of(side), request);
    let parts = Both { a: part(Side::A)?, b: part(Side::B)? };
    let of = |side: Side| DeviceHistory { history: histories.of(side), frames: devices.of(side).0.frames() };
    Ok(compare(Both { a: of(Side::A), b: of(Side::B) }, parts))
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
    compared(devices, request, cancel, |devices, parts| {
        Difference::of(devices, parts.map(|part| part.map(|part| part.at)))
    })
}
