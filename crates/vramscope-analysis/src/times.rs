//! When the events of a recording happened.

use vramscope_trace::DeviceTrace;

/// The time of each event in microseconds since the Unix epoch, never falling: the recorder's clock may step
/// back by a little. `None` where an event has none.
pub fn event_times(device: &DeviceTrace) -> Option<Vec<i64>> {
    rising_times(device).collect()
}

/// As [`event_times`], one after the other.
pub(crate) fn rising_times(device: &DeviceTrace) -> impl Iterator<Item = Option<i64>> {
    let mut latest = i64::MIN;
    device.events.times().map(move |time| {
        latest = latest.max(time?);
        Some(latest)
    })
}
