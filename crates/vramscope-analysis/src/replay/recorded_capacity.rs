//! How much memory the recorded allocator had, as far as the recording shows it.

use vramscope_trace::Action;

use super::capacity::Capacity;
use super::runs::Replay;
use crate::moment::Moment;
use crate::out_of_memory::is_at_limit;

impl Replay<'_> {
    /// How much memory the recorded allocator could have: what it held and what the device had free when it
    /// first ran out; `None` where it never did.
    pub fn recorded_capacity(&self) -> Option<Capacity> {
        if self.skipped.segments() {
            // What was reserved then is not known.
            return None;
        }
        let events = &self.history.device().events;
        let event = events.actions().iter().position(|&a| a == Action::Oom)?;
        let oom = events.get(event);
        let reserved = self.history.counters_at(Moment::after(event)).reserved;
        if !self.ran_into_limit() {
            return Some(Capacity { total: reserved.saturating_add(oom.address), overhead: 0 });
        }
        // The limit was at least what was reserved.
        let total = match self.policy.memory_fraction.filter(|&fraction| fraction > 0.0) {
            Some(fraction) => (reserved as f64 / fraction).ceil() as u64 + 1,
            None => reserved,
        };
        Some(Capacity { total, overhead: 0 })
    }

    /// The recording first ran out of memory at a limit on reserved bytes: the device had more than was asked for.
    pub(super) fn ran_into_limit(&self) -> bool {
        let events = &self.history.device().events;
        let first = events.actions().iter().position(|&a| a == Action::Oom).map(|event| events.get(event));
        first.is_some_and(|oom| is_at_limit(&self.policy, oom.size, oom.address))
    }
}
