//! Writes a recording while it happens.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{self, Write};
use std::time::SystemTime;

use hashbrown::HashMap;

use super::{
    ANNOTATION, BLOCK, CHUNK_HEADER, CHUNK_SEAL, DEEPEST, DEVICE, END, EVENT, LONGEST_STRING, MAGIC, SEGMENT,
    SETTINGS, SITE, STACK, STRING, SYMBOLS, VERSION, names, settings,
};
use crate::annotations::Stage;
use crate::end_state::{BlockState, SegmentKind};
use crate::events::{Action, PoolId};
use crate::settings::{AllocatorSettings, SettingValue, TorchSettings};

/// A chunk is closed when it has this many bytes. A reader holds one at a time.
const CHUNK: usize = 1 << 20;

/// Writes a recording while the program runs, so that one that is killed leaves a file that opens.
///
/// The recording methods add to a buffer and cannot fail; [`flush`](Self::flush) hands the buffer to `out`. What
/// was not flushed when the program is killed, or the writer dropped, is lost.
///
/// Events come in the order in which they happened. Devices have numbers from 0 to 1023, and the host is -1; a
/// recording with others cannot be read. Strings are cut at 1 MiB, and stacks at 65,536 sites.
///
/// ```
/// use vramscope_trace::formats::log::{LogEvent, LogFrame, LogWriter};
/// use vramscope_trace::{Action, SegmentKind, formats};
///
/// let mut log = LogWriter::create(Vec::new())?;
/// let site = log.site(LogFrame { name: "0x5581e0c2f0", filename: "??", line: 0 });
/// let stack = log.stack(&[site]);
/// log.event(&LogEvent {
///     device: 0, action: Action::Alloc, address: 0x7f00_0000_0000, size: 24, block_size: 512, time_us: 7,
///     stack: Some(stack), stream: 0, pool: None, user_metadata: None, kind: SegmentKind::Unknown,
///     unknown_action: None,
/// });
/// log.symbols(site, &[LogFrame { name: "main", filename: "main.rs", line: 3 }]);
/// log.flush()?;
///
/// let trace = formats::read(&log.finish()?[..], &mut |_| {})?.trace;
/// assert_eq!(trace.devices[0].events.get(0).size, 24);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogWriter<W> {
    out: W,
    /// Closed chunks, then the one that grows, where there is one.
    buffer: Vec<u8>,
    /// Where the chunk that grows begins.
    chunk: usize,
    /// The time before in that chunk.
    time_us: i64,
    run: u64,
    /// Chunks that are closed.
    chunks: u32,
    strings: HashMap<Box<str>, u64>,
    sites: u32,
    stacks: u32,
}

/// A code address in a recording; of the writer that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogSite(u32);

/// A stack in a recording; of the writer that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogStack(u32);

/// One line of a stack trace, as in [`Frame`](crate::Frame).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFrame<'a> {
    /// Function name.
    pub name: &'a str,
    /// Path of the source file; `??` where unknown.
    pub filename: &'a str,
    /// Line number from 1; 0 where unknown.
    pub line: u32,
}

/// An event, as in [`Event`](crate::Event) and [`Tags`](crate::Tags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// The device's number; -1 for the host.
    pub device: i64,
    /// What happened.
    pub action: Action,
    /// The name of what happened, of [`Action::Unknown`]. Otherwise it is not written.
    pub unknown_action: Option<&'a str>,
    /// The device address; of [`Action::Oom`] the bytes the driver still had free.
    pub address: u64,
    /// Bytes: of `alloc` and the frees as requested by the caller, and otherwise as in [`Event`](crate::Event).
    pub size: u64,
    /// Of `alloc`: bytes of the block, after rounding. It may not be 0. Otherwise it is not written.
    pub block_size: u64,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
    /// Where it happened.
    pub stack: Option<LogStack>,
    /// The raw `cudaStream_t`; 0 is the default stream.
    pub stream: u64,
    /// The pool; `(0, 0)` is the default pool.
    pub pool: Option<PoolId>,
    /// Text the program set.
    pub user_metadata: Option<&'a str>,
    /// Of `segment_alloc` and `segment_map`: the pool the segment serves. Otherwise it is not written.
    pub kind: SegmentKind,
}

/// A segment that was there when recording began, as in [`Segment`](crate::Segment).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSegment {
    /// First byte on the device.
    pub address: u64,
    /// Bytes taken from the device.
    pub total_size: u64,
    /// The raw `cudaStream_t` the segment serves; 0 is the default stream.
    pub stream: u64,
    /// Which pool it serves.
    pub kind: SegmentKind,
    /// The private pool it belongs to; `(0, 0)` is the default pool.
    pub pool: Option<PoolId>,
    /// Part of an expandable segment. Such parts become one segment where they touch.
    pub is_expandable: bool,
    /// Where the memory was taken from the device.
    pub stack: Option<LogStack>,
}

/// A block of it, as in [`Block`](crate::Block).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBlock {
    /// First byte on the device.
    pub address: u64,
    /// Bytes, after rounding.
    pub size: u64,
    /// Bytes the caller asked for.
    pub requested_size: u64,
    /// What the block is doing. Inactive blocks may be left out: they are what is between the others.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: Option<LogStack>,
}

impl<W: Write> LogWriter<W> {
    /// Begins a recording in `out`, which needs no buffer of its own.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn create(out: W) -> io::Result<Self> {
        // Random by the keys of a hash table; a forked process has its parent's keys, but not its number.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::create_run(out, RandomState::new().hash_one((now, std::process::id())))
    }

    /// As [`create`](Self::create), of a run whose number the caller gives. No two recordings that may come
    /// into the same file have the same.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn create_run(out: W, run: u64) -> io::Result<Self> {
        let buffer = [&MAGIC[..], &VERSION.to_le_bytes(), &run.to_le_bytes()].concat();
        let chunk = buffer.len();
        let strings = HashMap::new();
        let mut this = Self { out, buffer, chunk, time_us: 0, run, chunks: 0, strings, sites: 0, stacks: 0 };
        for name in names::all() {
            this.string(name);
        }
        this.flush()?;
        Ok(this)
    }

    /// Adds a code address, by what is known of it without symbols. The caller keeps what is returned: the same
    /// address given twice stands in the file twice.
    pub fn site(&mut self, fallback: LogFrame<'_>) -> LogSite {
        let frame = self.frame(fallback);
        self.begin(SITE);
        self.uints(frame);
        self.sites = self.sites.saturating_add(1);
        LogSite(self.sites - 1)
    }

    /// Says what `site` is, innermost frame first: several where calls were inlined. It takes the place of what
    /// was said before, and may come at any time, also after what uses the site.
    pub fn symbols(&mut self, site: LogSite, frames: &[LogFrame<'_>]) {
        let frames: Vec<[u64; 3]> = frames.iter().take(DEEPEST).map(|&f| self.frame(f)).collect();
        self.begin(SYMBOLS);
        self.uints([u64::from(site.0), frames.len() as u64]);
        for frame in frames {
            self.uints(frame);
        }
    }

    /// Adds a stack, innermost site first. The caller keeps what is returned: the same stack given twice stands
    /// in the file twice.
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

    /// Says the allocator's settings; the last ones hold. [`conf`](AllocatorSettings::conf) is not written: a
    /// reader parses it from the text, and takes no text for an empty one.
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

    /// A setting's type and value.
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
                // Each is off or a power of two.
                let bytes = divisions.0.map(|n| n.checked_ilog2().map_or(0, |log2| log2 as u8 + 1));
                self.buffer.extend(bytes);
            }
            SettingValue::Word(text) => {
                self.buffer.push(settings::WORD);
                self.text(text);
            }
        }
    }

    /// Says that a device is recorded, even where nothing happens on it.
    pub fn device(&mut self, device: i64) {
        self.begin(DEVICE);
        self.int(device);
    }

    /// Adds a segment that a device had when recording began. All of them come before the device's events.
    pub fn segment(&mut self, device: i64, s: &LogSegment) {
        let kind = self.string(names::of_kind(s.kind));
        self.begin(SEGMENT);
        self.int(device);
        self.address(s.address);
        self.uints([s.total_size, s.stream]);
        self.uint(kind);
        self.optional(s.pool, |w, PoolId(first, second)| w.uints([first, second]));
        self.bool(s.is_expandable);
        self.number(s.stack.map(|s| u64::from(s.0)));
    }

    /// Adds a block of the segment that was added last.
    pub fn block(&mut self, b: &LogBlock) {
        let state = self.string(b.state.name());
        self.begin(BLOCK);
        self.address(b.address);
        self.uints([b.size, b.requested_size]);
        self.uint(state);
        self.number(b.stack.map(|s| u64::from(s.0)));
    }

    /// Adds an event.
    pub fn event(&mut self, e: &LogEvent<'_>) {
        let name = match (e.action, e.unknown_action) {
            // A name that has a meaning of its own would be read with it.
            (Action::Unknown, Some(name)) if names::action(name).is_none() => name,
            (action, _) => action.name(),
        };
        let action = self.string(name);
        let kind = match e.action {
            Action::SegmentAlloc | Action::SegmentMap => Some(self.string(names::of_kind(e.kind))),
            _ => None,
        };
        let user_metadata = e.user_metadata.map(|text| self.string(text));
        self.begin(EVENT);
        self.uint(action);
        self.int(e.device);
        self.address(e.address);
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

    /// Adds one end of a region that the program named, as in [`Annotation`](crate::Annotation): `device` is the
    /// current one, -1 where there is none, and `time_us` is in microseconds since the Unix epoch.
    pub fn annotation(&mut self, stage: Stage, name: &str, device: i64, time_us: i64) {
        let stage = self.string(names::of_stage(stage));
        let name = self.string(name);
        self.begin(ANNOTATION);
        self.uint(stage);
        self.uint(name);
        self.int(device);
        self.time(time_us);
    }

    /// What is written to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Bytes that a flush would write.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// Hands what was recorded to `out`, as one write, and flushes that.
    ///
    /// # Errors
    /// Where `out` fails. What it did not take is kept, and the next flush goes on where this one stopped.
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
        self.out.flush()
    }

    /// Says that the recording is whole, flushes it and gives `out` back.
    ///
    /// # Errors
    /// Where `out` fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.begin(END);
        self.flush()?;
        Ok(self.out)
    }

    /// Begins a record, in a new chunk where the last one has grown enough.
    fn begin(&mut self, tag: u8) {
        if self.buffer.len() - self.chunk >= CHUNK {
            self.close_chunk();
        }
        if self.buffer.len() == self.chunk {
            self.buffer.extend([0; CHUNK_HEADER]);
            self.time_us = 0;
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

    /// The number of `s`, which is written if it is new.
    fn string(&mut self, s: &str) -> u64 {
        let s = clip(s);
        if let Some(&number) = self.strings.get(s) {
            return number;
        }
        let number = self.strings.len() as u64;
        self.strings.insert(s.into(), number);
        self.begin(STRING);
        self.text(s);
        number
    }

    /// The fields of a frame, whose strings are written if they are new.
    fn frame(&mut self, f: LogFrame<'_>) -> [u64; 3] {
        [self.string(f.name), self.string(f.filename), u64::from(f.line)]
    }

    fn uint(&mut self, n: u64) {
        // Every number of 64 bits can be written.
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

    /// The number of something that may be absent.
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

    /// Whether there is a value, and the value.
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

/// As much of `s` as is written.
fn clip(s: &str) -> &str {
    &s[..s.floor_char_boundary(LONGEST_STRING)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that has room for so many bytes.
    struct Disk(Vec<u8>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.1 - self.0.len());
            self.0.extend(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_nothing_once_there_is_room() {
        let begin = LogWriter::create(Disk(Vec::new(), 1000)).unwrap().out.0.len();
        let mut log = LogWriter::create(Disk(Vec::new(), begin + 8)).unwrap();
        log.device(3);
        assert_eq!(log.flush().unwrap_err().kind(), io::ErrorKind::WriteZero);
        log.device(1);
        assert!(log.flush().is_err());
        log.out.1 = 1000;
        let disk = log.finish().unwrap();
        let recording = crate::formats::read(&disk.0[..], &mut |_| {}).unwrap();
        assert_eq!(recording.trace.devices.len(), 4);
        assert_eq!(recording.notices, crate::Notices::default());
    }

    #[test]
    fn a_flush_writes_once_and_nothing_where_nothing_waits() {
        let mut log = LogWriter::create(Vec::new()).unwrap();
        let header = log.out.len();
        log.flush().unwrap();
        assert_eq!((log.out.len(), log.pending()), (header, 0));
        // Two bytes each: two chunks.
        for i in 0..600_000 {
            log.device(i % 2);
        }
        assert_eq!(log.out.len(), header);
        log.flush().unwrap();
        assert_eq!(log.out.len(), header + 2 * CHUNK_HEADER + 1_200_000);
    }
}
