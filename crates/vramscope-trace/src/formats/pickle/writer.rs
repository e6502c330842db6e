//! Writes a trace as PyTorch does: protocol 4, batches of a thousand, frames and stacks by reference.

use std::io::{self, BufWriter, Write};
#[cfg(not(target_family = "wasm"))]
use std::path::Path;

use hashbrown::HashMap;
#[cfg(not(target_family = "wasm"))]
use vramscope_files::Target;

use super::opcode::*;
use crate::end_state::{Block, Segment};
use crate::events::{Action, PoolId};
use crate::formats::{DEVICES, LONGEST_STRING, no_such_device};
use crate::ids::{FrameId, StackId, StringId, StringListId};
use crate::settings::{AllocatorSettings, PowerOfTwoDivisions, SettingValue, TorchSettings};
use crate::trace::{DeviceTrace, Trace};

/// Maximum batch size of `pickle.dump`; memory_viz fails on very large batches.
const BATCH: usize = 1000;

/// Writes `trace` as a snapshot that CPython's `pickle.load`, `torch.cuda._memory_viz` and the memory_viz page open. Reading it gives
/// an equal trace, except that strings above 16 MiB are cut.
///
/// # Errors
/// Errors of `out`. [`io::ErrorKind::InvalidInput`] for a device number outside -1 to 1023, which no reader accepts.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    if let Some(d) = trace.devices.iter().find(|d| !DEVICES.contains(&d.device)) {
        return Err(no_such_device(d.device));
    }
    let mut w = Writer {
        out: BufWriter::new(out),
        trace,
        literals: HashMap::new(),
        strings: vec![None; trace.strings.len()],
        frames: vec![None; trace.frames.len()],
        stacks: vec![None; trace.stacks.len()],
        memo: 0,
    };
    w.out.write_all(&[PROTO, 4])?;
    w.snapshot()?;
    w.out.write_all(&[STOP])?;
    w.out.flush()
}

/// Like [`write()`], to a file. Replaces an existing file when the new one is complete and on disk. Writes to a pipe or a device in
/// place.
///
/// # Errors
/// If the file cannot be written.
#[cfg(not(target_family = "wasm"))]
pub fn write_file(trace: &Trace, path: &Path) -> io::Result<()> {
    let target = Target::open(path)?;
    write(trace, target.file())?;
    target.finish()
}

struct Writer<'t, W: Write> {
    out: BufWriter<W>,
    trace: &'t Trace,
    /// Memo indexes of values written before.
    literals: HashMap<&'static str, u32>,
    strings: Vec<Option<u32>>,
    frames: Vec<Option<u32>>,
    stacks: Vec<Option<u32>>,
    memo: u32,
}

impl<W: Write> Writer<'_, W> {
    fn snapshot(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let devices = || trace.devices.iter().filter(|device| !device.is_host());
        self.open_dict()?;
        self.key("segments")?;
        let segments: Vec<_> = devices().flat_map(|d| d.segments.iter().map(move |s| (d, s))).collect();
        self.list(&segments, |w, (device, segment)| w.segment(device, segment))?;
        self.key("device_traces")?;
        // The events of device n are list n, and a device without events has an empty list, because the memory_viz page expects it.
        let count = devices().map(|d| d.device + 1).max().unwrap_or(0);
        let numbers: Vec<i64> = (0..count).collect();
        let device = |number: &i64| trace.devices.iter().find(|d| d.device == *number);
        self.list(&numbers, |w, number| match device(number) {
            Some(device) => w.events(device),
            None => w.op(EMPTY_LIST),
        })?;
        if devices().any(|d| d.overflowed.is_some()) {
            self.key("trace_alloc_overflowed")?;
            self.list(&numbers, |w, n| w.or_none(device(n).and_then(|d| d.overflowed), Self::bool))?;
        }
        if devices().any(|d| d.max_entries.is_some()) {
            self.key("trace_alloc_max_entries")?;
            self.list(&numbers, |w, n| w.or_none(device(n).and_then(|d| d.max_entries), Self::uint))?;
        }
        if devices().any(|d| d.total_bytes.is_some()) {
            self.key("device_total_bytes")?;
            self.list(&numbers, |w, n| w.or_none(device(n).and_then(|d| d.total_bytes), Self::uint))?;
        }
        if devices().any(|d| d.start_blocks.is_some()) {
            self.key("start_blocks")?;
            self.list(&numbers, |w, n| match device(n).and_then(|d| d.start_blocks.as_deref()) {
                Some(blocks) => w.blocks(blocks),
                None => w.op(NONE),
            })?;
        }
        if devices().any(|d| d.gap.is_some()) {
            self.key("missing_events")?;
            self.list(&numbers, |w, n| {
                let gap = device(n).and_then(|d| d.gap.clone());
                w.or_none(gap, |w, gap| w.pool(PoolId(gap.start as u64, gap.end as u64)))
            })?;
        }
        if trace.ends_early {
            self.field("ends_early", true, Self::bool)?;
        }
        self.optional("allocator_settings", trace.settings.as_ref(), Self::settings)?;
        if let Some(annotations) = &trace.annotations {
            self.key("external_annotations")?;
            self.list(annotations, |w, a| {
                w.open_dict()?;
                w.field("stage", a.stage.name(), Self::literal)?;
                w.field("name", a.name, Self::string)?;
                w.field("device", a.device, Self::int)?;
                w.optional("time_us", a.time_us, Self::int)?;
                w.op(SETITEMS)
            })?;
        }
        let unused = DeviceTrace { device: -1, ..DeviceTrace::default() };
        let host = trace.devices.iter().find(|device| device.is_host());
        if let Some(host) = host.or_else(|| trace.records_host.then_some(&unused)) {
            self.key("host_segments")?;
            self.list(&host.segments, |w, segment| w.segment(host, segment))?;
            self.key("host_traces")?;
            self.events(host)?;
        }
        self.op(SETITEMS)
    }

    fn segment(&mut self, device: &DeviceTrace, s: &Segment) -> io::Result<()> {
        self.open_dict()?;
        self.field("device", device.device, Self::int)?;
        self.field("address", s.address, Self::uint)?;
        self.field("total_size", s.total_size, Self::uint)?;
        self.optional("allocated_size", s.allocated_size, Self::uint)?;
        self.optional("active_size", s.active_size, Self::uint)?;
        self.optional("requested_size", s.requested_size, Self::uint)?;
        self.field("stream", s.stream, Self::uint)?;
        self.field("segment_type", s.kind.name(), Self::literal)?;
        self.optional("segment_pool_id", s.pool, Self::pool)?;
        self.optional("is_expandable", s.is_expandable, Self::bool)?;
        self.frames(s.stack)?;
        self.optional("forward_frames", s.forward_frames, Self::string_list)?;
        self.key("blocks")?;
        self.blocks(device.blocks_of(s))?;
        self.op(SETITEMS)
    }

    fn blocks(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.list(blocks, |w, b| {
            w.open_dict()?;
            w.field("address", b.address, Self::uint)?;
            w.field("size", b.size, Self::uint)?;
            w.field("requested_size", b.requested_size, Self::uint)?;
            w.field("state", b.state.name(), Self::literal)?;
            w.frames(b.stack)?;
            w.optional("forward_frames", b.forward_frames, Self::string_list)?;
            w.optional("user_metadata", b.user_metadata, Self::string)?;
            w.op(SETITEMS)
        })
    }

    fn events(&mut self, device: &DeviceTrace) -> io::Result<()> {
        let numbers: Vec<usize> = (0..device.events.len()).collect();
        self.list(&numbers, |w, &i| {
            let e = device.events.get(i);
            let tags = w.trace.tags.get(e.tags);
            w.open_dict()?;
            w.key("action")?;
            match tags.unknown_action {
                Some(name) if e.action == Action::Unknown => w.string(name)?,
                _ => w.literal(e.action.name())?,
            }
            w.key(if e.action == Action::Oom { "device_free" } else { "addr" })?;
            w.uint(e.address_or_free)?;
            w.field("size", e.size, Self::uint)?;
            w.field("stream", tags.stream, Self::uint)?;
            w.optional("time_us", e.time_us, Self::int)?;
            w.optional("compile_context", tags.compile_context, Self::string)?;
            w.optional("user_metadata", tags.user_metadata, Self::string)?;
            w.optional("internal_metadata", tags.internal_metadata, Self::string)?;
            w.optional("pool_id", tags.pool, Self::pool)?;
            w.optional("category", tags.category, Self::string)?;
            w.optional("frames", e.stack, Self::stack)?;
            w.optional("forward_frames", tags.forward_frames, Self::string_list)?;
            w.op(SETITEMS)
        })
    }

    fn settings(&mut self, s: &AllocatorSettings) -> io::Result<()> {
        self.open_dict()?;
        self.optional(self.trace.kind.conf_key(), s.conf_text.as_deref(), Self::text)?;
        for setting in TorchSettings::ALL {
            let (Some(key), Some(value)) = (setting.recorded, setting.get(&s.recorded)) else { continue };
            self.key(key)?;
            match value {
                SettingValue::Int(n) => self.int(n)?,
                SettingValue::Float(x) => self.float(x)?,
                SettingValue::Bool(b) => self.bool(b)?,
                SettingValue::Divisions(divisions) => self.divisions(divisions)?,
                SettingValue::Word(text) => self.text(text)?,
            }
        }
        self.op(SETITEMS)
    }

    fn divisions(&mut self, divisions: PowerOfTwoDivisions) -> io::Result<()> {
        self.open_dict()?;
        for (i, &n) in divisions.0.iter().enumerate() {
            self.text(&(1u64 << i).to_string())?;
            self.uint(n)?;
        }
        self.op(SETITEMS)
    }

    fn frame(&mut self, id: FrameId) -> io::Result<()> {
        if let Some(place) = self.frames[id.index()] {
            return self.get(place);
        }
        let frame = self.trace.frames.get(id);
        // The dictionary gets its memo index before its strings do.
        self.op(EMPTY_DICT)?;
        self.frames[id.index()] = Some(self.memoize()?);
        self.op(MARK)?;
        self.field("name", frame.name, Self::string)?;
        self.field("filename", frame.filename, Self::string)?;
        self.field("line", frame.line.into(), Self::uint)?;
        self.optional("fx_node_op", frame.fx.op, Self::string)?;
        self.optional("fx_node_name", frame.fx.name, Self::string)?;
        self.optional("fx_node_target", frame.fx.target, Self::string)?;
        self.optional("fx_original_trace", frame.fx.original_trace, Self::string)?;
        self.op(SETITEMS)
    }

    /// Writes the stack of a segment or block. As in PyTorch, the key is present even without a stack, unlike for an event.
    fn frames(&mut self, stack: Option<StackId>) -> io::Result<()> {
        self.key("frames")?;
        match stack {
            Some(stack) => self.stack(stack),
            None => self.op(EMPTY_LIST),
        }
    }

    fn stack(&mut self, id: StackId) -> io::Result<()> {
        if let Some(place) = self.stacks[id.index()] {
            return self.get(place);
        }
        self.op(EMPTY_LIST)?;
        self.stacks[id.index()] = Some(self.memoize()?);
        let frames = self.trace.stacks.get(id);
        self.batches(frames, |w, &frame| w.frame(frame))
    }

    fn string_list(&mut self, id: StringListId) -> io::Result<()> {
        let strings = self.trace.string_lists.get(id);
        self.list(strings, |w, &s| w.string(s))
    }

    fn pool(&mut self, pool: PoolId) -> io::Result<()> {
        self.uint(pool.0)?;
        self.uint(pool.1)?;
        self.op(TUPLE2)
    }

    fn string(&mut self, id: StringId) -> io::Result<()> {
        if let Some(place) = self.strings[id.index()] {
            return self.get(place);
        }
        self.text(self.trace.strings.get(id))?;
        self.strings[id.index()] = Some(self.memoize()?);
        Ok(())
    }

    fn key(&mut self, key: &'static str) -> io::Result<()> {
        self.literal(key)
    }

    fn literal(&mut self, s: &'static str) -> io::Result<()> {
        if let Some(&place) = self.literals.get(s) {
            return self.get(place);
        }
        self.text(s)?;
        let place = self.memoize()?;
        self.literals.insert(s, place);
        Ok(())
    }

    fn text(&mut self, s: &str) -> io::Result<()> {
        let s = &s[..s.floor_char_boundary(LONGEST_STRING)];
        match u8::try_from(s.len()) {
            Ok(n) => self.out.write_all(&[SHORT_BINUNICODE, n])?,
            Err(_) => self.op_with(BINUNICODE, &(s.len() as u32).to_le_bytes())?,
        }
        self.out.write_all(s.as_bytes())
    }

    fn uint(&mut self, n: u64) -> io::Result<()> {
        match i64::try_from(n) {
            Ok(n) => self.int(n),
            Err(_) => {
                self.op_with(LONG1, &[9])?;
                self.out.write_all(&n.to_le_bytes())?;
                self.op(0)
            }
        }
    }

    fn int(&mut self, n: i64) -> io::Result<()> {
        if let Ok(n) = u8::try_from(n) {
            self.op_with(BININT1, &[n])
        } else if let Ok(n) = u16::try_from(n) {
            self.op_with(BININT2, &n.to_le_bytes())
        } else if let Ok(n) = i32::try_from(n) {
            self.op_with(BININT, &n.to_le_bytes())
        } else {
            self.op_with(LONG1, &[8])?;
            self.out.write_all(&n.to_le_bytes())
        }
    }

    fn float(&mut self, x: f64) -> io::Result<()> {
        self.op_with(BINFLOAT, &x.to_be_bytes())
    }

    fn bool(&mut self, b: bool) -> io::Result<()> {
        self.op(if b { NEWTRUE } else { NEWFALSE })
    }

    /// Writes a key and its value.
    fn field<T>(
        &mut self,
        key: &'static str,
        value: T,
        write: impl FnOnce(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.key(key)?;
        write(self, value)
    }

    /// Writes a key and its value, if there is a value.
    fn optional<T>(
        &mut self,
        key: &'static str,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.field(key, value, write))
    }

    /// Writes a value, or Python's `None`.
    fn or_none<T>(
        &mut self,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        match value {
            Some(value) => write(self, value),
            None => self.op(NONE),
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl FnMut(&mut Self, &T) -> io::Result<()>) -> io::Result<()> {
        self.op(EMPTY_LIST)?;
        self.batches(items, write)
    }

    fn batches<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        for batch in items.chunks(BATCH) {
            self.op(MARK)?;
            for item in batch {
                write(self, item)?;
            }
            self.op(APPENDS)?;
        }
        Ok(())
    }

    fn open_dict(&mut self) -> io::Result<()> {
        self.out.write_all(&[EMPTY_DICT, MARK])
    }

    /// Puts the last written value into the memo.
    fn memoize(&mut self) -> io::Result<u32> {
        self.op(MEMOIZE)?;
        self.memo =
            self.memo.checked_add(1).ok_or_else(|| io::Error::other("more than 4 billion objects"))?;
        Ok(self.memo - 1)
    }

    fn get(&mut self, place: u32) -> io::Result<()> {
        match u8::try_from(place) {
            Ok(i) => self.op_with(BINGET, &[i]),
            Err(_) => self.op_with(LONG_BINGET, &place.to_le_bytes()),
        }
    }

    fn op(&mut self, opcode: u8) -> io::Result<()> {
        self.out.write_all(&[opcode])
    }

    fn op_with(&mut self, opcode: u8, argument: &[u8]) -> io::Result<()> {
        self.out.write_all(&[opcode])?;
        self.out.write_all(argument)
    }
}
