//! The log of RMM's `LoggingResourceAdaptor`, one row for each allocation and each free
//! (`cpp/src/mr/detail/logging_resource_adaptor_impl.cpp`).
//!
//! The log has the time of day without a date, so times count from midnight UTC of 1970-01-01, and continue after midnight. It names no
//! device: RMM writes one file for each device. It has no stacks, no device size, and no memory of the upstream resource.

use super::super::rows::{RowEnd, Rows};
use super::super::window::Window;
use super::super::{Contents, Format, FormatReader};
use super::{Builder, RowOf, add_rows, address};
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::ReadError;
use crate::events::{Action, Event, Tags};

/// The reader of RMM's logs.
#[derive(Debug)]
pub(in crate::formats) struct Rmm;

const HEADER: &[u8] = b"Thread,Time,Action,Pointer,Size,Stream";

impl FormatReader for Rmm {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(HEADER)
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        // No field of RMM is quoted, so each line is a row.
        let mut rows = Rows::new(stream, |_| true);
        let mut builder = Builder::new(rows.most_memory());
        let mut clock = Clock::default();
        rows.next()?;
        let columns = rows.len();
        add_rows(&mut rows, &mut builder, "RMM", |rows, builder| {
            if rows.len() != columns || rows.end() == RowEnd::Damaged {
                return Ok(RowOf::Invalid);
            }
            let event = event(rows, builder, &mut clock)?;
            Ok(event.map_or(RowOf::Invalid, |event| RowOf::Event(0, event)))
        })?;
        Ok(builder.finish(OtherAllocator::Rmm, DeviceKind::Cuda, Format::Rmm))
    }
}

/// Converts a row; `None` if it is not an event.
fn event(rows: &Rows<'_>, builder: &mut Builder, clock: &mut Clock) -> Result<Option<Event>, ReadError> {
    let action = match &*rows.field(2) {
        "allocate" => Action::Alloc,
        "free" | "deallocate" => Action::Free,
        // The log has neither the free bytes nor the size of the device, which an out-of-memory event needs.
        "allocate failure" => Action::Unknown,
        _ => return Ok(None),
    };
    let (time, pointer) = (clock.time_us(&rows.field(1)), address(&rows.field(3)));
    let (size, stream) = (rows.field(4).trim().parse::<u64>().ok(), address(&rows.field(5)));
    let (Some(time_us), Some(pointer), Some(size)) = (time, pointer, size) else { return Ok(None) };
    if pointer >= ADDRESSES {
        return Ok(None);
    }
    // Streams have names in some releases, such as `default`.
    let is_name = rows.field(5).chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let is_thread = rows.field(0).chars().all(|c| c.is_ascii_hexdigit());
    let Some(stream) = stream.or(is_name.then_some(0)).filter(|_| is_thread) else { return Ok(None) };
    let mut tags = Tags { stream, ..Tags::default() };
    if action == Action::Unknown {
        tags.unknown_action = Some(builder.string("allocate failure")?);
        builder.notices.unknown_action("allocate failure");
    }
    let tags = builder.tags(tags)?;
    Ok(Some(Event { action, address_or_free: pointer, size, time_us: Some(time_us), stack: None, tags }))
}

/// No device has addresses from this one on: the page tables of processors have 57 bits.
const ADDRESSES: u64 = 1 << 57;

const DAY_US: i64 = 86_400_000_000;

/// Times of rows, which are in order.
#[derive(Default)]
struct Clock {
    /// Microseconds of the days that are over.
    days: i64,
    last: i64,
}

impl Clock {
    /// Parses `15:47:02.841961`, or seconds since the Unix epoch as `1634567890.123456`.
    fn time_us(&mut self, text: &str) -> Option<i64> {
        let text = text.trim();
        let Some((hours, rest)) = text.split_once(':') else {
            return microseconds(text);
        };
        let (minutes, seconds) = rest.split_once(':')?;
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
        if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
            return None;
        }
        let time = (hours * 60 + minutes) * 60_000_000 + microseconds(seconds)?;
        // Rows of several threads may be slightly out of order; a new day is half a day earlier.
        if time + self.days + DAY_US / 2 < self.last {
            self.days += DAY_US;
        }
        self.last = self.days + time;
        Some(self.last)
    }
}

/// Parses seconds with up to six decimals.
fn microseconds(text: &str) -> Option<i64> {
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    let fraction: i64 = if decimals.is_empty() { 0 } else { decimals.parse::<u32>().ok()?.into() };
    let scale = 10i64.pow(6u32.checked_sub(decimals.len() as u32)?);
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction * scale)
}

#[cfg(test)]
mod tests;
