//! Names of fields in logs of samples, and their meanings.

use super::row::Row;
use crate::samples::{DeviceMemorySource, Quantity};

/// Meaning of a field in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Time in microseconds, nanoseconds or seconds since the Unix epoch.
    TimeUs,
    TimeNs,
    TimeSeconds,
    Event,
    Message,
    Collector,
    Device,
    Rank,
    /// Bytes in use now, and the highest value since the previous row.
    Now(Quantity),
    High(Quantity),
    DeviceTotal,
    /// The name of the source of the device's bytes.
    DeviceSource,
    HighIsExact,
    Ooms,
    Retries,
    Missed,
    /// The innermost phases of all threads, separated by ` | ` or as a list.
    Phases,
    OomReason,
    /// An object with more fields of a row.
    Row,
    /// An object with metadata of an event.
    Metadata,
}

impl Field {
    /// Returns the field with this name in a row of: `vramscope monitor`, the Rust tracker, gpumemprof's telemetry (which the Python
    /// tracker also writes), events in the tracker's bundles, and snapshots in saved results.
    pub(super) fn of_row(name: &str) -> Option<Self> {
        Some(match name {
            "time_us" => Self::TimeUs,
            "timestamp_ns" => Self::TimeNs,
            "timestamp" => Self::TimeSeconds,
            "event" | "event_type" => Self::Event,
            "message" | "context" => Self::Message,
            "collector" => Self::Collector,
            "device_id" => Self::Device,
            "rank" => Self::Rank,
            "requested_bytes" => Self::Now(Quantity::Requested),
            "allocated_bytes" | "allocator_allocated_bytes" | "memory_allocated" | "allocated_memory" => {
                Self::Now(Quantity::Allocated)
            }
            "active_bytes" | "allocator_active_bytes" | "active_memory" => Self::Now(Quantity::Active),
            "reserved_bytes" | "allocator_reserved_bytes" | "memory_reserved" | "reserved_memory" => {
                Self::Now(Quantity::Reserved)
            }
            "device_used_bytes" | "device_used" => Self::Now(Quantity::DeviceUsed),
            "process_used_bytes" => Self::Now(Quantity::ProcessUsed),
            "cpu_bytes" | "cpu_memory" => Self::Now(Quantity::Cpu),
            "device_total_bytes" | "device_total" => Self::DeviceTotal,
            "device_source" => Self::DeviceSource,
            "high_allocated_bytes" => Self::High(Quantity::Allocated),
            "high_reserved_bytes" => Self::High(Quantity::Reserved),
            "high_device_used_bytes" => Self::High(Quantity::DeviceUsed),
            "high_is_exact" => Self::HighIsExact,
            "num_ooms" => Self::Ooms,
            "num_alloc_retries" => Self::Retries,
            "missed_ticks" => Self::Missed,
            "phase" => Self::Phases,
            "metadata" => Self::Metadata,
            _ => return None,
        })
    }

    /// Returns the field with this name in the metadata of a row. Other names belong to the program.
    pub(super) fn of_metadata(name: &str) -> Option<Self> {
        Some(match name {
            "high_allocated_bytes" => Self::High(Quantity::Allocated),
            "phases" => Self::Phases,
            "oom_reason" => Self::OomReason,
            _ => return None,
        })
    }

    /// Whether the field is the time of a row.
    pub(super) fn is_time(self) -> bool {
        matches!(self, Self::TimeUs | Self::TimeNs | Self::TimeSeconds)
    }

    /// Stores a text of a table or of JSON in a row. Returns false if it is neither a number nor empty, but the field is a number.
    pub(super) fn text(self, text: &str, row: &mut Row) -> bool {
        match self {
            Self::Event => row.event = clip(text),
            Self::Message => row.message = clip(text),
            Self::Collector => row.collector = clip(text),
            Self::DeviceSource => {
                row.device_source = DeviceMemorySource::ALL.into_iter().find(|source| source.name() == text);
            }
            Self::Phases => row.phases.extend(text.split(" | ").filter(|path| !path.is_empty()).map(clip)),
            Self::OomReason => row.is_out_of_memory = !text.is_empty(),
            Self::HighIsExact => row.high_is_exact = text.eq_ignore_ascii_case("true"),
            // In tables written by pandas, 12 is `12.0` if the column has gaps.
            _ => match (text.parse::<u64>(), text.parse::<f64>()) {
                (Ok(number), _) => self.number(number, row),
                (_, Ok(value)) => self.value(value, row),
                _ => return ["", "None", "N/A", "null"].contains(&text),
            },
        }
        true
    }

    /// Stores a whole number in a row.
    pub(super) fn number(self, number: u64, row: &mut Row) {
        let time = |us: u64| i64::try_from(us).ok();
        match self {
            Self::TimeUs => row.time_us = time(number),
            Self::TimeNs => row.time_us = time(number / 1000),
            Self::TimeSeconds => row.time_us = number.checked_mul(1_000_000).and_then(time),
            Self::Device => row.device = Some(number).filter(|&n| n < MOST_NUMBER).and_then(time),
            Self::Rank => row.rank = Some(number).filter(|&n| n < MOST_NUMBER).and_then(time),
            Self::Now(quantity) => row.now.set(quantity, Some(number)),
            Self::High(quantity) => row.high.set(quantity, Some(number)),
            Self::DeviceTotal => row.device_total = Some(number).filter(|total| (1..1 << 60).contains(total)),
            Self::Ooms => row.ooms = Some(number),
            Self::Retries => row.retries = Some(number),
            Self::Missed => row.missed = number,
            _ => {}
        }
    }

    /// Stores a fractional or negative number in a row.
    pub(super) fn value(self, value: f64, row: &mut Row) {
        let is_time = |us: f64| us.is_finite() && us.abs() < 9e15;
        match self {
            Self::TimeSeconds if is_time(value * 1e6) => row.time_us = Some((value * 1e6).round() as i64),
            // Whole numbers written as `12.0`.
            _ if (0.0..9e18).contains(&value) && value.fract() == 0.0 => self.number(value as u64, row),
            _ => {}
        }
    }
}

/// Devices and ranks have numbers below this one.
const MOST_NUMBER: u64 = 1 << 32;

/// Returns the first 4096 bytes of a text, at a character boundary.
fn clip(text: &str) -> String {
    text[..text.floor_char_boundary(4096)].to_owned()
}
