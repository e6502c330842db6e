//! The host memory of the recorded process over time.

use vramscope_trace::{DriverEvent, DriverMemory, HostReading, ProcessEvents, Trace};

/// The host memory of the recorded process, from the readings in a log of the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMemory {
    /// The times of the first and the last reading, in microseconds since the Unix epoch.
    pub time_us: (i64, i64),
    /// Resident bytes of the process.
    pub resident: HostCourse,
    /// Of these, anonymous memory.
    pub anonymous: HostCourse,
    /// Of these, pages of mapped files.
    pub files: HostCourse,
    /// Of these, shared memory.
    pub shared: HostCourse,
    /// Bytes that the process pinned through the driver, as its calls show.
    pub pinned: HostCourse,
    /// The page cache of the cgroup of the process; `None` if it was not read.
    pub page_cache: Option<HostCourse>,
}

/// The course of a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostCourse {
    /// Bytes at the first reading.
    pub start: u64,
    /// The most bytes.
    pub peak: u64,
    /// Bytes at the last reading.
    pub end: u64,
    /// Growth in bytes per hour: from the median of the second quarter of the time to the median of the last one, so that neither the
    /// start of the program nor a short peak counts. `None` if the readings are of less than ten minutes.
    pub per_hour: Option<i64>,
}

/// The shortest time that shows growth: ten minutes, in microseconds.
const LONG_US: i64 = 600_000_000;

/// The shortest time that has a course: a minute, in microseconds.
const SHORTEST_US: i64 = 60_000_000;

/// The number of moments, at equal distances, that medians are taken of.
const MOMENTS: usize = 40;

const HOUR_US: f64 = 3.6e9;

impl HostMemory {
    /// Returns the host memory of the process of a recording; `None` if the recording has no readings, or only of less than a minute.
    #[must_use]
    pub fn of(trace: &Trace) -> Option<Self> {
        let process = trace.process.as_ref()?;
        let mut readings: Vec<&HostReading> = process.host.iter().collect();
        readings.sort_by_key(|reading| reading.time_us);
        let (first, last) = (readings.first()?, readings.last()?);
        let time_us = (first.time_us, last.time_us);
        if time_us.1.saturating_sub(time_us.0) < SHORTEST_US {
            return None;
        }
        let course = |bytes: fn(&HostReading) -> u64| {
            let values = readings.iter().map(|reading| (reading.time_us, bytes(reading))).collect();
            HostCourse::of(values, time_us)
        };
        let has_cache = readings.iter().any(|reading| reading.page_cache.is_some());
        Some(Self {
            time_us,
            resident: course(HostReading::resident),
            anonymous: course(|reading| reading.anonymous),
            files: course(|reading| reading.files),
            shared: course(|reading| reading.shared),
            pinned: HostCourse::of(pinned(process), time_us),
            page_cache: has_cache.then(|| course(|reading| reading.page_cache.unwrap_or(0))),
        })
    }
}

/// The bytes that are pinned after each call that pins or frees memory, by time.
fn pinned(process: &ProcessEvents) -> Vec<(i64, u64)> {
    let is_pinned = |memory| matches!(memory, DriverMemory::Pinned | DriverMemory::Registered);
    let mut calls: Vec<_> = process.events.iter().filter(|event| is_pinned(event.memory)).collect();
    calls.sort_by_key(|event| event.time_us);
    let mut now = 0_u64;
    let after = |event: &DriverEvent| {
        now = if event.is_free { now.saturating_sub(event.size) } else { now.saturating_add(event.size) };
        (event.time_us, now)
    };
    calls.into_iter().map(after).collect()
}

impl HostCourse {
    /// Returns the course of `values` (times in order, and the bytes from then on) within a time.
    fn of(values: Vec<(i64, u64)>, (from, to): (i64, i64)) -> Self {
        let at = |time: i64| {
            let before = values.partition_point(|&(other, _)| other <= time);
            before.checked_sub(1).and_then(|last| values.get(last)).map_or(0, |&(_, bytes)| bytes)
        };
        let within = values.iter().filter(|&&(time, _)| (from..=to).contains(&time));
        let (start, end) = (at(from), at(to));
        let peak = within.map(|&(_, bytes)| bytes).max().unwrap_or(0).max(start);
        let span = to.saturating_sub(from);
        let per_hour = (span >= LONG_US).then(|| {
            let moment = |number: usize| from + (span as f64 * number as f64 / MOMENTS as f64) as i64;
            let median = |part: std::ops::Range<usize>| {
                let mut bytes: Vec<u64> = part.map(|number| at(moment(number))).collect();
                bytes.sort_unstable();
                bytes.get(bytes.len() / 2).copied().unwrap_or(0)
            };
            let early = median(MOMENTS / 4..MOMENTS / 2) as f64;
            let late = median(MOMENTS * 3 / 4..MOMENTS) as f64;
            ((late - early) / (span as f64 / 2.0) * HOUR_US) as i64
        });
        Self { start, peak, end, per_hour }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A process with a reading each minute, whose anonymous memory after some minutes is `mib`.
    fn trace(minutes: i64, mib: impl Fn(i64) -> u64) -> Trace {
        let reading = |minute: i64| HostReading {
            time_us: minute * 60_000_000,
            anonymous: mib(minute) * MIB,
            files: 300 * MIB,
            shared: MIB,
            page_cache: Some(5000 * MIB),
        };
        let process =
            ProcessEvents { host: (0..=minutes).map(reading).collect(), ..ProcessEvents::default() };
        Trace { process: Some(process), ..Trace::default() }
    }

    #[test]
    fn a_server_that_leaks_and_one_that_does_not() {
        // It loads for ten minutes, then leaks 2 MiB a minute. A request of one minute takes 500 MiB.
        let leaks = |minute: i64| 1000 + 2 * minute as u64 + if minute == 100 { 500 } else { 0 };
        let memory =
            HostMemory::of(&trace(240, |minute| if minute < 10 { 200 } else { leaks(minute) })).unwrap();
        let grows = memory.anonymous.per_hour.unwrap() as f64 / MIB as f64;
        assert!((grows - 120.0).abs() < 6.0, "{grows}");
        assert_eq!(
            [memory.anonymous.start, memory.anonymous.peak, memory.anonymous.end],
            [200 * MIB, 1700 * MIB, 1480 * MIB]
        );
        assert_eq!(memory.resident.end, 1781 * MIB);
        assert_eq!(memory.page_cache.unwrap().per_hour, Some(0));

        // It loads as long, and then rises and falls.
        let steady = |minute: i64| if minute < 10 { 200 } else { 1000 + 50 * (minute as u64 % 7) };
        let memory = HostMemory::of(&trace(240, steady)).unwrap();
        let grows = memory.anonymous.per_hour.unwrap().unsigned_abs();
        assert!(grows < 30 * MIB, "{grows}");
    }

    #[test]
    fn a_short_run_has_no_growth() {
        assert_eq!(HostMemory::of(&trace(0, |_| 100)), None);
        assert_eq!(HostMemory::of(&Trace::default()), None);
        assert_eq!(HostMemory::of(&trace(5, |_| 100)).unwrap().anonymous.per_hour, None);
    }

    #[test]
    fn pinned_memory_is_that_of_the_calls() {
        let mut trace = trace(20, |_| 100);
        let library = trace.strings.intern("libcudart.so").unwrap();
        let call = |minute: i64, memory, is_free, mib: u64| DriverEvent {
            device: -1,
            memory,
            is_free,
            address: mib,
            size: mib * MIB,
            time_us: minute * 60_000_000,
            library,
            stack: None,
        };
        trace.process.as_mut().unwrap().events = vec![
            call(1, DriverMemory::Pinned, false, 64),
            call(2, DriverMemory::Device, false, 512),
            call(3, DriverMemory::Registered, false, 8),
            call(19, DriverMemory::Pinned, true, 64),
        ];
        let pinned = HostMemory::of(&trace).unwrap().pinned;
        assert_eq!([pinned.start, pinned.peak, pinned.end], [0, 72 * MIB, 8 * MIB]);
    }
}
