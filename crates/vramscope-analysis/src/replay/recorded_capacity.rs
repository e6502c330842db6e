//! How much memory the recorded allocator had, as far as the recording shows it.

use vramscope_trace::Action;

use super::capacity::Capacity;
use super::runs::Replay;
use crate::moment::Moment;
use crate::out_of_memory::is_at_limit;

impl Replay<'_> {
    /// How much memory the recorded allocator could have: what it held and what the device had free when it
    /// first ran out; `None` where it never did. Where the recording says how large the device is, `overhead` is the rest of it.
    pub fn recorded_capacity(&self) -> Option<Capacity> {
        if self.skipped.segments() {
            // What was reserved then is not known.
            return None;
        }
        let (reserved, free) = self.at_first_failure()?;
        let total = self.history.device().total_bytes;
        let whole = total.filter(|&total| total >= reserved.saturating_add(free));
        let fraction = self.policy.memory_fraction.filter(|&fraction| fraction > 0.0);
        if !self.ran_into_limit() || (fraction.is_some() && whole.is_some()) {
            return Some(device_of(whole, reserved, free));
        }
        // The limit was at least what was reserved.
        let total = match fraction {
            Some(fraction) => (reserved as f64 / fraction).ceil() as u64 + 1,
            None => reserved,
        };
        Some(Capacity { total, overhead: 0 })
    }

    /// The recorded device without the limit at which the recording first ran out of memory; `None` where it did not do so at a limit.
    pub(crate) fn capacity_without_limit(&self) -> Option<Capacity> {
        let (reserved, free) = self.at_first_failure().filter(|_| !self.skipped.segments())?;
        self.ran_into_limit().then(|| device_of(self.history.device().total_bytes, reserved, free))
    }

    /// Bytes that were reserved, and those that the device had free, when a request first failed.
    fn at_first_failure(&self) -> Option<(u64, u64)> {
        let events = &self.history.device().events;
        let event = events.actions().iter().position(|&a| a == Action::Oom)?;
        Some((self.history.counters_at(Moment::after(event)).reserved, events.get(event).address))
    }

    /// The recording first ran out of memory at a limit that is not known but for what was reserved then.
    pub(super) fn guesses_limit(&self) -> bool {
        let is_known = self.policy.memory_fraction.is_some() && self.history.device().total_bytes.is_some();
        self.ran_into_limit() && !is_known
    }

    /// The recording first ran out of memory at a limit on reserved bytes: the device had more than was asked for.
    pub(super) fn ran_into_limit(&self) -> bool {
        let events = &self.history.device().events;
        let first = events.actions().iter().position(|&a| a == Action::Oom).map(|event| events.get(event));
        first.is_some_and(|oom| is_at_limit(&self.policy, oom.size, oom.address))
    }
}

/// A device on which the allocator can have what it had reserved and what was free.
fn device_of(total: Option<u64>, reserved: u64, free: u64) -> Capacity {
    let available = reserved.saturating_add(free);
    let total = total.unwrap_or(available).max(available);
    Capacity { total, overhead: total - available }
}
