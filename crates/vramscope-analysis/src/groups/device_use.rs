//! The driver's count of a device's memory, and the part of it that the recording explains.

use std::collections::HashMap;

use vramscope_trace::{DriverEvent, DriverMemory, MemoryReading, StringId};

use crate::history::{History, Moment, When};

/// The driver's counts of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceUse {
    /// The last reading at or before the moment; `None` if there is none.
    pub here: Option<MeasuredUse>,
    /// Microseconds between that reading and the moment; 0 if the moment has no time.
    pub age_us: i64,
    /// The first reading of the recording.
    pub first: MeasuredUse,
    /// The reading with the most bytes in use; the first of several.
    pub highest: MeasuredUse,
}

/// A reading of the driver, and the memory that the recording knows at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredUse {
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Bytes in use, by all processes.
    pub used: u64,
    /// Bytes that the device has.
    pub total: u64,
    /// Bytes that PyTorch's allocator had reserved.
    pub reserved: u64,
    /// Bytes of all other libraries.
    pub libraries: u64,
}

impl MeasuredUse {
    /// Bytes in use that are neither reserved by PyTorch's allocator nor allocated by another library: contexts, kernels, other processes.
    /// Negative if the recording knows more than the driver counts, as where managed memory is on the host.
    pub fn rest(&self) -> i64 {
        let rest = i128::from(self.used) - i128::from(self.reserved) - i128::from(self.libraries);
        rest.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    fn of(history: &History, reading: &MemoryReading) -> Self {
        let events = history.trace().process.as_ref().map_or(&[][..], |process| &process.events);
        let events = &events[..reading.driver_events.min(events.len())];
        let &MemoryReading { time_us, used, total, device, device_events, .. } = reading;
        let reserved = history.reserved_at(Moment::from_index(device_events));
        Self { time_us, used, total, reserved, libraries: live_bytes(events, device) }
    }
}

impl DeviceUse {
    /// The counts of the history's device at a moment, which `when` chose. At the end if the moment is before the first event. `None` if
    /// the recording has none.
    pub(crate) fn at(history: &History, moment: Moment, when: Option<When>) -> Option<Self> {
        let device = history.device();
        let readings = &history.trace().process.as_ref()?.readings;
        let of_device = || readings.iter().filter(|r| r.device == device.device);
        let first = of_device().next()?;
        // The first of several: `max_by_key` returns the last one.
        let highest = of_device().rev().max_by_key(|r| r.used)?;
        let time_us = match when {
            Some(When::End) => end_time(history),
            _ => moment.event().and_then(|event| device.events.time(event)),
        };
        let is_before = |r: &&MemoryReading| {
            moment == Moment::START
                || when == Some(When::End)
                || r.device_events <= moment.index() && time_us.is_none_or(|time_us| r.time_us <= time_us)
        };
        let here = of_device().rfind(is_before);
        let age_us = here.zip(time_us).map_or(0, |(here, time_us)| time_us.saturating_sub(here.time_us));
        let measured = |reading| MeasuredUse::of(history, reading);
        Some(Self { here: here.map(measured), age_us, first: measured(first), highest: measured(highest) })
    }
}

/// The last time in a recording, in microseconds since the Unix epoch.
fn end_time(history: &History) -> Option<i64> {
    let trace = history.trace();
    let process = trace.process.as_ref()?;
    let of_devices = trace.devices.iter().filter_map(|d| d.events.time(d.events.len().checked_sub(1)?));
    let others = process.events.last().map(|e| e.time_us).into_iter();
    of_devices.chain(others).chain(process.readings.last().map(|r| r.time_us)).max()
}

/// Bytes that libraries hold on a device after these events.
fn live_bytes(events: &[DriverEvent], device: i64) -> u64 {
    let mut live: HashMap<(StringId, DriverMemory, u64), u64> = HashMap::new();
    for e in events.iter().filter(|e| e.device == device && e.memory.is_own()) {
        let key = (e.library, e.memory, e.address);
        if e.is_free {
            live.remove(&key)
        } else {
            live.insert(key, e.size)
        };
    }
    live.values().copied().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vramscope_trace::{Action, DeviceTrace, Event, ProcessEvents, Tags, Trace};

    use super::*;

    const BASE: u64 = 1 << 40;

    /// A process that creates a context of 500 bytes, loads kernels of 70 bytes, and frees what it allocated.
    fn history(change: impl FnOnce(&mut ProcessEvents)) -> History {
        let mut trace = Trace::default();
        let library = trace.strings.intern("libnccl.so.2").unwrap();
        let tags = trace.tags.intern(Tags::default()).unwrap();
        let mut device = DeviceTrace::default();
        let steps = [
            (Action::SegmentAlloc, 1000, 10),
            (Action::Alloc, 600, 20),
            (Action::Free, 600, 30),
            (Action::SegmentFree, 1000, 40),
        ];
        for (action, size, time_us) in steps {
            let time_us = Some(time_us);
            device.events.push(Event { action, address_or_free: BASE, size, time_us, stack: None, tags });
        }
        trace.devices = vec![device];
        let event = |device, memory, is_free, size, time_us| DriverEvent {
            device,
            memory,
            is_free,
            address: 0x7f,
            size,
            time_us,
            library,
            stack: None,
        };
        let reading = |time_us, used, device_events, driver_events| {
            let (device, total) = (0, 9000);
            MemoryReading { device, time_us, used, total, device_events, driver_events }
        };
        let mut process = ProcessEvents {
            events: vec![
                event(0, DriverMemory::Physical, false, 40, 12),
                event(1, DriverMemory::Physical, false, 5000, 12),
                event(-1, DriverMemory::Pinned, false, 6000, 12),
                event(0, DriverMemory::Imported, false, 3000, 12),
                event(0, DriverMemory::Physical, true, 40, 25),
            ],
            readings: vec![
                reading(5, 500, 0, 0),
                reading(10, 1500, 1, 0),
                MemoryReading { device: 1, ..reading(11, 7777, 0, 0) },
                reading(13, 1610, 1, 4),
                reading(26, 1570, 2, 5),
                reading(41, 570, 4, 5),
            ],
            ..ProcessEvents::default()
        };
        change(&mut process);
        trace.process = Some(process);
        History::replayed(&Arc::new(trace), 0)
    }

    #[test]
    fn the_rest_is_what_neither_pytorch_nor_a_library_allocated() {
        let history = history(|_| {});
        let at = |moment| DeviceUse::at(&history, moment, None).unwrap();
        // Right after the segment, before the library's memory; at the peak; after the library's free; at the end.
        let measured = [0, 1, 2, 3].map(|event| at(Moment::after(event)).here.unwrap());
        assert_eq!(
            measured.map(|m| (m.used, m.reserved, m.libraries)),
            [(1500, 1000, 0), (1610, 1000, 40), (1570, 1000, 0), (1570, 1000, 0),]
        );
        assert_eq!(measured.map(|m| m.rest()), [500, 570, 570, 570]);
        assert_eq!([0, 1, 2, 3].map(|event| at(Moment::after(event)).age_us), [0, 7, 4, 14]);
        // A recording without events of PyTorch's allocator shows its end.
        let end = at(Moment::START).here.unwrap();
        assert_eq!((end.used, end.reserved, end.rest(), at(Moment::START).age_us), (570, 0, 570, 0));
        // The device's last event is at 40, and the last reading after it.
        let end = DeviceUse::at(&history, history.end(), Some(When::End)).unwrap();
        assert_eq!((end.here.unwrap().used, end.age_us), (570, 0));
        let DeviceUse { first, highest, .. } = at(Moment::START);
        assert_eq!((first.used, first.rest(), highest.used, highest.rest()), (500, 500, 1610, 570));
    }

    #[test]
    fn a_reading_after_the_moment_does_not_count() {
        let history = history(|process| drop(process.readings.drain(..3)));
        let at = |event| DeviceUse::at(&history, Moment::after(event), None).unwrap();
        assert_eq!((at(0).here, at(0).age_us), (None, 0));
        assert_eq!((at(1).here.unwrap().used, at(1).first.used), (1610, 1610));
    }

    #[test]
    fn the_recording_may_know_more_than_the_driver_counts() {
        let history = history(|process| process.readings[3].used = 10);
        assert_eq!(DeviceUse::at(&history, Moment::after(1), None).unwrap().here.unwrap().rest(), -1030);
        let none = |process: &mut ProcessEvents| process.readings.clear();
        assert_eq!(DeviceUse::at(&self::history(none), Moment::after(1), None), None);
    }
}
