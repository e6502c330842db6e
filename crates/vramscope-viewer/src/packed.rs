//! Everything about recordings in one answer, for a page that has no server behind it.
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

use crate::answers::stack;
use crate::columns::{Answer, Columns, U8s};
use crate::device::OpenDevice;
use crate::protocol::{Names, PoolPeaks, Recording, Regions, Replay, Report};
use crate::recording::OpenRecording;
use crate::tables::{action, kind, origin};

/// What a self-contained page carries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Packed<'r> {
    recordings: Vec<Recording<'r>>,
    files: Vec<PackedFile<'r>>,
}

/// What it carries of a file beside the recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedFile<'r> {
    names: Names<'r>,
    devices: Vec<PackedDevice<'r>>,
}

/// One device, packed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedDevice<'r> {
    report: Report,
    /// Null where the recording cannot be replayed.
    replay: Option<Replay>,
    pools: &'r [PoolPeaks],
    regions: Regions<'r>,
    allocations: PackedAllocations,
    events: PackedEvents,
    ranges: PackedRanges,
}

/// Every allocation. Columns are of variable-length numbers where nothing else is said.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedAllocations {
    /// Each address once: signed differences.
    addresses: U8s,
    /// Positions in `addresses`.
    address: U8s,
    requested: U8s,
    /// Signed: the block's bytes beyond the request rounded up to 512 bytes.
    beyond: U8s,
    /// Signed differences of moments.
    from: U8s,
    /// Moments counted from `from`: 0 is never, 1 the same.
    freed: U8s,
    /// Moments counted from `freed`.
    to: U8s,
    /// 0 is none.
    stack: U8s,
    tags: U8s,
    /// A byte each: the position in `ORIGINS`, and 4 where the size is inferred.
    origin: U8s,
}

/// Every event, without what its allocation tells.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedEvents {
    /// A byte each: the position in `ACTIONS`.
    action: U8s,
    /// 0 is none, 1 a new one, 2 the newest, 3 the one before it ...
    allocation: U8s,
    /// Signed differences of microseconds since the Unix epoch; empty where not every event has a time.
    time: U8s,
    /// Events about an allocation that tell another size than it has: signed differences of their numbers, and the sizes.
    odd_event: U8s,
    odd_bytes: U8s,
    /// Of the events about an allocation that do not make it.
    free_stack: U8s,
    free_tags: U8s,
    /// Of the events about no allocation.
    lone_address: U8s,
    lone_bytes: U8s,
    lone_stack: U8s,
    lone_tags: U8s,
}

/// Ranges of reserved memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedRanges {
    /// Signed differences.
    address: U8s,
    bytes: U8s,
    from: U8s,
    /// Moments counted from `from`.
    to: U8s,
    tags: U8s,
    /// A byte each: the position in `SEGMENT_KINDS`, and 4 where it is expandable.
    kind: U8s,
    /// 0 is none.
    stack: U8s,
}

/// The recordings as one answer.
pub(crate) fn pack(recordings: &[OpenRecording]) -> Answer {
    let mut columns = Columns::default();
    let mut files = Vec::new();
    for file in recordings {
        let names = file.names(&mut columns);
        let mut devices = Vec::new();
        for (position, device) in file.devices.iter().enumerate() {
            devices.push(PackedDevice {
                report: file.report(position, &Cancel::default())?,
                replay: file.replay(position, &Cancel::default()).ok(),
                pools: device.pools(),
                regions: device.regions(&mut columns),
                allocations: allocations(device, &mut columns),
                events: events(device, &mut columns),
                ranges: ranges(device, &mut columns),
            });
        }
        files.push(PackedFile { names, devices });
    }
    let recordings = recordings.iter().map(OpenRecording::overview).collect();
    columns.behind(&Packed { recordings, files })
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

fn allocations(device: &OpenDevice, columns: &mut Columns) -> PackedAllocations {
    let allocations = &device.history().allocations;
    // Few addresses serve many allocations: each once, then by number.
    let mut numbers: HashMap<u64, u64> = HashMap::new();
    let mut distinct: Vec<u64> = Vec::new();
    let of_address: Vec<u64> = allocations
        .iter()
        .map(|a| {
            *numbers.entry(a.address).or_insert_with(|| {
                distinct.push(a.address);
                distinct.len() as u64 - 1
            })
        })
        .collect();
    let beyond = allocations.iter().map(|a| a.size.wrapping_sub(rounded(a.requested)) as i64);
    let marks = allocations.iter().map(|a| origin(a.origin) | (u8::from(a.size_inferred) << 2));
    PackedAllocations {
        addresses: columns.u8(Numbers::signed(differences(distinct.iter().copied()))),
        address: columns.u8(Numbers::of(of_address.into_iter())),
        requested: columns.u8(Numbers::of(allocations.iter().map(|a| a.requested))),
        beyond: columns.u8(Numbers::signed(beyond)),
        from: columns.u8(Numbers::signed(differences(allocations.iter().map(|a| a.from.index() as u64)))),
        freed: columns.u8(Numbers::of(allocations.iter().map(|a| since(a.freed, a.from)))),
        to: columns.u8(Numbers::of(allocations.iter().map(|a| since(a.to, a.freed.min(a.to))))),
        stack: columns.u8(Numbers::of(allocations.iter().map(|a| or_none(stack(a.stack))))),
        tags: columns.u8(Numbers::of(device.tags.allocations.iter().map(|&t| u64::from(t)))),
        origin: columns.u8(marks),
    }
}

fn events(device: &OpenDevice, columns: &mut Columns) -> PackedEvents {
    let history = device.history();
    let allocations = &history.allocations;
    let events = &history.device().events;
    let subject = |event: usize| history.subject_number(event);
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
    PackedEvents {
        action: columns.u8(events.actions().iter().map(|&a| action(a))),
        allocation: columns.u8(subjects),
        time: columns.u8(Numbers::signed(differences(times.into_iter()))),
        odd_event: columns.u8(Numbers::signed(differences(odd().map(|(e, _)| e as u64)))),
        odd_bytes: columns.u8(Numbers::of(odd().map(|(_, size)| size))),
        free_stack: columns.u8(Numbers::of(frees().map(|e| or_none(stack(e.stack))))),
        free_tags: columns.u8(Numbers::of(frees().map(|e| e.tags.index() as u64))),
        lone_address: columns.u8(Numbers::of(lone().map(|e| e.address))),
        lone_bytes: columns.u8(Numbers::of(lone().map(|e| e.size))),
        lone_stack: columns.u8(Numbers::of(lone().map(|e| or_none(stack(e.stack))))),
        lone_tags: columns.u8(Numbers::of(lone().map(|e| e.tags.index() as u64))),
    }
}

fn ranges(device: &OpenDevice, columns: &mut Columns) -> PackedRanges {
    let ranges = &device.history().reserved;
    PackedRanges {
        address: columns.u8(Numbers::signed(differences(ranges.iter().map(|r| r.address)))),
        bytes: columns.u8(Numbers::of(ranges.iter().map(|r| r.size))),
        from: columns.u8(Numbers::of(ranges.iter().map(|r| r.from.index() as u64))),
        to: columns.u8(Numbers::of(ranges.iter().map(|r| since(r.to, r.from)))),
        tags: columns.u8(Numbers::of(device.tags.ranges.iter().map(|&t| u64::from(t)))),
        kind: columns.u8(ranges.iter().map(|r| kind(r.kind) | (u8::from(r.expandable) << 2))),
        stack: columns.u8(Numbers::of(ranges.iter().map(|r| or_none(stack(r.stack))))),
    }
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
