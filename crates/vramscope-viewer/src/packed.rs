//! Everything about recordings in one bundle, for a page that has no server behind it.
//!
//! Columns of integers are written as variable-length numbers (LEB128), seven bits a byte: training repeats itself step by
//! step, and so do the bytes of such columns, which is what the compressor lives on. Positions and addresses are written
//! as differences, signed ones by turns (0, -1, 1, -2 ...). What follows from something else is left out:
//!
//! - an event that makes or frees an allocation has that allocation's address and, but for odd ones, its size
//! - one that makes an allocation has its stack and tags, too; allocations are numbered as they come
//! - a block's size is written as what it has beyond the request rounded up to 512 bytes
//!
//! `viewer/src/source/packed.ts` reads it.

use std::collections::HashMap;

use serde::Serialize;
use vramscope_analysis::{Cancel, Moment};

use crate::ViewError;
use crate::answers::{action, kind, origin, stack};
use crate::bundle::{Answer, Bundle};
use crate::device::OpenDevice;
use crate::recording::{OpenRecording, RecordingJson};

/// What the page has beside columns.
#[derive(Serialize)]
struct PackedJson<'r> {
    recordings: Vec<RecordingJson<'r>>,
    files: Vec<FileJson>,
}

#[derive(Serialize)]
struct FileJson {
    devices: Vec<DeviceJson>,
}

#[derive(Serialize)]
struct DeviceJson {
    report: serde_json::Value,
    /// Null where the recording cannot be replayed.
    replay: Option<serde_json::Value>,
    pools: serde_json::Value,
}

/// The recordings as one bundle. Its columns of a device are named `file/device/column`, those of a file `file/column`.
pub(crate) fn pack(recordings: &[OpenRecording<'_>]) -> Answer {
    let mut files = Vec::new();
    for file in recordings {
        let devices = (0..file.devices.len()).map(|device| {
            Ok(DeviceJson {
                report: file.report(device)?,
                replay: file.replay(device, &Cancel::default()).ok(),
                pools: serde_json::to_value(file.device(device)?.pools())?,
            })
        });
        files.push(FileJson { devices: devices.collect::<Result<_, ViewError>>()? });
    }
    let json = PackedJson { recordings: recordings.iter().map(OpenRecording::overview).collect(), files };
    let mut bundle = Bundle::new(json);
    for (number, file) in recordings.iter().enumerate() {
        bundle = bundle.u8(format!("{number}/names"), file.names()?);
        for (position, device) in file.devices.iter().enumerate() {
            for (name, bytes) in columns(device)? {
                bundle = bundle.u8(format!("{number}/{position}/{name}"), bytes);
            }
        }
    }
    bundle.finish()
}

/// A column of variable-length numbers.
#[derive(Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn of(values: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut this = Self::default();
        values.for_each(|v| this.push(v));
        this.0
    }

    fn signed(values: impl Iterator<Item = i64>) -> Vec<u8> {
        Self::of(values.map(|v| ((v << 1) ^ (v >> 63)) as u64))
    }

    fn push(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The differences between neighbours, beginning at 0.
fn differences(values: impl Iterator<Item = u64>) -> impl Iterator<Item = i64> {
    let mut last = 0u64;
    values.map(move |v| {
        let difference = v.wrapping_sub(last) as i64;
        last = v;
        difference
    })
}

/// A moment counted from another: 0 is never, 1 the same.
fn since(moment: Moment, other: Moment) -> u64 {
    if moment == Moment::NEVER { 0 } else { (moment.index() - other.index()) as u64 + 1 }
}

/// A number that may be missing: 0 is none.
fn or_none(n: u32) -> u64 {
    u64::from(n.wrapping_add(1))
}

fn columns(device: &OpenDevice<'_>) -> Result<Vec<(&'static str, Vec<u8>)>, ViewError> {
    let history = device.history();
    let allocations = &history.allocations;
    let ranges = &history.reserved;
    let events = &history.device.events;

    // Few addresses serve many allocations: each once, then by number.
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let mut distinct: Vec<u64> = Vec::new();
    let of_address = allocations
        .iter()
        .map(|a| {
            *numbers.entry(a.address).or_insert_with(|| {
                distinct.push(a.address);
                distinct.len() as u64 - 1
            })
        })
        .collect::<Vec<_>>();

    let subject = |event: usize| history.subject_number(event);
    // 0 is none, 1 a new one, 2 the newest, 3 the one before it ...
    let mut seen = 0;
    let subjects = Numbers::of((0..events.len()).map(|e| {
        let Some(id) = subject(e) else { return 0 };
        let back = 1 + (seen - id.min(seen)) as u64;
        seen = seen.max(id + 1);
        back
    }));
    let lone = || (0..events.len()).filter(|&e| subject(e).is_none()).map(|e| events.get(e));
    // Of the events about an allocation only frees say something new: their stack and tags.
    let frees = || {
        (0..events.len()).filter_map(|e| {
            let a = &allocations[subject(e)?];
            (a.from != Moment::after(e)).then(|| events.get(e))
        })
    };
    // A free may tell another size than its allocation, where events are missing.
    let odd = || {
        (0..events.len()).filter_map(|e| {
            let size = events.get(e).size;
            (allocations[subject(e)?].requested != size).then_some((e, size))
        })
    };
    let times = events.iter().filter_map(|e| e.time_us).map(|t| t as u64);
    let times: Vec<u64> = if device.timeline.duration().is_some() { times.collect() } else { Vec::new() };

    Ok(vec![
        ("addresses", Numbers::signed(differences(distinct.iter().copied()))),
        ("address", Numbers::of(of_address.into_iter())),
        ("requested", Numbers::of(allocations.iter().map(|a| a.requested))),
        (
            "beyond",
            Numbers::signed(allocations.iter().map(|a| a.size.wrapping_sub(rounded(a.requested)) as i64)),
        ),
        ("from", Numbers::signed(differences(allocations.iter().map(|a| a.from.index() as u64)))),
        ("freed", Numbers::of(allocations.iter().map(|a| since(a.freed, a.from)))),
        ("to", Numbers::of(allocations.iter().map(|a| since(a.to, a.freed.min(a.to))))),
        ("stack", Numbers::of(allocations.iter().map(|a| or_none(stack(a.stack))))),
        ("tags", Numbers::of(device.tags.allocations.iter().map(|&t| u64::from(t)))),
        ("origin", allocations.iter().map(|a| origin(a.origin) | (u8::from(a.size_inferred) << 2)).collect()),
        ("event_action", events.actions().iter().map(|&a| action(a)).collect()),
        ("event_allocation", subjects),
        ("event_time", Numbers::signed(differences(times.into_iter()))),
        ("odd_event", Numbers::signed(differences(odd().map(|(e, _)| e as u64)))),
        ("odd_bytes", Numbers::of(odd().map(|(_, size)| size))),
        ("free_stack", Numbers::of(frees().map(|e| or_none(stack(e.stack))))),
        ("free_tags", Numbers::of(frees().map(|e| e.tags.index() as u64))),
        ("lone_address", Numbers::of(lone().map(|e| e.address))),
        ("lone_bytes", Numbers::of(lone().map(|e| e.size))),
        ("lone_stack", Numbers::of(lone().map(|e| or_none(stack(e.stack))))),
        ("lone_tags", Numbers::of(lone().map(|e| e.tags.index() as u64))),
        ("range_address", Numbers::signed(differences(ranges.iter().map(|r| r.address)))),
        ("range_bytes", Numbers::of(ranges.iter().map(|r| r.size))),
        ("range_from", Numbers::of(ranges.iter().map(|r| r.from.index() as u64))),
        ("range_to", Numbers::of(ranges.iter().map(|r| since(r.to, r.from)))),
        ("range_tags", Numbers::of(device.tags.ranges.iter().map(|&t| u64::from(t)))),
        ("range_kind", ranges.iter().map(|r| kind(r.kind) | (u8::from(r.expandable) << 2)).collect()),
        ("range_stack", Numbers::of(ranges.iter().map(|r| or_none(stack(r.stack))))),
        ("regions", device.regions()?),
    ])
}

/// The smallest block that holds a request (`kMinBlockSize` of PyTorch): close to every block's size.
fn rounded(requested: u64) -> u64 {
    requested.max(1).checked_next_multiple_of(512).unwrap_or(requested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        assert_eq!(Numbers::of([0, 127, 128, 300].into_iter()), [0, 127, 128, 1, 172, 2]);
        assert_eq!(Numbers::signed([0, -1, 1, -2, i64::MIN].into_iter())[..4], [0, 1, 2, 3]);
        assert_eq!(differences([5, 3, 3].into_iter()).collect::<Vec<_>>(), [5, -2, 0]);
    }
}
