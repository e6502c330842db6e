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
mod tests {
    use super::*;
    use crate::formats::read;

    const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream
1,23:59:59.000001,allocate,0x10012400000,1048576,0
1,23:59:59.5,allocate,0x10012500000,256,0x55d1
2,00:00:01.000000,free,0x10012400000,1048576,0
2,00:00:02.000000,allocate failure,(nil),99,0
";

    #[test]
    fn rows_are_events() {
        let recording = read(LOG.as_bytes()).unwrap();
        let trace = &recording.trace;
        assert_eq!((recording.format, trace.other_allocator()), (Format::Rmm, Some(OtherAllocator::Rmm)));
        let events: Vec<_> = trace.devices[0]
            .events
            .iter()
            .map(|e| (e.action, e.address(), e.size, e.time_us.unwrap(), trace.tags.get(e.tags).stream))
            .collect();
        let midnight = DAY_US;
        assert_eq!(
            events,
            [
                (Action::Alloc, 0x100_1240_0000, 1 << 20, midnight - 999_999, 0),
                (Action::Alloc, 0x100_1250_0000, 256, midnight - 500_000, 0x55d1),
                (Action::Free, 0x100_1240_0000, 1 << 20, midnight + 1_000_000, 0),
                (Action::Unknown, 0, 99, midnight + 2_000_000, 0),
            ]
        );
        assert_eq!(recording.notices.unknown_actions.get("allocate failure"), Some(&1));
    }

    #[test]
    fn a_cut_row_and_a_wrong_row_are_noted() {
        let cut = read(&LOG.as_bytes()[..LOG.len() - 20]).unwrap();
        assert_eq!(cut.trace.devices[0].events.len(), 3);
        assert!(cut.notices.cut_off_bytes > 0 && cut.trace.ends_early);
        for wrong in ["free,xyz", "free,\"0x10012400000", "free,0x1001,2400000", "fr3e,0x10012400000"] {
            let wrong = read(LOG.replace("free,0x10012400000", wrong).as_bytes()).unwrap();
            let device = &wrong.trace.devices[0];
            assert_eq!((device.events.len(), &device.gap, wrong.trace.ends_early), (3, &Some(2..2), false));
            let damage = wrong.notices.to_string();
            assert!(damage.contains("the file is damaged at byte 137: "), "{damage}");
        }
        let message = read(LOG.replace("0x", "y").replace("nil", "y").as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("byte 39: no row is an event of RMM; the file is damaged"), "{message}");
    }

    #[test]
    fn times() {
        let time = |text: &str| Clock::default().time_us(text);
        assert_eq!(time("00:00:00.25"), Some(250_000));
        assert_eq!(time("1634567890.123456"), Some(1_634_567_890_123_456));
        assert_eq!(["24:00:00", "1:99:00", "x", "", "1:2"].map(time), [None; 5]);
    }
}
