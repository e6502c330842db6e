//! The time axis of a trace: recorded microseconds, or event indices if times are missing.

use serde::Serialize;
use vramscope_analysis::{Moment, event_times, region_runs};
use vramscope_trace::DeviceTrace;

use crate::source::Source;

/// The unit and the origin of the time axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// Microseconds since this origin. The origin is in microseconds since the Unix epoch.
    Recorded(i64),
    /// Event indices of a device, from 0.
    EventNumbers,
}

/// The description of the time axis in a trace.
#[derive(Debug, Serialize)]
pub(super) struct Metadata {
    written_by: &'static str,
    clock: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_origin_us: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl Clock {
    /// Recorded times if every event of every device has one; all devices share the axis.
    pub(super) fn of(source: &Source<'_>) -> Self {
        let mut origin: Option<i64> = None;
        for device in source.devices() {
            let Some(times) = event_times(device) else { return Self::EventNumbers };
            let starts = region_runs(source.trace, device).into_iter().map(|r| r.start_us);
            origin = times.first().copied().into_iter().chain(starts).chain(origin).min();
        }
        origin.map_or(Self::EventNumbers, Self::Recorded)
    }

    pub(super) fn is_recorded(self) -> bool {
        matches!(self, Self::Recorded(_))
    }

    /// Returns a recorded time on this axis.
    pub(super) fn since_origin(self, time_us: i64) -> i64 {
        match self {
            Self::Recorded(origin) => time_us.saturating_sub(origin),
            Self::EventNumbers => 0,
        }
    }

    pub(super) fn metadata(self) -> Metadata {
        let written_by = concat!("vramscope ", env!("CARGO_PKG_VERSION"));
        match self {
            Self::Recorded(origin) => Metadata {
                written_by,
                clock: "microseconds",
                time_origin_us: Some(origin.to_string()),
                note: None,
            },
            Self::EventNumbers => Metadata {
                written_by,
                clock: "event numbers",
                time_origin_us: None,
                note: Some(
                    "the recording has no times: one microsecond is one event, and regions are left out",
                ),
            },
        }
    }

    pub(super) fn times(self, device: &DeviceTrace) -> Times {
        let recorded = match self {
            Self::Recorded(origin) => {
                event_times(device).map(|times| times.into_iter().map(|t| t.saturating_sub(origin)).collect())
            }
            Self::EventNumbers => None,
        };
        Times { recorded, last: device.events.len().saturating_sub(1) }
    }
}

/// The position of each event of a device on the time axis. The start of the recording has the position of the first event, and its end
/// the position of the last event.
pub(super) struct Times {
    recorded: Option<Vec<i64>>,
    last: usize,
}

impl Times {
    pub(super) fn at(&self, moment: Moment) -> i64 {
        let event = moment.event().unwrap_or(0).min(self.last);
        match &self.recorded {
            Some(times) => times.get(event).copied().unwrap_or(0),
            None => event as i64,
        }
    }
}
