//! The clock of the hooks, and its conversion to the clock of PyTorch's events.
//!
//! PyTorch reads the processor's time stamp counter for each event. For a snapshot, it converts the counter linearly to
//! microseconds of Unix time. The hooks therefore use a clock that advances like the counter, independent of changes to the
//! time of day. A line through two moments at which both clocks were read converts one to the other.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds of a clock that is never adjusted. Its origin is arbitrary.
#[cfg(target_os = "linux")]
pub(crate) fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Nanoseconds of a clock that is never adjusted. Its origin is arbitrary.
#[cfg(not(target_os = "linux"))]
pub(crate) fn now() -> i64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    i64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
}

/// A moment on both clocks, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    ours: i64,
    unix: i64,
}

impl Moment {
    /// The current moment, with both clocks read as close together as possible.
    pub(crate) fn now() -> Self {
        let read = || {
            let before = now();
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let after = now();
            let unix = i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX);
            (after - before, Self { ours: before + (after - before) / 2, unix })
        };
        let mut best = read();
        for _ in 0..50 {
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

/// Converts times of the hooks' clock to Unix time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    begin: Moment,
    /// Nanoseconds of Unix time per nanosecond of the hooks' clock, minus 1.
    drift: f64,
}

impl Line {
    pub(crate) fn through(begin: Moment, end: Moment) -> Self {
        let ours = end.ours - begin.ours;
        let drift = if ours > 0 { ((end.unix - begin.unix) - ours) as f64 / ours as f64 } else { 0.0 };
        Self { begin, drift }
    }

    /// Nanoseconds since the Unix epoch.
    pub(crate) fn unix(&self, ours: i64) -> i64 {
        let since = ours - self.begin.ours;
        self.begin.unix + since + (since as f64 * self.drift) as i64
    }
}
