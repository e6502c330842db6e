//! Budgets of a recording.

use serde::Deserialize;
use vramscope_analysis::{Budget, BudgetCheck, ByteKind, Cancel, DeviceHistory, Growth};
use vramscope_report::CheckAnswers;
use vramscope_trace::Category;

use crate::error::{Result, SessionError};
use crate::session::Session;
use crate::values;

/// A question whether a recording keeps budgets.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CheckRequest {
    /// Limit on the peak of allocated bytes of each device, as 40GiB or in bytes
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub max_peak: Option<u64>,
    /// Limit on the peak of reserved bytes of each device
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "SIZE", value_parser = values::size, allow_hyphen_values = true)
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub max_reserved: Option<u64>,
    /// Limits on the peaks of categories, each as activation=20GiB
    #[cfg_attr(
        feature = "command",
        arg(
            long,
            value_name = "CATEGORY=SIZE",
            value_parser = values::category_limit,
            help = "Limit on the peak of one category, as activation=20GiB; may be given several times"
        )
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    #[serde(deserialize_with = "values::in_json_limits")]
    pub max_category: Vec<(Category, u64)>,
    /// Allowed growth over the baseline, as 64MiB or 5% [default: 0]
    #[cfg_attr(
        feature = "command",
        arg(
            long,
            value_name = "SIZE|PERCENT",
            value_parser = values::growth,
            requires = "baseline",
            allow_hyphen_values = true
        )
    )]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    #[serde(deserialize_with = "values::in_json_growth")]
    pub max_growth: Option<Growth>,
    /// Fail if a line is suspected of a leak
    #[cfg_attr(feature = "command", arg(long))]
    pub no_leaks: bool,
    /// Fail if a request ran out of memory
    #[cfg_attr(feature = "command", arg(long))]
    pub no_oom: bool,
    /// Only this device
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub device: Option<i64>,
}

impl CheckRequest {
    /// The budgets, in the order of the arguments.
    fn budgets(&self, has_baseline: bool) -> Vec<Budget> {
        let growth = has_baseline.then(|| self.max_growth.unwrap_or(Growth::Bytes(0)));
        let asked = [
            self.max_peak.map(|limit| Budget::Peak(ByteKind::Allocated, limit)),
            self.max_reserved.map(|limit| Budget::Peak(ByteKind::Reserved, limit)),
            growth.map(|growth| Budget::Growth(ByteKind::Allocated, growth)),
            growth.map(|growth| Budget::Growth(ByteKind::Reserved, growth)),
            self.no_leaks.then_some(Budget::NoLeaks),
            self.no_oom.then_some(Budget::NoOoms),
        ];
        let categories = self.max_category.iter().map(|&(category, limit)| Budget::Category(category, limit));
        asked.into_iter().flatten().chain(categories).collect()
    }
}

impl Session {
    /// Checks the requested device or all devices, also against the peaks of `baseline` if it is given.
    ///
    /// # Errors
    /// No budget is given, there is no such device, nothing was recorded, or the request was cancelled.
    pub fn check<'s>(
        &'s self,
        request: &CheckRequest,
        baseline: Option<&'s Self>,
        cancel: &Cancel,
    ) -> Result<CheckAnswers<'s>> {
        if request.max_growth.is_some() && baseline.is_none() {
            let growth = self.advice().option("max-growth");
            return Err(SessionError::Argument(format!(
                "{growth} limits the growth over a baseline: give one"
            )));
        }
        let budgets = request.budgets(baseline.is_some());
        if budgets.is_empty() {
            let options = ["max-peak", "max-reserved", "max-category", "no-leaks", "no-oom"];
            let options = options.map(|name| self.advice().option(name)).join(", ");
            return Err(SessionError::Argument(format!("nothing to check: give {options} or a baseline")));
        }
        let mut positions = self.devices(request.device)?;
        if request.device.is_none() {
            // Budgets are about device memory, unless the host is named.
            positions.retain(|&position| !self.trace().devices[position].is_host());
        }
        let devices = &self.trace().devices;
        if !positions.iter().any(|&position| devices[position].was_used()) {
            let asked = request.device.map_or_else(|| "any device".to_owned(), |n| format!("device {n}"));
            return Err(SessionError::Unanswerable(format!(
                "nothing was recorded on {asked}; there is nothing to check"
            )));
        }
        let check = |&position: &usize| {
            let number = self.number(position);
            let known = baseline.and_then(|old| {
                let position = old.trace().devices.iter().position(|d| d.device == number)?;
                Some(old.history(position, cancel).map(|history| (history, old.frames())))
            });
            let known = known.transpose()?;
            let before = known.as_ref().map(|(history, frames)| DeviceHistory { history, frames });
            let history = self.history(position, cancel)?;
            let device = DeviceHistory { history: &history, frames: self.frames() };
            BudgetCheck::of(device, before, &budgets, cancel).ok_or(SessionError::Cancelled)
        };
        let only_in_baseline = baseline
            .iter()
            .flat_map(|old| &old.trace().devices)
            .filter(|d| request.device.is_none() && d.was_used() && !d.is_host())
            .map(|d| d.device)
            .filter(|number| devices.iter().all(|d| d.device != *number));
        Ok(CheckAnswers {
            file: self.name(),
            recording: self.recording(),
            frames: self.frames(),
            baseline: baseline.map(Self::name),
            only_in_baseline: only_in_baseline.collect(),
            devices: positions.iter().map(check).collect::<Result<_>>()?,
            advice: *self.advice(),
        })
    }
}
