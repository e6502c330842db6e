//! The events of msMemScope (`memscope_dump_*.csv`) on Ascend NPUs. Its `output_file_spec.md` describes the columns.
//!
//! Allocations and frees are read: those of the driver (`HAL`) as segments, those of the pools above it as allocations. Memory of the host
//! is the host's. Other events (accesses, operators, kernels, marks) are not read. A file has one device. msMemScope writes the rows of a
//! block when it is freed (`csrc/analysis/dump.cpp`), so rows are sorted by time.

use super::super::rows::{RowEnd, Rows};
use super::super::window::Window;
use super::super::{Contents, Format, FormatReader};
use super::{Builder, RowOf, add_rows, address};
use crate::devices::{DeviceKind, OtherAllocator};
use crate::error::{ReadError, TableFull};
use crate::events::{Action, Event, Tags};
use crate::ids::StackId;

/// The reader of msMemScope's events.
#[derive(Debug)]
pub(in crate::formats) struct Memscope;

const HEADER: &[u8] = b"ID,Event,Event Type,Name,Timestamp(ns),";

/// Maximum number of frames of a stack.
const DEEPEST: usize = 1024;

/// Events that are not read (`EVENT_BASE_TYPE_MAP` in msMemScope's `csrc/analysis/constant.h`).
const OTHER_EVENTS: [&str; 8] =
    ["SYSTEM", "ACCESS", "OP_LAUNCH", "KERNEL_LAUNCH", "CLEAN_UP", "SNAPSHOT", "OOM_DETAIL", "N/A"];

/// Whether a line begins with the number and the name of an event. No line of a stack does.
fn is_row(line: &[u8]) -> bool {
    let mut fields = line.split(|&byte| byte == b',');
    let is =
        |field: Option<&[u8]>, of: fn(&u8) -> bool| field.is_some_and(|f| !f.is_empty() && f.iter().all(of));
    is(fields.next(), u8::is_ascii_digit) && is(fields.next(), |&b| b.is_ascii_uppercase() || b == b'_')
}

impl FormatReader for Memscope {
    fn takes(&self, start: &[u8]) -> bool {
        start.starts_with(HEADER)
    }

    fn read(&self, stream: Window<'_>) -> Result<Contents, ReadError> {
        let mut rows = Rows::new(stream, is_row);
        let mut builder = Builder::new(rows.most_memory());
        rows.next()?;
        let columns = Columns::of(&rows);
        add_rows(&mut rows, &mut builder, "msMemScope", |rows, builder| {
            let is_free = match &*rows.field(columns.event) {
                // The name of a mark may have quotes.
                "MSTX" => return Ok(RowOf::Skipped),
                _ if rows.len() != columns.count || rows.end() == RowEnd::Damaged => {
                    return Ok(RowOf::Invalid);
                }
                event if OTHER_EVENTS.contains(&event) => return Ok(RowOf::Skipped),
                "MALLOC" => false,
                "FREE" => true,
                _ => return Ok(RowOf::Invalid),
            };
            let event = event(rows, &columns, is_free, builder)?;
            Ok(event.map_or(RowOf::Invalid, |(device, event)| RowOf::Event(device, event)))
        })?;
        builder.sort();
        Ok(builder.finish(OtherAllocator::Memscope, DeviceKind::Npu, Format::Memscope))
    }
}

/// The positions of the columns. Releases differ in the last ones.
struct Columns {
    count: usize,
    event: usize,
    event_type: usize,
    time: usize,
    device: usize,
    pointer: usize,
    attributes: usize,
    stacks: [usize; 2],
}

impl Columns {
    fn of(rows: &Rows<'_>) -> Self {
        let named = |name: &str| {
            (0..rows.len()).find(|&i| rows.field(i).eq_ignore_ascii_case(name)).unwrap_or(usize::MAX)
        };
        Self {
            count: rows.len(),
            event: named("Event"),
            event_type: named("Event Type"),
            time: named("Timestamp(ns)"),
            device: named("Device Id"),
            pointer: named("Ptr"),
            attributes: named("Attr"),
            stacks: ["Call Stack(C)", "Call Stack(Python)"].map(named),
        }
    }
}

/// Converts a row to an event of a device; `None` if it is not an event.
fn event(
    rows: &Rows<'_>,
    columns: &Columns,
    is_free: bool,
    builder: &mut Builder,
) -> Result<Option<(i64, Event)>, ReadError> {
    let device = match &*rows.field(columns.device) {
        "host" | "cpu" => -1,
        number => match number.trim().parse::<i64>() {
            Ok(number) if number >= 0 => number,
            _ => return Ok(None),
        },
    };
    let is_driver = rows.field(columns.event_type) == "HAL" && device >= 0;
    let action = match (is_driver, is_free) {
        (true, false) => Action::SegmentAlloc,
        (true, true) => Action::SegmentFree,
        (false, false) => Action::Alloc,
        (false, true) => Action::Free,
    };
    let attributes = rows.field(columns.attributes);
    let nanoseconds = rows.field(columns.time).trim().parse::<i64>().ok();
    let size = attribute(&attributes, "size").and_then(|size| size.trim().parse().ok());
    let (Some(nanoseconds), Some(pointer), Some(size)) =
        (nanoseconds, address(&rows.field(columns.pointer)), size)
    else {
        return Ok(None);
    };
    if let Some(used) = attribute(&attributes, "used").and_then(|used| used.trim().parse().ok()) {
        builder.count(device, used);
    }
    let owner = attribute(&attributes, "owner").filter(|owner| !owner.is_empty());
    let category = owner.map(|owner| builder.string(owner)).transpose()?;
    let tags = builder.tags(Tags { category, ..Tags::default() })?;
    let stack = stack(rows, columns, builder)?;
    let time_us = Some(nanoseconds / 1000);
    Ok(Some((device, Event { action, address_or_free: pointer, size, time_us, stack, tags })))
}

/// Returns an attribute of `{allocation_id:1,addr:0x10,size:64,owner:PTA@model}`.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let pairs = attributes.trim().trim_start_matches('{').trim_end_matches('}').split(',');
    let mut pairs = pairs.filter_map(|pair| pair.split_once(':'));
    pairs
        .find(|(key, _)| key.trim().trim_matches('"') == name)
        .map(|(_, value)| value.trim().trim_matches('"'))
}

/// Returns the stack of a row: the frames of C before those of Python, each column innermost first.
fn stack(rows: &Rows<'_>, columns: &Columns, builder: &mut Builder) -> Result<Option<StackId>, TableFull> {
    let mut frames = Vec::new();
    for column in columns.stacks {
        let text = rows.field(column);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "N/A");
        for line in lines.take(DEEPEST - frames.len()) {
            let (file, number, name) = frame(line);
            frames.push(builder.frame(name, file, number)?);
        }
    }
    if frames.is_empty() { Ok(None) } else { builder.stack(&frames).map(Some) }
}

/// Parses `file.py(12): name`. Other texts are names of compiled code.
pub(super) fn frame(line: &str) -> (&str, u32, &str) {
    let parsed = line.split_once("): ").and_then(|(place, name)| {
        let (file, number) = place.rsplit_once('(')?;
        Some((file, number.parse().ok()?, name))
    });
    parsed.unwrap_or(("??", 0, line))
}

#[cfg(test)]
mod tests;
