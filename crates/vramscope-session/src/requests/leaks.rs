//! Lines that are suspected of a leak.

use serde::Deserialize;
use vramscope_analysis::{AllocationCategories, Cancel, LeakSuspect, Steps, leak_suspects};

use crate::error::Result;
use crate::session::Session;

/// A question for the lines of one device that are suspected of a leak.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LeaksRequest {
    /// The device; required if several were used
    pub device: Option<i64>,
    /// Limit on the rows
    #[serde(alias = "rows")]
    pub top: Option<usize>,
}

impl Session {
    /// The suspects on one device, most bytes first, and the device's index.
    ///
    /// # Errors
    /// There is no such device, or the request was cancelled.
    pub fn leaks(&self, request: &LeaksRequest, cancel: &Cancel) -> Result<(i64, Vec<LeakSuspect>)> {
        let position = self.device(request.device)?;
        let history = self.history(position, cancel)?;
        let mut leaks = leak_suspects(&history, self.frames());
        if !leaks.is_empty() {
            Steps::of(&history, &AllocationCategories::of(&history)).measure_leaks(&history, &mut leaks);
        }
        Ok((self.number(position), leaks))
    }
}
