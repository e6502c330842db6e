//! Formats of other tools. Their allocators' rules are unknown here: blocks are as recorded, and a replay refuses with the reason.
//!
//! - `rmm`: the log of RMM's `LoggingResourceAdaptor`.
//! - `memscope`: the events of msMemScope.
//! - `torch_profiler`: a Chrome trace of `torch.profiler`: its memory events as a recording, or its timed events.
//! - `jax`: JAX's profile of live memory.
//! - `nsys`: an SQLite export of Nsight Systems.
//! - `rows`: rows of CSV.

mod jax;
mod memscope;
mod nsys;
mod rmm;
mod rows;
mod torch_profiler;

use std::collections::BTreeMap;

use super::{Contents, DEVICES, Format};
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::{ReadError, TableFull};
use crate::events::{Event, Events, Tags};
use crate::ids::{StackId, StringId, TagsId};
use crate::notices::Notices;
use crate::stacks::{Frame, FxNode};
use crate::trace::{DeviceTrace, Trace};

use rows::Rows;

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
struct Builder {
    trace: Trace,
    notices: Notices,
    devices: BTreeMap<i64, Events>,
    events: u32,
    most_memory: u64,
    last_tags: Option<(Tags, TagsId)>,
}

impl Builder {
    /// Creates a builder whose records may take about `most_memory` bytes of memory.
    fn new(most_memory: u64) -> Self {
        Self {
            trace: Trace::default(),
            notices: Notices::default(),
            devices: BTreeMap::new(),
            events: 0,
            most_memory,
            last_tags: None,
        }
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
        self.devices.entry(device).or_default().push(event);
        Ok(())
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
        for (device, mut events) in self.devices {
            events.shrink_to_fit();
            let device = DeviceTrace { device, events, ..DeviceTrace::default() };
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
    let mut number = 0u64;
    while let Some(is_complete) = rows.next()? {
        match parse(rows, builder)? {
            RowOf::Event(device, event) => builder.push(device, event, rows.start())?,
            RowOf::Skipped => {}
            // The program was killed while it wrote the row.
            RowOf::Invalid if !is_complete => builder.notices.cut_off_bytes = rows.read() - rows.start(),
            RowOf::Invalid => {
                let what = format!("a row that is not an event of {tool}");
                return Err(ReadError::Damaged { offset: rows.start(), what });
            }
        }
        number += 1;
        if number.is_multiple_of(1024) {
            builder.check_memory(0, rows.read())?;
        }
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
