//! Formats of other tools. Their allocators' rules are unknown here: blocks are as recorded, and a replay refuses with the reason.
//!
//! - `rmm`: the log of RMM's `LoggingResourceAdaptor`.
//! - `memscope`: the events of msMemScope.
//! - `torch_profiler`: a Chrome trace of `torch.profiler`: its memory events as a recording, or its timed events.
//! - `jax`: JAX's profile of live memory.
//! - `nsys`: an SQLite export of Nsight Systems.

mod jax;
mod memscope;
mod nsys;
mod rmm;
mod torch_profiler;

use std::collections::BTreeMap;

use super::gap::Gap;
use super::rows::{RowEnd, Rows};
use super::{Contents, DEVICES, Format};
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::{ReadError, TableFull};
use crate::events::{Event, Events, Tags};
use crate::ids::{StackId, StringId, TagsId};
use crate::notices::Notices;
use crate::stacks::{Frame, FxNode};
use crate::trace::{DeviceTrace, Trace};

pub(super) use jax::Jax;
pub(super) use memscope::Memscope;
pub(super) use nsys::Nsys;
pub(super) use rmm::Rmm;
pub use torch_profiler::write_operators;
pub(super) use torch_profiler::{TorchProfiler, read_operators};

/// Bytes of memory that any file may take.
const FREE: u64 = 32 << 20;

/// Bytes of memory that a file may take for each byte read. The shortest row has about 20 bytes, and an event takes 33 bytes of memory.
const PER_BYTE: u64 = 16;

/// Frames that the stacks of any file may have, in addition to one for each byte read. Formats that share lines or backtraces between
/// stacks take less than a byte for a frame.
const FREE_FRAMES: u64 = 1 << 20;

/// Maximum length of a name in bytes.
const LONGEST_NAME: usize = 64 << 10;

/// A trace that grows row by row.
#[derive(Default)]
struct Builder {
    trace: Trace,
    notices: Notices,
    devices: BTreeMap<i64, (Events, Gap)>,
    /// Number of damaged places so far.
    places: u64,
    /// Highest allocated bytes of each device that the recorder counted.
    counted: BTreeMap<i64, u64>,
    events: u32,
    most_memory: u64,
    last_tags: Option<(Tags, TagsId)>,
}

impl Builder {
    /// Creates a builder whose records may take about `most_memory` bytes of memory.
    fn new(most_memory: u64) -> Self {
        Self { most_memory, ..Self::default() }
    }

    fn string(&mut self, text: &str) -> Result<StringId, TableFull> {
        self.trace.strings.intern(&text[..text.floor_char_boundary(LONGEST_NAME)])
    }

    fn tags(&mut self, tags: Tags) -> Result<TagsId, TableFull> {
        if let Some((_, id)) = self.last_tags.filter(|(last, _)| *last == tags) {
            return Ok(id);
        }
        let id = self.trace.tags.intern(tags)?;
        self.last_tags = Some((tags, id));
        Ok(id)
    }

    /// Interns a frame. Compiled code without a file has the file `??`, as in PyTorch's snapshots.
    fn frame(&mut self, name: &str, file: &str, line: u32) -> Result<crate::ids::FrameId, TableFull> {
        let (name, filename) = (self.string(name)?, self.string(file)?);
        self.trace.frames.intern(Frame { name, filename, line, fx: FxNode::default() })
    }

    /// Adds an event of a device. `offset` is the position in the file for errors.
    fn push(&mut self, device: i64, event: Event, offset: u64) -> Result<(), ReadError> {
        if !DEVICES.contains(&device) {
            let what = format!("device {device}, which no machine has");
            return Err(ReadError::Damaged { offset, what });
        }
        self.events = self.events.checked_add(1).ok_or(TableFull("event"))?;
        let (events, gap) = self.devices.entry(device).or_default();
        gap.before(events.len(), self.places);
        events.push(event);
        Ok(())
    }

    /// Notes the allocated bytes that the recorder counted on a device.
    fn count(&mut self, device: i64, bytes: u64) {
        let most = self.counted.entry(device).or_default();
        *most = bytes.max(*most);
    }

    /// Sorts the events of each device by time.
    fn sort(&mut self) {
        let mut is_sorted = true;
        for (events, _) in self.devices.values_mut() {
            let mut order: Vec<usize> = (0..events.len()).collect();
            if !order.is_sorted_by_key(|&at| events.time(at)) {
                order.sort_by_key(|&at| events.time(at));
                *events = order.iter().map(|&at| events.get(at)).collect();
                is_sorted = false;
            }
        }
        if !is_sorted && self.places > 0 {
            self.spread_gaps();
        }
    }

    /// Notes that events are missing at unknown positions. `offset` is the number of bytes read.
    fn lose_anywhere(&mut self, offset: u64) {
        self.lose(offset, 0);
        self.spread_gaps();
    }

    /// Extends the gap of each device to all its events.
    fn spread_gaps(&mut self) {
        for (_, gap) in self.devices.values_mut() {
            *gap = Gap::from_start();
        }
    }

    /// Notes damaged bytes, where events may be missing.
    fn lose(&mut self, offset: u64, bytes: u64) {
        self.notices.damage.add(offset, bytes);
        self.places += 1;
    }

    /// Fails if the records of the first `read` bytes take more memory, or their stacks have more frames, than those of a file of this size
    /// may, or if they take more memory than the reader's caller allows. `waiting` is the memory, in bytes, of values that no record uses yet.
    fn check_memory(&self, waiting: usize, read: u64) -> Result<(), ReadError> {
        let events: usize = self.events as usize * 2 * Events::BYTES_PER_EVENT;
        let memory = (self.trace.memory() + events + waiting) as u64;
        if memory > self.most_memory {
            return Err(ReadError::Memory { most: self.most_memory });
        }
        if memory > FREE + PER_BYTE * read {
            let what = format!("the bytes read so far would take more than {PER_BYTE} times as much memory");
            return Err(ReadError::Damaged { offset: read, what });
        }
        let most_frames = FREE_FRAMES + read;
        if self.trace.stacks.total_frames() as u64 > most_frames {
            let what = format!(
                "the bytes read so far share their stacks: these have more than {most_frames} frames"
            );
            return Err(ReadError::Damaged { offset: read, what });
        }
        Ok(())
    }

    /// Returns the trace of an allocator.
    fn finish(mut self, other: OtherAllocator, kind: DeviceKind, format: Format) -> Contents {
        self.trace.kind = kind;
        self.trace.settings = Some(other.settings());
        let mut host = None;
        for (device, (mut events, gap)) in self.devices {
            events.shrink_to_fit();
            let gap = gap.finish(events.len(), self.places);
            let counted_peak = self.counted.get(&device).copied();
            let device = DeviceTrace { device, events, gap, counted_peak, ..DeviceTrace::default() };
            if device.is_host() { host = Some(device) } else { self.trace.devices.push(device) }
        }
        if let Some(host) = host {
            self.trace.push_host(host);
        }
        Contents { trace: self.trace, notices: self.notices, format }
    }

    /// Interns a stack of frames, innermost first.
    fn stack(&mut self, frames: &[crate::ids::FrameId]) -> Result<StackId, TableFull> {
        self.trace.stacks.intern(frames)
    }
}

/// A row of CSV.
enum RowOf {
    /// An event of a device.
    Event(i64, Event),
    /// A row that is not read.
    Skipped,
    /// Not a row of this format.
    Invalid,
}

/// Adds the events of all further rows. `tool` is the name of the tool for errors.
fn add_rows(
    rows: &mut Rows<'_>,
    builder: &mut Builder,
    tool: &str,
    mut parse: impl FnMut(&Rows<'_>, &mut Builder) -> Result<RowOf, ReadError>,
) -> Result<(), ReadError> {
    let (mut number, mut valid) = (0u64, 0u64);
    while rows.next()? {
        let (start, bytes) = (rows.start(), rows.read() - rows.start());
        let row = parse(rows, builder)?;
        valid += u64::from(!matches!(row, RowOf::Invalid));
        match (row, rows.end()) {
            // The program was killed while it wrote the row.
            (row, RowEnd::AtEnd) => {
                builder.trace.ends_early = true;
                match row {
                    RowOf::Event(device, event) => builder.push(device, event, start)?,
                    RowOf::Skipped => {}
                    RowOf::Invalid => builder.notices.cut_off_bytes = bytes,
                }
            }
            (RowOf::Event(device, event), _) => builder.push(device, event, start)?,
            (RowOf::Skipped, _) => {}
            (RowOf::Invalid, _) => builder.lose(start, bytes),
        }
        number += 1;
        if number.is_multiple_of(1024) {
            builder.check_memory(0, rows.read())?;
        }
    }
    if builder.places > 0 && valid == 0 {
        let what = format!("no row is an event of {tool}");
        return Err(ReadError::Damaged { offset: builder.notices.damage.first, what });
    }
    builder.check_memory(0, rows.read())
}

/// Parses an address: hexadecimal after `0x`, else decimal. A null pointer is 0.
fn address(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None if matches!(text, "(nil)" | "nil" | "None") => Some(0),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(["0x10", "16", "(nil)", " 0x0 "].map(address), [Some(16), Some(16), Some(0), Some(0)]);
        assert_eq!(["", "0x", "-1", "zz"].map(address), [None; 4]);
    }

    #[test]
    fn memory_follows_the_bytes_read() {
        let mut builder = Builder::new(u64::MAX);
        builder.events = 10_000_000;
        assert!(builder.check_memory(0, 100_000_000).is_ok());
        assert!(matches!(builder.check_memory(0, 1000), Err(ReadError::Damaged { .. })));
        builder.most_memory = 1 << 20;
        assert!(matches!(builder.check_memory(0, 100_000_000), Err(ReadError::Memory { .. })));
    }
}
