//! Events in a range.

use serde::Serialize;
use vramscope_analysis::Moment;

use crate::questions::columns::{Columns, F64s, NONE, Reply, U8s, U32s, stack};
use crate::questions::device::OpenDevice;
use crate::questions::tables::action;

/// The maximum number of events in one answer.
const MOST_EVENTS: usize = 100_000;

/// A range of events, in order.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Events {
    /// The index of the first event.
    pub(crate) first: usize,
    /// A position in `ACTIONS`.
    pub(crate) action: U8s,
    pub(crate) address: F64s,
    pub(crate) bytes: F64s,
    /// NaN if no time was recorded.
    pub(crate) time_us: F64s,
    pub(crate) stack: U32s,
    pub(crate) tags: U32s,
    /// The allocation that the event starts or frees.
    pub(crate) allocation: U32s,
}

impl OpenDevice {
    pub(crate) fn events(&self, first: usize, count: usize) -> Reply<Events> {
        let history = self.history();
        let all = &history.device().events;
        let first = first.min(all.len());
        let numbers = first..first.saturating_add(count.min(MOST_EVENTS)).min(all.len());
        let events = || numbers.clone().map(|i| all.get(i));
        // Times are sent only if all events have one, as for the time axis.
        let origin = self.timeline.duration().and_then(|_| all.get(0).time_us);
        let time = |t: Option<i64>| t.zip(origin).map_or(f64::NAN, |(t, o)| t.saturating_sub(o) as f64);
        Columns::answer(|columns| Events {
            first,
            action: columns.u8(events().map(|e| action(e.action))),
            address: columns.sizes(events().map(|e| e.address_or_free)),
            bytes: columns.sizes(events().map(|e| e.size)),
            time_us: columns.f64(events().map(|e| time(e.time_us))),
            stack: columns.u32(events().map(|e| stack(e.stack))),
            tags: columns.u32(numbers.clone().map(|i| self.tags_of_event(i))),
            allocation: columns
                .u32(numbers.clone().map(|i| history.subject_number(i).map_or(NONE, |id| id as u32))),
        })
    }

    /// The tags of an event. An event that starts an allocation gets the allocation's tags, which may include the pool.
    pub(crate) fn tags_of_event(&self, event: usize) -> u32 {
        let history = self.history();
        match history.subject_number(event) {
            Some(id) if history.allocations[id].from == Moment::after(event) => self.tags.allocations[id],
            _ => history.device().events.get(event).tags.index() as u32,
        }
    }
}
