//! The allocator's state after one event.

use std::sync::Arc;

use serde::Deserialize;
use vramscope_analysis::{By, Cancel, Counters, History, Holder, Layout, Moment, When, holders_at};
use vramscope_trace::Event;

use crate::error::Result;
use crate::session::Session;
use crate::values;

/// A question for the state of one device after an event.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StateRequest {
    /// The device; required if several were used
    #[serde(default)]
    pub device: Option<i64>,
    /// The event index, from 0, or `end` for the last event; the answer is the state after this event
    #[serde(alias = "event", deserialize_with = "values::in_json_given_when")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::when"))]
    pub at: When,
    /// The key to group live allocations by; default: "line", the line of user code
    #[cfg_attr(feature = "schema", schemars(schema_with = "values::schema::by"))]
    #[serde(default, deserialize_with = "values::in_json_by")]
    pub by: Option<By>,
    /// Limit on the rows of each list
    #[serde(default, alias = "rows")]
    pub top: Option<usize>,
}

/// The state of one device after an event.
#[derive(Debug)]
pub struct StateAnswer {
    /// The history of the device.
    pub history: Arc<History>,
    /// The event's index.
    pub index: usize,
    /// The event.
    pub event: Event,
    /// The four counters after it.
    pub counters: Counters,
    /// The number of live allocations.
    pub live_allocations: usize,
    /// The number of free blocks.
    pub free_blocks: usize,
    /// The bytes of the largest free block.
    pub largest_free_block: Option<u64>,
    /// Groups of live allocations by the requested key, by pool and by stream; each most bytes first.
    pub holders: Vec<Holder>,
    /// By pool.
    pub pools: Vec<Holder>,
    /// By stream.
    pub streams: Vec<Holder>,
}

impl Session {
    /// The state of one device after an event.
    ///
    /// # Errors
    /// There is no such device or event, or the request was cancelled.
    pub fn state_after(&self, request: &StateRequest, cancel: &Cancel) -> Result<StateAnswer> {
        let position = self.device(request.device)?;
        let index = match request.at {
            When::After(event) => event,
            When::End => self.trace().devices[position].events.len().saturating_sub(1),
        };
        self.check_event(&[position], Some(index))?;
        let history = self.history(position, cancel)?;
        let moment = Moment::after(index);
        let layout = Layout::at(&history, moment);
        let free = layout.free_blocks();
        let held = |by| holders_at(&history, self.frames(), moment, by);
        Ok(StateAnswer {
            index,
            event: history.device().events.get(index),
            counters: layout.counters(),
            live_allocations: layout.allocated().count(),
            free_blocks: free.len(),
            largest_free_block: free.iter().map(|block| block.size).max(),
            holders: held(request.by.unwrap_or(By::Line)),
            pools: held(By::Pool),
            streams: held(By::Stream),
            history,
        })
    }
}
