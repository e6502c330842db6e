//! The times of a recording's events.

use vramscope_trace::DeviceTrace;

/// Returns the time of each event in microseconds since the Unix epoch, never decreasing: the recorder's clock may step back a
/// little. Returns `None` if an event has no time.
pub fn event_times(device: &DeviceTrace) -> Option<Vec<i64>> {
    rising_times(device).collect()
}

/// Like [`event_times`], as an iterator.
pub(crate) fn rising_times(device: &DeviceTrace) -> impl Iterator<Item = Option<i64>> {
    let mut latest = i64::MIN;
    device.events.times().map(move |time| {
        latest = latest.max(time?);
        Some(latest)
    })
}
