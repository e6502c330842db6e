//! [`LogWriter`]: writes a recording while the program runs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{self, Write};
use std::time::SystemTime;

use hashbrown::HashMap;

use super::{
    ACCESSES, ANNOTATION, ATTACHED_AT, BLOCK, CHUNK_HEADER, CHUNK_SEAL, CUT, DEEPEST, DEVICE, DRIVER, END,
    EVENT, FACT, HOST, LAUNCHES, LONGEST_STRING, MAGIC, METADATA, NOT_FOLLOWED, NUMBERS, PROCESS, READING,
    RECORDING, SEGMENT, SETTINGS, SITE, STACK, STACKS_FROM, STRING, SYMBOLS, VERSION, names, settings,
};
use crate::accesses::AllocationAccesses;
use crate::annotations::Stage;
use crate::end_state::{BlockState, SegmentKind};
use crate::events::{Action, PoolId};
use crate::formats::{DEVICES, no_such_device};
use crate::process::{DriverMemory, HostReading, LogFact, MemoryReading};
use crate::settings::{AllocatorSettings, SettingValue, TorchSettings};

/// Size in bytes at which a chunk is closed. A reader holds one chunk at a time.
const CHUNK: usize = 1 << 18;

/// Writes a recording while the program runs. The file is readable even if the program is killed.
///
/// The recording methods append to a buffer and cannot fail. [`flush`](Self::flush) writes the buffer to `out`. Data that was not
/// flushed when the program is killed or the writer is dropped is lost.
///
/// Events must be recorded in the order in which they happened. Devices have numbers from 0 to 1023, and the host is -1; other numbers end
/// the recording, and `flush` reports them. Strings are cut at 1 MiB, and stacks at 65,536 sites.
///
/// ```
/// use vramscope_trace::formats::log::{LogEvent, LogFrame, LogWriter};
/// use vramscope_trace::{Action, SegmentKind, formats};
///
/// let mut log = LogWriter::create(Vec::new())?;
/// let site = log.site(LogFrame { name: "0x5581e0c2f0", filename: "??", line: 0 });
/// let stack = log.stack(&[site]);
/// log.event(&LogEvent {
///     device: 0, action: Action::Alloc, address_or_free: 0x7f00_0000_0000, size: 24, block_size: 512, time_us: 7,
///     stack: Some(stack), stream: 0, pool: None, user_metadata: None, kind: SegmentKind::Unknown,
///     unknown_action: None,
/// });
/// log.symbols(site, &[LogFrame { name: "main", filename: "main.rs", line: 3 }]);
/// log.flush()?;
///
/// let trace = formats::read(&log.finish()?[..])?.trace;
/// assert_eq!(trace.devices[0].events.get(0).size, 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogWriter<W> {
    out: W,
    /// Closed chunks, followed by the current chunk, if any.
    buffer: Vec<u8>,
    /// Index of the current chunk's start.
    chunk: usize,
    /// Previous time in the current chunk, in microseconds.
    time_us: i64,
    run: u64,
    /// Number of closed chunks.
    chunks: u32,
    strings: HashMap<Box<str>, u64>,
    sites: u32,
    stacks: u32,
    /// The first device number that no reader accepts, after which nothing is recorded.
    refused: Option<i64>,
}

/// A code address in a recording. Only valid for the writer that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogSite(u32);

/// A stack in a recording. Only valid for the writer that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogStack(u32);

/// One line of a stack trace, as in [`Frame`](crate::Frame).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFrame<'a> {
    /// Function name.
    pub name: &'a str,
    /// Path of the source file, or `??` if unknown.
    pub filename: &'a str,
    /// Line number from 1, or 0 if unknown.
    pub line: u32,
}

/// An event, as in [`Event`](crate::Event) and [`Tags`](crate::Tags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// The device's number; -1 for the host.
    pub device: i64,
    /// Type of the event.
    pub action: Action,
    /// Name of the action, for [`Action::Unknown`]. Not written for other actions.
    pub unknown_action: Option<&'a str>,
    /// For [`Action::Oom`], the free bytes that the driver reported; otherwise the device address.
    pub address_or_free: u64,
    /// Size in bytes. For `alloc` and the frees: as requested by the caller. Otherwise as in [`Event`](crate::Event).
    pub size: u64,
    /// For `alloc`: size of the block in bytes, after rounding; must not be 0. Not written for other actions.
    pub block_size: u64,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Stack of the event.
    pub stack: Option<LogStack>,
    /// The raw `cudaStream_t`; 0 is the default stream.
    pub stream: u64,
    /// The pool; `(0, 0)` is the default pool.
    pub pool: Option<PoolId>,
    /// Text set by the program.
    pub user_metadata: Option<&'a str>,
    /// For `segment_alloc` and `segment_map`: the pool of the segment. Not written for other actions.
    pub kind: SegmentKind,
}

/// A segment that existed when recording began, as in [`Segment`](crate::Segment).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSegment {
    /// Address of the first byte on the device.
    pub address: u64,
    /// Bytes taken from the device.
    pub total_size: u64,
    /// The raw `cudaStream_t` of the segment; 0 is the default stream.
    pub stream: u64,
    /// Small or large pool.
    pub kind: SegmentKind,
    /// The private pool; `(0, 0)` is the default pool.
    pub pool: Option<PoolId>,
    /// Whether it is part of an expandable segment. Adjacent parts merge into one segment.
    pub is_expandable: bool,
    /// Stack of the request that took the segment from the device.
    pub stack: Option<LogStack>,
}

/// A block of a [`LogSegment`], as in [`Block`](crate::Block).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBlock {
    /// Address of the first byte on the device.
    pub address: u64,
    /// Size in bytes, after rounding.
    pub size: u64,
    /// Requested bytes.
    pub requested_size: u64,
    /// State of the block. Inactive blocks may be omitted: the gaps between other blocks are inactive.
    pub state: BlockState,
    /// Stack of the allocation.
    pub stack: Option<LogStack>,
}

/// Memory allocated from the driver or freed, as in [`DriverEvent`](crate::DriverEvent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDriverEvent<'a> {
    /// The device's number; -1 for the host, and where it is unknown.
    pub device: i64,
    /// The kind of memory.
    pub memory: DriverMemory,
    /// Whether it was freed.
    pub is_free: bool,
    /// Address or handle.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// File name of the library that called.
    pub library: &'a str,
    /// Stack of the call.
    pub stack: Option<LogStack>,
}

impl<W: Write> LogWriter<W> {
    /// Starts a recording in `out`, which needs no buffering.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn create(out: W) -> io::Result<Self> {
        // The keys of a hash table are random. A forked process has its parent's keys but another process id.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::create_run(out, RandomState::new().hash_one((now, std::process::id())))
    }

    /// Like [`create`](Self::create), with the run's number. Recordings that may be written to the same file must have different
    /// numbers.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn create_run(out: W, run: u64) -> io::Result<Self> {
        let buffer = [&MAGIC[..], &VERSION.to_le_bytes(), &run.to_le_bytes()].concat();
        let chunk = buffer.len();
        let strings = HashMap::new();
        let mut this = Self {
            out,
            buffer,
            chunk,
            time_us: 0,
            run,
            chunks: 0,
            strings,
            sites: 0,
            stacks: 0,
            refused: None,
        };
        for name in names::all() {
            this.string(name);
        }
        this.flush()?;
        Ok(this)
    }

    /// Adds a code address, with a description to use until its symbols are added. The caller should keep the result: an address added
    /// twice is in the file twice.
    pub fn site(&mut self, fallback: LogFrame<'_>) -> LogSite {
        let frame = self.frame(fallback);
        self.begin(SITE);
        self.uints(frame);
        self.sites = self.sites.saturating_add(1);
        LogSite(self.sites - 1)
    }

    /// Sets the frames of `site`, innermost frame first; several frames if calls were inlined. Replaces earlier frames of the site, and
    /// may be called after the site was used.
    pub fn symbols(&mut self, site: LogSite, frames: &[LogFrame<'_>]) {
        let frames: Vec<[u64; 3]> = frames.iter().take(DEEPEST).map(|&f| self.frame(f)).collect();
        self.begin(SYMBOLS);
        self.uints([u64::from(site.0), frames.len() as u64]);
        for frame in frames {
            self.uints(frame);
        }
    }

    /// Adds a stack, innermost site first. The caller should keep the result: a stack added twice is in the file twice.
    pub fn stack(&mut self, sites: &[LogSite]) -> LogStack {
        let sites = &sites[..sites.len().min(DEEPEST)];
        self.begin(STACK);
        self.uint(sites.len() as u64);
        for site in sites {
            self.uint(u64::from(site.0));
        }
        self.stacks = self.stacks.saturating_add(1);
        LogStack(self.stacks - 1)
    }

    /// Sets the allocator's settings and replaces earlier ones. [`conf`](AllocatorSettings::conf) is not written: a reader parses it
    /// from the text. A missing text is read as an empty one.
    pub fn settings(&mut self, s: &AllocatorSettings) {
        let values = TorchSettings::ALL.iter().filter_map(|setting| {
            let value = setting.get(&s.recorded)?;
            Some((self.string(setting.recorded?), value))
        });
        let values: Vec<(u64, SettingValue<'_>)> = values.collect();
        self.begin(SETTINGS);
        self.text(s.conf_text.as_deref().unwrap_or_default());
        self.uint(values.len() as u64);
        for (key, value) in values {
            self.uint(key);
            self.value(value);
        }
    }

    /// Writes a setting's type and value.
    fn value(&mut self, value: SettingValue<'_>) {
        match value {
            SettingValue::Int(n) => {
                self.buffer.push(settings::INT);
                self.int(n);
            }
            SettingValue::Float(x) => {
                self.buffer.push(settings::FLOAT);
                self.buffer.extend(x.to_le_bytes());
            }
            SettingValue::Bool(b) => {
                self.buffer.push(settings::BOOL);
                self.bool(b);
            }
            SettingValue::Divisions(divisions) => {
                self.buffer.push(settings::DIVISIONS);
                // Each value is 0 for off, or a power of two.
                let bytes = divisions.0.map(|n| n.checked_ilog2().map_or(0, |log2| log2 as u8 + 1));
                self.buffer.extend(bytes);
            }
            SettingValue::Word(text) => {
                self.buffer.push(settings::WORD);
                self.text(text);
            }
        }
    }

    /// Records a device, even if it has no events.
    pub fn device(&mut self, device: i64) {
        if self.refuses(device) {
            return;
        }
        self.begin(DEVICE);
        self.int(device);
    }

    /// Adds a segment that a device had when recording began. All segments of a device must be added before its events.
    pub fn segment(&mut self, device: i64, s: &LogSegment) {
        if self.refuses(device) {
            return;
        }
        let kind = self.string(s.kind.name());
        self.begin(SEGMENT);
        self.int(device);
        self.address(s.address);
        self.uints([s.total_size, s.stream]);
        self.uint(kind);
        self.optional(s.pool, |w, PoolId(first, second)| w.uints([first, second]));
        self.bool(s.is_expandable);
        self.number(s.stack.map(|s| u64::from(s.0)));
    }

    /// Adds a block of the last added segment.
    pub fn block(&mut self, b: &LogBlock) {
        if self.refused.is_some() {
            return;
        }
        let state = self.string(b.state.name());
        self.begin(BLOCK);
        self.address(b.address);
        self.uints([b.size, b.requested_size]);
        self.uint(state);
        self.number(b.stack.map(|s| u64::from(s.0)));
    }

    /// Adds an event.
    pub fn event(&mut self, e: &LogEvent<'_>) {
        if self.refuses(e.device) {
            return;
        }
        let name = match (e.action, e.unknown_action) {
            // The reader would interpret a known name as that action.
            (Action::Unknown, Some(name)) if names::action(name).is_none() => name,
            (action, _) => action.name(),
        };
        let action = self.string(name);
        let kind = match e.action {
            Action::SegmentAlloc | Action::SegmentMap => Some(self.string(e.kind.name())),
            _ => None,
        };
        let user_metadata = e.user_metadata.map(|text| self.string(text));
        self.begin(EVENT);
        self.uint(action);
        self.int(e.device);
        self.address(e.address_or_free);
        self.uint(e.size);
        self.time(e.time_us);
        self.number(e.stack.map(|s| u64::from(s.0)));
        self.uint(e.stream);
        self.optional(e.pool, |w, PoolId(first, second)| w.uints([first, second]));
        self.number(user_metadata);
        if e.action == Action::Alloc {
            self.uint(e.block_size);
        }
        if let Some(kind) = kind {
            self.uint(kind);
        }
    }

    /// Adds one end of a region that the program named, as in [`Annotation`](crate::Annotation). `device` is the current device, or -1
    /// if there is none; `time_us` is in microseconds since the Unix epoch.
    pub fn annotation(&mut self, stage: Stage, name: &str, device: i64, time_us: i64) {
        let stage = self.string(stage.name());
        let name = self.string(name);
        self.begin(ANNOTATION);
        self.uint(stage);
        self.uint(name);
        self.int(device);
        self.time(time_us);
    }

    /// Marks the recording as one of a whole process; see [`ProcessEvents`](crate::ProcessEvents).
    pub fn process(&mut self) {
        self.begin(PROCESS);
    }

    /// Adds memory allocated from the driver or freed.
    pub fn driver_event(&mut self, e: &LogDriverEvent<'_>) {
        let [memory, library] = [e.memory.name(), e.library].map(|text| self.string(text));
        self.begin(DRIVER);
        self.int(e.device);
        self.uint(memory);
        self.bool(e.is_free);
        self.address(e.address);
        self.uint(e.size);
        self.time(e.time_us);
        self.uint(library);
        self.number(e.stack.map(|s| u64::from(s.0)));
    }

    /// Adds a reading of a device's memory. Its place among the events is its place in the log, whatever its own fields say.
    pub fn reading(&mut self, r: &MemoryReading) {
        if self.refuses(r.device) {
            return;
        }
        self.begin(READING);
        self.int(r.device);
        self.time(r.time_us);
        self.uints([r.used, r.total]);
    }

    /// Adds a reading of the host memory of the process.
    pub fn host(&mut self, r: &HostReading) {
        self.begin(HOST);
        self.time(r.time_us);
        self.uints([r.anonymous, r.files, r.shared]);
        self.optional(r.page_cache, Self::uint);
    }

    /// Adds the accesses so far of an allocation of this log, which replace its earlier ones.
    pub fn accesses(&mut self, a: &AllocationAccesses) {
        if self.refuses(a.device) {
            return;
        }
        let (from, to) = a.longest_idle;
        self.begin(ACCESSES);
        self.int(a.device);
        // A number is smaller beside the one before it.
        let steps =
            [(0, a.allocation), (a.allocation, a.first), (a.first, a.last), (a.first, from), (from, to)];
        self.uints(steps.map(|(before, number)| number.saturating_sub(before) as u64));
        self.uint(a.count);
    }

    /// Adds the number of launches so far, and the part of it with unknown parameters; see [`Accesses`](crate::Accesses). All accesses so
    /// far must have been added: a reader drops all accesses if events follow the last number.
    pub fn launches(&mut self, launches: u64, unknown: u64) {
        self.begin(LAUNCHES);
        self.uints([launches, unknown]);
    }

    /// Marks that events are missing here: readers find a chunk of the log missing.
    pub fn lose(&mut self) {
        self.close_chunk();
        self.chunks = self.chunks.wrapping_add(1);
    }

    /// Marks that all events so far are those of memory that was live at this time, in microseconds since the Unix epoch, and that the
    /// recording has no other earlier events; see [`LogCut`](crate::LogCut).
    pub fn cut(&mut self, time_us: i64) {
        self.begin(CUT);
        self.time(time_us);
    }

    /// Replaces the [`user_metadata`](LogEvent::user_metadata) of an earlier allocation. `event` is its index among the device's events.
    pub fn metadata(&mut self, device: i64, event: u64, text: &str) {
        if self.refuses(device) {
            return;
        }
        let text = self.string(text);
        self.begin(METADATA);
        self.int(device);
        self.uints([event, text]);
    }

    /// Adds a statement about the recording. A later one of its kind, and of the same function, replaces it.
    pub fn fact(&mut self, fact: LogFact<'_>) {
        let of_recording;
        let (name, text, number) = match fact {
            LogFact::Recording(name, text) => {
                of_recording = format!("{RECORDING}{name}");
                (&*of_recording, text, 0)
            }
            LogFact::AttachedAt(time_us) => (ATTACHED_AT, "", time_us.max(0) as u64),
            LogFact::StacksFrom(bytes) => (STACKS_FROM, "", bytes),
            LogFact::NotFollowed(function, calls) => (NOT_FOLLOWED, function, calls),
        };
        let [name, text] = [name, text].map(|text| self.string(text));
        self.begin(FACT);
        self.uints([name, text, number]);
    }

    /// Returns a writer that appends to a copy of this recording. The copy, whose rest goes to `out`, has everything that was flushed.
    /// Everything must have been flushed. This recording goes on by itself.
    pub fn continued_in<V: Write>(&self, out: V) -> LogWriter<V> {
        LogWriter {
            out,
            buffer: Vec::new(),
            chunk: 0,
            time_us: 0,
            run: self.run,
            chunks: self.chunks,
            strings: self.strings.clone(),
            sites: self.sites,
            stacks: self.stacks,
            refused: None,
        }
    }

    /// Returns the underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Returns the underlying writer, whose data must not be changed.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns the number of bytes that a flush would write.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Writes the buffer to `out` in one write, and flushes `out`.
    ///
    /// # Errors
    /// Errors of `out`. Unwritten bytes are kept, and the next flush continues with them. [`io::ErrorKind::InvalidInput`] after a
    /// record with a device number outside -1 to 1023.
    pub fn flush(&mut self) -> io::Result<()> {
        self.close_chunk();
        let mut written = 0;
        let mut result = Ok(());
        while written < self.buffer.len() && result.is_ok() {
            match self.out.write(&self.buffer[written..]) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => result = Err(e),
            }
        }
        self.buffer.drain(..written);
        self.chunk = self.buffer.len();
        result?;
        self.out.flush()?;
        self.refused.map_or(Ok(()), |device| Err(no_such_device(device)))
    }

    /// Marks the recording as complete, flushes it and returns `out`.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn finish(mut self) -> io::Result<W> {
        self.begin(END);
        self.flush()?;
        Ok(self.out)
    }

    /// Whether this record is left out: no reader accepts its device number, or that of an earlier record.
    fn refuses(&mut self, device: i64) -> bool {
        if !DEVICES.contains(&device) {
            self.refused.get_or_insert(device);
        }
        self.refused.is_some()
    }

    /// Begins a record, in a new chunk if the current one is full.
    fn begin(&mut self, tag: u8) {
        if self.buffer.len() - self.chunk >= CHUNK {
            self.close_chunk();
        }
        if self.buffer.len() == self.chunk {
            self.buffer.extend([0; CHUNK_HEADER]);
            self.time_us = 0;
            self.buffer.push(NUMBERS);
            self.uints([self.strings.len() as u64, self.sites.into(), self.stacks.into()]);
        }
        self.buffer.push(tag);
    }

    fn close_chunk(&mut self) {
        let chunk = &mut self.buffer[self.chunk..];
        if let Some(payload) = chunk.len().checked_sub(CHUNK_HEADER) {
            let (seal, sealed) = chunk.split_at_mut(CHUNK_SEAL);
            sealed[..8].copy_from_slice(&self.run.to_le_bytes());
            sealed[8..12].copy_from_slice(&self.chunks.to_le_bytes());
            seal[..4].copy_from_slice(&(payload as u32).to_le_bytes());
            seal[4..].copy_from_slice(&crc32fast::hash(sealed).to_le_bytes());
            self.chunks = self.chunks.wrapping_add(1);
        }
        self.chunk = self.buffer.len();
    }

    /// Returns the number of `s`. Writes the string if it is new.
    fn string(&mut self, s: &str) -> u64 {
        let s = clip(s);
        if let Some(&number) = self.strings.get(s) {
            return number;
        }
        self.begin(STRING);
        self.text(s);
        let number = self.strings.len() as u64;
        self.strings.insert(s.into(), number);
        number
    }

    /// Returns the fields of a frame. Writes its strings if they are new.
    fn frame(&mut self, f: LogFrame<'_>) -> [u64; 3] {
        [self.string(f.name), self.string(f.filename), u64::from(f.line)]
    }

    fn uint(&mut self, n: u64) {
        // Every 64-bit number can be encoded.
        if let Some((bytes, length)) = leb128fmt::encode_u64(n) {
            self.buffer.extend(&bytes[..length]);
        }
    }

    fn uints<const N: usize>(&mut self, numbers: [u64; N]) {
        for n in numbers {
            self.uint(n);
        }
    }

    fn int(&mut self, n: i64) {
        self.uint((n << 1 ^ n >> 63) as u64);
    }

    /// Writes an optional reference.
    fn number(&mut self, n: Option<u64>) {
        self.uint(n.map_or(0, |n| n + 1));
    }

    fn address(&mut self, address: u64) {
        self.buffer.extend(address.to_le_bytes());
    }

    fn time(&mut self, time_us: i64) {
        self.int(time_us.wrapping_sub(self.time_us));
        self.time_us = time_us;
    }

    fn bool(&mut self, value: bool) {
        self.buffer.push(value.into());
    }

    /// Writes whether there is a value, and the value.
    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn text(&mut self, s: &str) {
        let s = clip(s);
        self.uint(s.len() as u64);
        self.buffer.extend(s.as_bytes());
    }
}

/// Returns the beginning of `s` that is written.
fn clip(s: &str) -> &str {
    &s[..s.floor_char_boundary(LONGEST_STRING)]
}

#[cfg(test)]
mod tests;
