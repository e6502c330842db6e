//! The memory that the recorded allocator could use, as far as the recording shows it.

use vramscope_trace::Action;

use super::capacity::Capacity;
use super::runs::Replay;
use crate::findings::is_at_limit;
use crate::history::Moment;

impl Replay<'_> {
    /// Returns the capacity of the recorded device: the bytes that the allocator had reserved plus the device's free bytes when
    /// it first ran out of memory. Returns `None` if it never did. If the recording contains the device's size, `overhead` is the
    /// rest of it.
    pub fn recorded_capacity(&self) -> Option<Capacity> {
        if self.skipped.segments() {
            // The reserved bytes at that moment are unknown.
            return None;
        }
        let (reserved, free) = self.at_first_failure()?;
        let total = self.history.device().total_bytes;
        let whole = total.filter(|&total| total >= reserved.saturating_add(free));
        let fraction = self.policy.memory_fraction.filter(|&fraction| fraction > 0.0);
        if !self.ran_into_limit() || (fraction.is_some() && whole.is_some()) {
            return Some(device_of(whole, reserved, free));
        }
        // The limit was at least the reserved bytes.
        let total = match fraction {
            Some(fraction) => (reserved as f64 / fraction).ceil() as u64 + 1,
            None => reserved,
        };
        Some(Capacity { total, overhead: 0 })
    }

    /// Returns the recorded device without the limit at which the recording first ran out of memory; `None` if it did not fail at
    /// a limit.
    pub(crate) fn capacity_without_limit(&self) -> Option<Capacity> {
        let (reserved, free) = self.at_first_failure().filter(|_| !self.skipped.segments())?;
        self.ran_into_limit().then(|| device_of(self.history.device().total_bytes, reserved, free))
    }

    /// Returns the reserved bytes and the device's free bytes at the first failed request.
    fn at_first_failure(&self) -> Option<(u64, u64)> {
        let events = &self.history.device().events;
        let event = events.actions().iter().position(|&a| a == Action::Oom)?;
        Some((self.history.counters_at(Moment::after(event)).reserved, events.get(event).device_free()?))
    }

    /// Whether the recording first ran out of memory at a limit that can only be estimated from the reserved bytes.
    pub(super) fn guesses_limit(&self) -> bool {
        let is_known = self.policy.memory_fraction.is_some() && self.history.device().total_bytes.is_some();
        self.ran_into_limit() && !is_known
    }

    /// Whether the recording first ran out of memory at a limit on reserved bytes: the device had enough free memory for the
    /// request.
    pub(super) fn ran_into_limit(&self) -> bool {
        let events = &self.history.device().events;
        let first = events.actions().iter().position(|&a| a == Action::Oom).map(|event| events.get(event));
        first.is_some_and(|oom| {
            oom.device_free().is_some_and(|free| is_at_limit(&self.policy, oom.size, free))
        })
    }
}

/// Returns a device on which the allocator can use its reserved bytes and the free bytes.
fn device_of(total: Option<u64>, reserved: u64, free: u64) -> Capacity {
    let available = reserved.saturating_add(free);
    let total = total.unwrap_or(available).max(available);
    Capacity { total, overhead: total - available }
}
