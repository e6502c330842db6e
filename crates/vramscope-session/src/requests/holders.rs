//! The holders of live memory, in groups.

use regex::Regex;
use serde::Deserialize;
use vramscope_analysis::{By, Cancel, Holder, When, holders_at};

use super::report::ReportRequest;
use crate::error::Result;
use crate::session::Session;
use crate::values;

/// A question for the groups of live allocations of one device.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HoldersRequest {
    /// The device; required if several were used
    pub device: Option<i64>,
    /// The allocations live after the event with this index (from 0), or at the `end`; default: at the peak of allocated bytes
    #[serde(alias = "event", deserialize_with = "values::in_json_when")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::number_or_text"))]
    pub at: Option<When>,
    /// The key to group live allocations by; default: "line", the line of user code
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::by"))]
    #[serde(deserialize_with = "values::in_json_by")]
    pub by: Option<By>,
    /// Keep only stacks with a frame that matches this regular expression, as `file:line function`
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(deserialize_with = "values::in_json_filter")]
    pub filter: Option<Regex>,
    /// Limit on the rows
    #[serde(alias = "rows")]
    pub top: Option<usize>,
}

/// The groups of live allocations of one device.
#[derive(Debug)]
pub struct GroupsAnswer {
    /// The device index.
    pub device: i64,
    /// The event; `None` before the first event.
    pub event: Option<usize>,
    /// The grouping.
    pub by: By,
    /// All groups, most bytes first. Without a filter, their sum is all allocated bytes.
    pub holders: Vec<Holder>,
}

impl Session {
    /// Groups the live allocations of one device.
    ///
    /// # Errors
    /// There is no such device or event, or the request was cancelled.
    pub fn holders(&self, request: &HoldersRequest, cancel: &Cancel) -> Result<GroupsAnswer> {
        let position = self.device(request.device)?;
        self.check_moment(&[position], request.at)?;
        let by = request.by.unwrap_or(By::Line);
        let history = self.history(position, cancel)?;
        let moment = request.at.map_or_else(|| history.peaks().allocated.moment, |when| history.moment(when));
        let holders = match &request.filter {
            None => holders_at(&history, self.frames(), moment, by),
            // The summary applies filters.
            Some(filter) => {
                let report =
                    ReportRequest { by: Some(by), filter: Some(filter.clone()), ..ReportRequest::default() };
                self.summary(position, &report.options(moment.event().map(When::After)), cancel)?.holders
            }
        };
        Ok(GroupsAnswer { device: self.number(position), event: moment.event(), by, holders })
    }
}
