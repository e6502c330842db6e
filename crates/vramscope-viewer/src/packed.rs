//! All data of recordings in one answer, for a page that has no server behind it.
//!
//! Columns of integers are written as variable-length numbers (LEB128), seven bits a byte. Positions and addresses are written as
//! differences, signed ones by turns (0, -1, 1, -2 ...). Training repeats itself step by step, and so do the bytes of such columns:
//! they compress well. What follows from other columns is left out:
//!
//! - an event that makes or frees an allocation has that allocation's address and, with the exceptions in `odd_event`, its size
//! - one that makes an allocation has its stack and tags, too; allocations are numbered as they come
//! - a block's size is written as what it has beyond the request rounded up to 512 bytes
//!
//! `viewer/src/source/packed.ts` reads it.

use std::collections::HashMap;

use serde::Serialize;
use vramscope_analysis::{Both, Cancel, Moment};

use crate::ViewError;
use crate::answers::stack;
use crate::columns::{Answer, Columns, U8s};
use crate::comparison::compare;
use crate::device::OpenDevice;
use crate::protocol::{Comparison, Names, PoolPeaks, Recording, Regions, Replay, Report};
use crate::recording::OpenRecording;
use crate::tables::{action, kind, origin};

/// What a self-contained page carries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Packed<'r> {
    recordings: Vec<Recording<'r>>,
    files: Vec<PackedFile<'r>>,
    comparisons: Vec<PackedComparison>,
}

/// What changed from one device to another; each is the position of its file and its own.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedComparison {
    a: [usize; 2],
    b: [usize; 2],
    comparison: Comparison,
}

/// The most comparisons in a page.
const MOST_COMPARISONS: usize = 64;

/// The names and devices of a file.
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
    /// Each address once, as signed differences.
    addresses: U8s,
    /// The address of each allocation: a position in `addresses`.
    address: U8s,
    requested: U8s,
    /// Signed numbers: the bytes of the block less those of the request rounded up to 512 bytes.
    beyond: U8s,
    /// First moments, as signed differences.
    from: U8s,
    /// When each was freed, in moments after `from`: 0 is never, 1 the same moment.
    freed: U8s,
    /// When its memory was available again, in moments after `freed`, likewise.
    to: U8s,
    /// 0 is none, other numbers are one more than that of the stack.
    stack: U8s,
    tags: U8s,
    /// A byte each.
    purpose: U8s,
    /// A byte each: the position in `ORIGINS`, and 4 where the size is inferred.
    origin: U8s,
}

/// Every event, without what its allocation tells.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedEvents {
    /// A byte each: the position in `ACTIONS`.
    action: U8s,
    /// The allocation that it is about: 0 is none, 1 a new one, 2 the newest so far, 3 the one before that ...
    allocation: U8s,
    /// Signed differences of microseconds since the Unix epoch; empty where not every event has a time.
    time: U8s,
    /// Events that name another size than their allocation has: their numbers as signed differences, and the sizes in bytes.
    odd_event: U8s,
    odd_bytes: U8s,
    /// Stacks and tags of the events that free an allocation.
    free_stack: U8s,
    free_tags: U8s,
    /// The same and addresses and bytes of the events that are about no allocation.
    lone_address: U8s,
    lone_bytes: U8s,
    lone_stack: U8s,
    lone_tags: U8s,
}

/// Ranges of reserved memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PackedRanges {
    /// Addresses as signed differences.
    address: U8s,
    bytes: U8s,
    from: U8s,
    /// When the range was given back, in moments after `from`: 0 is never.
    to: U8s,
    tags: U8s,
    /// A byte each: the position in `SEGMENT_KINDS`, and 4 where it is expandable.
    kind: U8s,
    /// 0 is none.
    stack: U8s,
}

/// The recordings as one answer.
///
/// # Errors
/// Where a report cannot be made, or the names take more than 4 GiB.
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
    let comparisons = comparisons(recordings)?;
    let recordings = recordings.iter().map(OpenRecording::overview).collect();
    columns.behind(&Packed { recordings, files, comparisons })
}

/// Of each device with each other one, those of the same number first, as many as a page has.
fn comparisons(recordings: &[OpenRecording]) -> Result<Vec<PackedComparison>, ViewError> {
    let devices = |file: usize| (0..recordings[file].devices.len()).map(move |device| [file, device]);
    let all: Vec<[usize; 2]> = (0..recordings.len()).flat_map(devices).collect();
    let number = |[file, device]: [usize; 2]| recordings[file].devices[device].history().device().device;
    let mut pairs: Vec<([usize; 2], [usize; 2])> =
        all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b).collect();
    pairs.sort_by_key(|&(a, b)| number(a) != number(b));
    let packed = pairs.into_iter().take(MOST_COMPARISONS).map(|(a, b)| {
        let of = |[file, device]: [usize; 2]| (&recordings[file], device);
        Ok(PackedComparison { a, b, comparison: compare(Both { a: of(a), b: of(b) })? })
    });
    packed.collect()
}

/// A column of variable-length numbers (LEB128).
#[derive(Default)]
struct Varints(Vec<u8>);

impl Varints {
    fn of(values: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut this = Self::default();
        values.for_each(|v| this.push(v));
        this.0
    }

    fn signed(values: impl Iterator<Item = i64>) -> Vec<u8> {
        Self::of(values.map(|v| ((v << 1) ^ (v >> 63)) as u64))
    }

    fn push(&mut self, value: u64) {
        // Every number of 64 bits can be written.
        if let Some((bytes, length)) = leb128fmt::encode_u64(value) {
            self.0.extend(&bytes[..length]);
        }
    }
}

/// Each value less the one before it; the first as it is.
fn differences(values: impl Iterator<Item = u64>) -> impl Iterator<Item = i64> {
    let mut last = 0u64;
    values.map(move |v| {
        let difference = v.wrapping_sub(last) as i64;
        last = v;
        difference
    })
}

/// A moment as its distance from another: 0 is never, 1 the same moment.
fn since(moment: Moment, other: Moment) -> u64 {
    if moment == Moment::NEVER { 0 } else { (moment.index() - other.index()) as u64 + 1 }
}

/// A number that may be missing: 0 is none, other numbers are one more than they mean.
fn or_none(n: u32) -> u64 {
    u64::from(n.wrapping_add(1))
}

fn allocations(device: &OpenDevice, columns: &mut Columns) -> PackedAllocations {
    let allocations = &device.history().allocations;
    // Many allocations share few addresses, so each address is written once, and allocations name it by its number.
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
        addresses: columns.u8(Varints::signed(differences(distinct.iter().copied()))),
        address: columns.u8(Varints::of(of_address.into_iter())),
        requested: columns.u8(Varints::of(allocations.iter().map(|a| a.requested))),
        beyond: columns.u8(Varints::signed(beyond)),
        from: columns.u8(Varints::signed(differences(allocations.iter().map(|a| a.from.index() as u64)))),
        freed: columns.u8(Varints::of(allocations.iter().map(|a| since(a.freed, a.from)))),
        to: columns.u8(Varints::of(allocations.iter().map(|a| since(a.to, a.freed.min(a.to))))),
        stack: columns.u8(Varints::of(allocations.iter().map(|a| or_none(stack(a.stack))))),
        tags: columns.u8(Varints::of(device.tags.allocations.iter().map(|&t| u64::from(t)))),
        purpose: columns.u8(device.purposes().allocations.iter().copied()),
        origin: columns.u8(marks),
    }
}

fn events(device: &OpenDevice, columns: &mut Columns) -> PackedEvents {
    let history = device.history();
    let allocations = &history.allocations;
    let events = &history.device().events;
    let subject = |event: usize| history.subject_number(event);
    let mut seen = 0;
    let subjects = Varints::of((0..events.len()).map(|e| {
        let Some(id) = subject(e) else { return 0 };
        let back = 1 + (seen - id.min(seen)) as u64;
        seen = seen.max(id + 1);
        back
    }));
    let lone = || (0..events.len()).filter(|&e| subject(e).is_none()).map(|e| events.get(e));
    // An event that makes an allocation has its stack and tags. Those of frees are written.
    let frees = || {
        (0..events.len()).filter_map(|e| {
            let a = &allocations[subject(e)?];
            (a.from != Moment::after(e)).then(|| events.get(e))
        })
    };
    // Where events are missing, a free may name another size than the allocation has that it is taken to free.
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
        time: columns.u8(Varints::signed(differences(times.into_iter()))),
        odd_event: columns.u8(Varints::signed(differences(odd().map(|(e, _)| e as u64)))),
        odd_bytes: columns.u8(Varints::of(odd().map(|(_, size)| size))),
        free_stack: columns.u8(Varints::of(frees().map(|e| or_none(stack(e.stack))))),
        free_tags: columns.u8(Varints::of(frees().map(|e| e.tags.index() as u64))),
        lone_address: columns.u8(Varints::of(lone().map(|e| e.address))),
        lone_bytes: columns.u8(Varints::of(lone().map(|e| e.size))),
        lone_stack: columns.u8(Varints::of(lone().map(|e| or_none(stack(e.stack))))),
        lone_tags: columns.u8(Varints::of(lone().map(|e| e.tags.index() as u64))),
    }
}

fn ranges(device: &OpenDevice, columns: &mut Columns) -> PackedRanges {
    let ranges = &device.history().reserved;
    PackedRanges {
        address: columns.u8(Varints::signed(differences(ranges.iter().map(|r| r.address)))),
        bytes: columns.u8(Varints::of(ranges.iter().map(|r| r.size))),
        from: columns.u8(Varints::of(ranges.iter().map(|r| r.from.index() as u64))),
        to: columns.u8(Varints::of(ranges.iter().map(|r| since(r.to, r.from)))),
        tags: columns.u8(Varints::of(device.tags.ranges.iter().map(|&t| u64::from(t)))),
        kind: columns.u8(ranges.iter().map(|r| kind(r.kind) | (u8::from(r.expandable) << 2))),
        stack: columns.u8(Varints::of(ranges.iter().map(|r| or_none(stack(r.stack))))),
    }
}

/// The smallest block that holds a request, in bytes (PyTorch's `kMinBlockSize` is 512). Most blocks have this size.
fn rounded(requested: u64) -> u64 {
    requested.max(1).checked_next_multiple_of(512).unwrap_or(requested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        assert_eq!(Varints::of([0, 127, 128, 300].into_iter()), [0, 127, 128, 1, 172, 2]);
        assert_eq!(Varints::signed([0, -1, 1, -2, i64::MIN].into_iter())[..4], [0, 1, 2, 3]);
        assert_eq!(differences([5, 3, 3].into_iter()).collect::<Vec<_>>(), [5, -2, 0]);
    }
}
