//! Reads a complete or truncated recording.

use std::collections::BTreeMap;

use super::attached::{self, ATTACHED};
use super::fields::{Fields, Result, damaged};
use super::held::{Held, HeldSegment};
use super::names::{self, version1};
use super::numbered::Numbered;
use super::{
    ACCESSES, ANNOTATION, ATTACHED_AT, BLOCK, BOOLS, CHUNK_HEADER, CHUNK_SEAL, CUT, DEVICE, DRIVER, END,
    EVENT, FACT, HOST, LAUNCHES, MAGIC, METADATA, NOT_FOLLOWED, NUMBERS, PROCESS, READING, RECORDING,
    SEGMENT, SETTINGS, SITE, STACK, STACKS_FROM, STRING, SYMBOLS, VERSION, settings,
};
use crate::accesses::{Accesses, AllocationAccesses};
use crate::annotations::{Annotation, Stage};
use crate::end_state::{Block, BlockState, SegmentKind};
use crate::error::{ReadError, TableFull};
use crate::events::{Action, Event, Events, NO_COMPILE_CONTEXT, PoolId, Tags};
use crate::formats::gap::Gap;
use crate::formats::window::Window;
use crate::formats::{Contents, DEVICES, Format};
use crate::ids::{FrameId, StackId, StringId, TagsId};
use crate::notices::{Notices, ValueKind};
use crate::process::{DriverEvent, DriverMemory, HostReading, LogCut, MemoryReading};
use crate::settings::{AllocatorSettings, TorchSettings};
use crate::stacks::{Frame, FxNode};
use crate::strings::bounds;
use crate::trace::{DeviceTrace, Trace};

/// Maximum size of a chunk in bytes. The writer closes a chunk at 1 MiB.
const LARGEST_CHUNK: usize = 64 << 20;

/// Limit on the distinct frames of a recording: a fixed number, plus one for each [`BYTES_PER_FRAME`] bytes. A frame takes a tenth of
/// that in the file and ten times that in memory, but its address, stacks and texts take far more.
const FREE_FRAMES: u64 = 1 << 18;
const BYTES_PER_FRAME: u64 = 16;

/// Limit on the total frames in all stacks of a recording: a fixed number, plus a number for each byte. A site takes one or two bytes
/// in a stack and rarely has more than two frames.
const FREE_STACK_FRAMES: u64 = 1 << 22;
const STACK_FRAMES_PER_BYTE: u64 = 2;

/// Number of stacks to resolve between memory checks.
const STACKS_BETWEEN_CHECKS: usize = 1 << 12;

/// Limit on the segments at the end of a recording: a fixed number, plus one for each [`BYTES_PER_SEGMENT`] bytes. A segment takes a
/// third of that in the file and ten times that in memory, but its allocations take more.
const FREE_SEGMENTS: u64 = 1 << 18;
const BYTES_PER_SEGMENT: u64 = 64;

/// Limit on the functions that a recording names as not followed.
const MOST_NOT_FOLLOWED: usize = 1 << 8;

/// Limit on the statements about how a process was recorded.
const MOST_STATEMENTS: usize = 1 << 8;

/// Offset of the first chunk, after the magic bytes, the version and the run.
const FIRST_CHUNK: u64 = 20;

/// Size in bytes of the header, and of the first chunk's header with the tag of its first record.
const BEGINNING: usize = FIRST_CHUNK as usize + CHUNK_HEADER + 1;
/// Number of releases of the format after this one that a version in a header may name; beyond, it is damaged.
const NEXT_VERSIONS: u32 = 4;
/// Bytes at the beginning of a file in which a chunk is sought if the header is damaged.
pub(in super::super) const SOUGHT: usize = 3 << 20;
/// Maximum size of a chunk that is sought in bytes, and of all bytes hashed for it.
const MOST_SOUGHT: (usize, usize) = (2 << 20, 64 << 20);

/// Whether a file begins with the header and the first chunk of a log, of which the magic bytes or the version may be damaged: both have
/// the run's number.
pub(super) fn begins(start: &[u8]) -> bool {
    start.len() >= BEGINNING
        && start[12..20] == start[28..36]
        && start[36..40] == [0; 4]
        && start[BEGINNING - 1] == NUMBERS
}

/// The run of the first whole chunk in the beginning of a file.
pub(in super::super) fn run_of_chunks(start: &[u8]) -> Option<u64> {
    let mut hashed = 0;
    for (at, _) in
        start.windows(CHUNK_HEADER + 1).enumerate().filter(|(_, bytes)| bytes[CHUNK_HEADER] == NUMBERS)
    {
        let word =
            |place: usize| start[at + place..].first_chunk().map_or(0, |&word| u32::from_le_bytes(word));
        let length = word(0) as usize;
        let Some(sealed) = start.get(at + CHUNK_SEAL..at + CHUNK_HEADER + length) else { continue };
        // No log has more chunks.
        if !(4..MOST_SOUGHT.0).contains(&length) || word(16) > 1 << 28 {
            continue;
        }
        hashed += sealed.len();
        if hashed > MOST_SOUGHT.1 {
            return None;
        }
        if crc32fast::hash(sealed) == word(4) {
            return sealed.first_chunk().map(|&run| u64::from_le_bytes(run));
        }
    }
    None
}

/// Reads a stream that begins with [`MAGIC`], or whose header is damaged.
pub(super) fn read(mut window: Window<'_>) -> Result<Contents> {
    let most_memory = window.most_memory();
    window.fill(BEGINNING)?;
    let mut reader = Reader { most_memory, ..Reader::default() };
    let has_chunk = begins(window.here());
    match version(&mut window) {
        Err(ReadError::LogVersion { version, .. })
            if (VERSION + 1..=VERSION + NEXT_VERSIONS).contains(&version)
                && window.here().starts_with(&MAGIC) =>
        {
            return Err(ReadError::LogVersion { version, known: VERSION });
        }
        Ok(version) if !has_chunk || version == VERSION => {
            reader.version = version;
            window.advance(MAGIC.len() + 4);
        }
        _ if has_chunk => {
            // The version, or the magic bytes before it.
            let damaged = if window.here().starts_with(&MAGIC) { 8..12 } else { 0..8 };
            reader.version = VERSION;
            reader.notices.damage.add(damaged.start, damaged.end - damaged.start);
            window.advance(MAGIC.len() + 4);
        }
        other => {
            window.fill(SOUGHT)?;
            let Some(run) = run_of_chunks(window.here()) else {
                return Err(other.err().unwrap_or_else(|| header_cut(&window)));
            };
            (reader.version, reader.run) = (VERSION, run);
        }
    }
    if reader.version > 1 && window.offset() > 0 {
        window.fill(8)?;
        let Some(&run) = window.here().first_chunk() else { return Err(header_cut(&window)) };
        reader.run = u64::from_le_bytes(run);
        window.advance(8);
    }
    let length = chunks(&mut window, &mut reader)?;
    reader.read_suspect(None)?;
    let format = Format::Log { version: reader.version };
    let (trace, notices) = reader.finish(length)?;
    Ok(Contents { trace, notices, format })
}

/// The version of the header at hand.
fn version(window: &mut Window<'_>) -> Result<u32> {
    let Some(&version) = window.here().get(MAGIC.len()..).and_then(|rest| rest.first_chunk()) else {
        return Err(header_cut(window));
    };
    let version = u32::from_le_bytes(version);
    if !(1..=VERSION).contains(&version) || !window.here().starts_with(&MAGIC) {
        return Err(ReadError::LogVersion { version, known: VERSION });
    }
    Ok(version)
}

fn header_cut(window: &Window<'_>) -> ReadError {
    ReadError::Truncated { offset: window.offset() + window.here().len() as u64, inside: "the header" }
}

/// Reads all chunks of the reader's run, also behind damaged places. Returns the number of useful bytes.
fn chunks(window: &mut Window<'_>, reader: &mut Reader) -> Result<u64> {
    let header = if reader.version == 1 { CHUNK_SEAL } else { CHUNK_HEADER };
    loop {
        let at = window.offset();
        window.fill(header)?;
        if window.here().starts_with(&ATTACHED) {
            reader.trace.operators = attached::read(window)?;
            let is_whole = reader.trace.operators.is_some();
            let (rest, _) = skip(window)?;
            *(if is_whole {
                &mut reader.notices.foreign_bytes
            } else {
                &mut reader.notices.cut_off_bytes
            }) += rest;
            return Ok(at);
        }
        if window.here().starts_with(&MAGIC) {
            // Another recording was appended to this one.
            reader.notices.foreign_bytes += skip(window)?.0;
            return Ok(at);
        }
        if reader.closed && reader.version > 1 {
            let (rest, zeros) = skip(window)?;
            // An attached trace may be cut within its magic bytes.
            let is_cut = zeros || rest < ATTACHED.len() as u64;
            *(if is_cut { &mut reader.notices.cut_off_bytes } else { &mut reader.notices.foreign_bytes }) +=
                rest;
            return Ok(at);
        }
        let Some(end) = chunk_end(window, header, reader)? else {
            let is_cut = is_cut(window, header);
            let is_found = seek_chunk(window, reader)?;
            let bytes = window.offset() - at;
            if is_found || !is_cut {
                reader.lose(at, bytes);
            } else {
                reader.notices.cut_off_bytes += bytes;
            }
            if is_found {
                continue;
            }
            return Ok(at);
        };
        let sealed = &window.here()[CHUNK_SEAL..end];
        if let (2.., Some((&run, rest))) = (reader.version, sealed.split_first_chunk())
            && let Some(&number) = rest.first_chunk()
        {
            let (run, number) = (u64::from_le_bytes(run), u32::from_le_bytes(number));
            if run != reader.run && at == FIRST_CHUNK && number == 0 {
                // No other run wrote its first chunk there: the number of the run in the header is damaged.
                reader.notices.damage.add(at - 8, 8);
                reader.run = run;
            }
            if run != reader.run {
                reader.notices.foreign_bytes += end as u64;
                window.advance(end);
                continue;
            }
            if number < reader.chunks {
                // It was read already.
                reader.lose(at, end as u64);
                window.advance(end);
                continue;
            }
            reader.read_suspect(Some(number))?;
            if number > reader.chunks {
                // It follows a damaged place, or a damaged place has a copy of it. The number of the next chunk tells which.
                if !reader.is_lost {
                    reader.lose(at, 0);
                }
                reader.suspect = Some((at, number, sealed[CHUNK_HEADER - CHUNK_SEAL..].to_vec()));
                window.advance(end);
                continue;
            }
            reader.chunks = number.wrapping_add(1);
        }
        reader.chunk_at(at, header as u64, &sealed[header - CHUNK_SEAL..])?;
        window.advance(end);
        reader.check_memory()?;
    }
}

/// Whether a chunk begins at the first byte at hand. Returns the position of its end.
fn chunk_end(window: &mut Window<'_>, header: usize, reader: &mut Reader) -> Result<Option<usize>> {
    let Some(&[l0, l1, l2, l3, c0, c1, c2, c3]) = window.here().first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    // No writer closes an empty chunk, but a file system may leave zeros in place of a lost write.
    if !(1..=LARGEST_CHUNK).contains(&length) {
        return Ok(None);
    }
    if length as u64 > reader.most_memory {
        return Err(ReadError::Memory { most: reader.most_memory });
    }
    let end = header + length;
    // One more byte shows whether this is the last chunk.
    window.fill(end + 1)?;
    let Some(sealed) = window.here().get(CHUNK_SEAL..end) else { return Ok(None) };
    let is_sealed = crc32fast::hash(sealed) == u32::from_le_bytes([c0, c1, c2, c3]);
    if !is_sealed {
        reader.hashed += end as u64;
    }
    Ok(is_sealed.then_some(end))
}

/// Whether the bytes at hand, which are no chunk, can be an incomplete write at the end of the file.
fn is_cut(window: &Window<'_>, header: usize) -> bool {
    let here = window.here();
    let length = here.first_chunk().map_or(0, |&length| u32::from_le_bytes(length) as usize);
    here.len() < header
        || here.iter().all(|&byte| byte == 0)
        || (1..=LARGEST_CHUNK).contains(&length) && here.len() <= header + length
}

/// Advances to the next chunk of the reader's run with a valid checksum, or to an attached trace, behind the first byte at hand. Returns
/// false at the end of the file. Chunks of version 1 name no run, and are not searched for.
fn seek_chunk(window: &mut Window<'_>, reader: &mut Reader) -> Result<bool> {
    let run = reader.run.to_le_bytes();
    let begins = |bytes: &[u8]| bytes[8..] == run || bytes[..8] == ATTACHED;
    // Hostile bytes could name the run everywhere, before the same long range.
    let most_hashed = LARGEST_CHUNK as u64;
    let is_searched = reader.version > 1;
    window.advance(window.here().len().min(1));
    loop {
        let found = window.here().windows(16).position(begins).filter(|_| is_searched);
        if let Some(at) = found {
            window.advance(at);
            if window.here().starts_with(&ATTACHED) || chunk_end(window, CHUNK_HEADER, reader)?.is_some() {
                return Ok(true);
            }
            if reader.hashed > most_hashed + 4 * window.offset() {
                skip(window)?;
                return Ok(false);
            }
            window.advance(1);
            continue;
        }
        let kept = window.here().len().min(15);
        window.advance(window.here().len() - kept);
        window.fill(kept + 1)?;
        if window.here().len() == kept {
            window.advance(kept);
            return Ok(false);
        }
    }
}

/// Skips the rest. Returns its size in bytes, and whether all its bytes are 0.
fn skip(window: &mut Window<'_>) -> Result<(u64, bool)> {
    let from = window.offset();
    let mut zeros = true;
    loop {
        window.fill(1)?;
        let here = window.here();
        if here.is_empty() {
            return Ok((window.offset() - from, zeros));
        }
        zeros &= here.iter().all(|&b| b == 0);
        window.advance(here.len());
    }
}

#[derive(Default)]
struct Reader {
    version: u32,
    /// Run of the recording, and number of its next chunk; 0 in version 1.
    run: u64,
    chunks: u32,
    /// The offset, number and payload of a chunk whose number is not the next one.
    suspect: Option<(u64, u32, Vec<u8>)>,
    trace: Trace,
    notices: Notices,
    /// Number of places where records may be missing, and whether one is right before the current chunk.
    places: u64,
    is_lost: bool,
    /// Bytes of chunks with a wrong checksum.
    hashed: u64,
    /// Each string, and the action with this name.
    strings: Numbered<(StringId, Option<Action>)>,
    /// Frames of all sites.
    frames: Vec<(StringId, StringId, u32)>,
    /// For each site, index of its first frame and number of frames.
    sites: Numbered<(u32, u32)>,
    /// Sites of all stacks, concatenated, and the end of each stack.
    stack_sites: Vec<u32>,
    stacks: Numbered<usize>,
    devices: BTreeMap<i64, (Events, Held, Gap)>,
    /// Device of the last segment.
    segment: Option<i64>,
    annotations: Vec<Annotation>,
    /// Accesses by device and allocation.
    accesses: BTreeMap<(i64, usize), AllocationAccesses>,
    /// The last number of launches, that of launches with unknown parameters, and the number of events before both.
    launches: Option<(u64, u64, u32)>,
    /// Number of events and of blocks in the start state.
    records: u32,
    /// Previous time in this chunk, in microseconds.
    time_us: i64,
    last_tags: Option<(Tags, TagsId)>,
    /// Compile context of every event, and user metadata of events without any, if the release of the settings writes them.
    contexts: (Option<StringId>, Option<StringId>),
    closed: bool,
    /// Limit on the memory use in bytes.
    most_memory: u64,
}

impl Reader {
    /// Fails if the tables take more memory than allowed.
    fn check_memory(&self) -> Result<()> {
        if self.memory() as u64 <= self.most_memory {
            return Ok(());
        }
        Err(ReadError::Memory { most: self.most_memory })
    }

    /// Notes damaged bytes: events, strings, sites and stacks may be missing there.
    fn lose(&mut self, offset: u64, bytes: u64) {
        self.notices.damage.add(offset, bytes);
        self.is_lost = true;
        self.places += 1;
        self.strings.lose();
        self.sites.lose();
        self.stacks.lose();
    }

    /// Approximate memory use of the tables in bytes, now and while they become a trace.
    fn memory(&self) -> usize {
        let devices = self.devices.values();
        let devices =
            devices.map(|(events, held, _)| events.len() * 2 * Events::BYTES_PER_EVENT + held.memory());
        self.trace.memory()
            + devices.sum::<usize>()
            + self.strings.len() * size_of::<(StringId, Option<Action>)>()
            + self.frames.len() * (size_of::<(StringId, StringId, u32)>() + size_of::<FrameId>())
            + self.sites.len() * size_of::<(u32, u32)>()
            + self.stack_sites.len() * size_of::<u32>()
            + self.stacks.len() * (size_of::<usize>() + size_of::<StackId>())
            + self.annotations.len() * 2 * size_of::<Annotation>()
            + self.accesses.len() * 3 * size_of::<((i64, usize), AllocationAccesses)>()
            + self.trace.process.as_ref().map_or(0, |process| {
                process.events.len() * size_of::<DriverEvent>()
                    + process.readings.len() * size_of::<MemoryReading>()
                    + process.host.len() * size_of::<HostReading>()
            })
    }

    /// Reads the chunk that was set aside, unless the number of the next one shows that it is a copy of a later one.
    fn read_suspect(&mut self, next: Option<u32>) -> Result<()> {
        match self.suspect.take() {
            Some((at, number, payload)) if next.is_none_or(|next| next > number) => {
                self.chunks = number.wrapping_add(1);
                self.chunk_at(at, CHUNK_HEADER as u64, &payload)
            }
            _ => Ok(()),
        }
    }

    /// Reads the payload of the chunk at an offset.
    fn chunk_at(&mut self, at: u64, header: u64, payload: &[u8]) -> Result<()> {
        match self.chunk(Fields::new(payload, at + header)) {
            // Behind a damaged place, a record may need one that is missing.
            Err(ReadError::DamagedLog { .. }) if self.notices.damage.places > 0 => {
                self.lose(at, header + payload.len() as u64);
                Ok(())
            }
            read => read,
        }
    }

    fn chunk(&mut self, mut f: Fields<'_>) -> Result<()> {
        self.time_us = 0;
        self.is_lost = false;
        while !f.is_empty() {
            let at = f.offset();
            match f.bytes()? {
                [NUMBERS] => self.numbers(&mut f)?,
                [STRING] => {
                    let text = f.text()?;
                    self.strings.push((self.trace.strings.intern(text)?, names::action(text)));
                }
                [SITE] => {
                    let site = self.site_frames(1, &mut f)?;
                    self.sites.push(site);
                }
                [SYMBOLS] => {
                    let site = f.number(&self.sites, "site")?;
                    let count = f.count()?;
                    let frames = self.site_frames(count, &mut f)?;
                    if let Some(site) = site {
                        self.sites.items_mut()[site] = frames;
                    }
                }
                [STACK] => self.sites_of_stack(&mut f)?,
                [SETTINGS] => self.settings(&mut f)?,
                [DEVICE] => {
                    let device = device(&mut f)?;
                    self.devices.entry(device).or_default();
                }
                [SEGMENT] => self.segment(&mut f)?,
                [BLOCK] => self.block(&mut f)?,
                [EVENT] => self.event(&mut f)?,
                [ANNOTATION] => self.annotation(&mut f)?,
                [PROCESS] => drop(self.trace.process.get_or_insert_default()),
                [DRIVER] => self.driver_event(&mut f)?,
                [READING] => self.reading(&mut f)?,
                [HOST] => self.host(&mut f)?,
                [CUT] => self.cut(&mut f)?,
                [METADATA] => self.metadata(&mut f)?,
                [ACCESSES] => self.accesses(&mut f)?,
                [LAUNCHES] => self.launches = Some((f.uint()?, f.uint()?, self.records)),
                [FACT] => self.fact(&mut f)?,
                [END] => self.closed = true,
                [tag] => return Err(damaged(at, format!("a record of unknown kind {tag}"))),
            }
        }
        Ok(())
    }

    /// Reads the numbers of the next string, site and stack.
    fn numbers(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let at = f.offset();
        let [strings, sites, stacks] = [f.uint()?, f.uint()?, f.uint()?];
        // Every log begins with the same names. Without them, no event can be read.
        if self.places > 0 && self.strings.len() == 0 && strings >= names::all().count() as u64 {
            self.strings = Numbered::default();
            for name in names::all() {
                self.strings.push((self.trace.strings.intern(name)?, names::action(name)));
            }
            self.strings.lose();
        }
        let agree = self.strings.resume(strings) && self.sites.resume(sites) && self.stacks.resume(stacks);
        agree.then_some(()).ok_or_else(|| damaged(at, "numbers that contradict the records before them"))
    }

    /// Reads the sites of a stack. Without one of them, the stack is unknown, like one without frames.
    fn sites_of_stack(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let first = self.stack_sites.len();
        let mut is_whole = true;
        for _ in 0..f.count()? {
            let site = f.number(&self.sites, "site")?;
            is_whole &= site.is_some();
            self.stack_sites.extend(site.map(|site| site as u32));
        }
        if !is_whole {
            self.stack_sites.truncate(first);
        }
        self.stacks.push(self.stack_sites.len());
        Ok(())
    }

    fn site_frames(&mut self, count: usize, f: &mut Fields<'_>) -> Result<(u32, u32)> {
        let first = u32::try_from(self.frames.len()).map_err(|_| TableFull("frame"))?;
        for _ in 0..count {
            let [name, filename] = [self.string(f)?, self.string(f)?];
            // As in a snapshot, an absurdly high line counts as unknown.
            self.frames.push((name, filename, u32::try_from(f.uint()?).unwrap_or(0)));
        }
        Ok((first, count as u32))
    }

    fn settings(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let conf_text = f.text()?;
        let conf = TorchSettings::parse(conf_text);
        self.notices.conf = conf.is_err().then(|| conf_text.to_owned());
        let recorded = if self.version < 3 { settings::read_version_2(f)? } else { self.recorded(f)? };
        let settings = AllocatorSettings {
            conf_text: Some(conf_text.to_owned()),
            conf: conf.unwrap_or_default(),
            recorded,
        };
        if settings.with_contexts() {
            self.contexts =
                (Some(self.trace.strings.intern(NO_COMPILE_CONTEXT)?), Some(self.trace.strings.intern("")?));
        }
        self.trace.settings = Some(settings);
        Ok(())
    }

    /// Reads settings with their keys.
    fn recorded(&mut self, f: &mut Fields<'_>) -> Result<TorchSettings> {
        let mut recorded = TorchSettings::default();
        for _ in 0..f.count()? {
            let key = self.string(f)?;
            let key = self.trace.strings.get(key);
            let value = settings::read(f)?;
            if !settings::give(&mut recorded, key, value) {
                self.notices.unknown_value(ValueKind::Setting, key);
            }
        }
        Ok(recorded)
    }

    fn segment(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let device = device(f)?;
        let address = f.address()?;
        let held = HeldSegment {
            size: f.uint()?,
            stream: f.uint()?,
            kind: self.kind(f)?,
            pool: f.optional(pool)?,
            is_expandable: f.choice(&BOOLS, "Boolean")?,
            stack: self.stack(f)?,
        };
        self.devices.entry(device).or_default().1.take(address, held);
        self.segment = Some(device);
        Ok(())
    }

    fn block(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let at = f.offset();
        let block = Block {
            address: f.address()?,
            size: f.uint()?,
            requested_size: f.uint()?,
            state: self.state(f)?,
            stack: self.stack(f)?,
            forward_frames: None,
            user_metadata: None,
        };
        let device = self.segment.ok_or_else(|| damaged(at, "a block before any segment"))?;
        if block.state != BlockState::Inactive {
            self.count()?;
            self.devices.entry(device).or_default().1.allocate(block);
        }
        Ok(())
    }

    fn event(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let (action, unknown_action) = self.action(f)?;
        let device = device(f)?;
        let (address, size) = (f.address()?, f.uint()?);
        let time_us = Some(self.time(f)?);
        let stack = self.stack(f)?;
        let (stream, pool) = (f.uint()?, f.optional(pool)?);
        let user_metadata = f.optional_number(&self.strings, "string")?.map(|i| self.strings.items()[i].0);
        let (compile_context, no_metadata) = self.contexts;
        let user_metadata = user_metadata.or(no_metadata);
        let tags = Tags { stream, pool, compile_context, user_metadata, unknown_action, ..Tags::default() };
        let tags = match self.last_tags {
            Some((last, id)) if last == tags => id,
            _ => self.trace.tags.intern(tags)?,
        };
        self.last_tags = Some((self.trace.tags.get(tags), tags));
        self.count()?;
        // Fields that only some actions have.
        let (mut block_size, mut kind) = (0, SegmentKind::Unknown);
        match action {
            Action::Alloc => block_size = f.uint()?,
            Action::SegmentAlloc | Action::SegmentMap => kind = self.kind(f)?,
            _ => {}
        }
        let (events, held, gap) = self.devices.entry(device).or_default();
        gap.before(events.len(), self.places);
        match action {
            Action::Alloc => {
                let (state, requested_size) = (BlockState::ActiveAllocated, size);
                let size = block_size;
                held.allocate(Block {
                    address,
                    size,
                    requested_size,
                    state,
                    stack,
                    forward_frames: None,
                    user_metadata: None,
                });
            }
            Action::FreeRequested => held.request_free(address),
            Action::FreeCompleted | Action::Free => held.free(address),
            Action::SegmentAlloc | Action::SegmentMap => {
                let is_expandable = action == Action::SegmentMap;
                held.take(address, HeldSegment { size, stream, pool, kind, is_expandable, stack });
            }
            Action::SegmentFree | Action::SegmentUnmap => held.release(address, size),
            _ => {}
        }
        events.push(Event { action, address_or_free: address, size, time_us, stack, tags });
        Ok(())
    }

    fn annotation(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let stage = self.stage(f)?;
        let (name, device) = (self.string(f)?, f.int()?);
        let time_us = Some(self.time(f)?);
        // A region's end with an unknown stage is dropped; its stage is in the notices.
        self.annotations.extend(stage.map(|stage| Annotation { stage, name, device, time_us }));
        Ok(())
    }

    fn driver_event(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let device = device(f)?;
        let find = |name: &str| DriverMemory::ALL.into_iter().find(|memory| memory.name() == name);
        let memory = self.named(f, ValueKind::DriverMemory, find)?;
        let is_free = f.choice(&BOOLS, "Boolean")?;
        let (address, size, time_us) = (f.address()?, f.uint()?, self.time(f)?);
        let (library, stack) = (self.string(f)?, self.stack(f)?);
        self.count()?;
        let event = memory.map(|memory| DriverEvent {
            device,
            memory,
            is_free,
            address,
            size,
            time_us,
            library,
            stack,
        });
        self.trace.process.get_or_insert_default().events.extend(event);
        Ok(())
    }

    fn reading(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let (device, time_us) = (device(f)?, self.time(f)?);
        let (used, total) = (f.uint()?, f.uint()?);
        let device_events = self.devices.entry(device).or_default().0.len();
        let process = self.trace.process.get_or_insert_default();
        let driver_events = process.events.len();
        process.readings.push(MemoryReading { device, time_us, used, total, device_events, driver_events });
        Ok(())
    }

    fn host(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let time_us = self.time(f)?;
        let (anonymous, files, shared) = (f.uint()?, f.uint()?, f.uint()?);
        let page_cache = f.optional(Fields::uint)?;
        let reading = HostReading { time_us, anonymous, files, shared, page_cache };
        self.trace.process.get_or_insert_default().host.push(reading);
        Ok(())
    }

    fn cut(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let time_us = self.time(f)?;
        let process = self.trace.process.get_or_insert_default();
        // A log has one cut. Each further one would cost time for every device.
        if process.cut.is_none() {
            let with_events = self.devices.iter().filter(|(_, (events, ..))| !events.is_empty());
            let device_events = with_events.map(|(&device, (events, ..))| (device, events.len())).collect();
            process.cut = Some(LogCut { time_us, device_events, driver_events: process.events.len() });
        }
        Ok(())
    }

    fn metadata(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let at = f.offset();
        let (device, event, text) = (device(f)?, f.uint()?, self.string(f)?);
        if self.places > 0 {
            // The index counts events that are missing here.
            return Ok(());
        }
        let (events, ..) = self.devices.entry(device).or_default();
        let is_allocation = |&index: &usize| events.actions().get(index) == Some(&Action::Alloc);
        let Some(index) = usize::try_from(event).ok().filter(is_allocation) else {
            return Err(damaged(at, "a text for an allocation that does not exist"));
        };
        let before = self.trace.tags.get(events.get(index).tags);
        let tags = self.trace.tags.intern(Tags { user_metadata: Some(text), ..before })?;
        events.set_tags(index, tags);
        Ok(())
    }

    fn accesses(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let at = f.offset();
        let device = device(f)?;
        let events = self.devices.get(&device).map(|(events, ..)| events);
        let allocation = f.uint()?;
        if self.places > 0 {
            // The indexes count events that are missing here.
            for _ in 0..5 {
                f.uint()?;
            }
            return Ok(());
        }
        let is_allocation =
            |&index: &usize| events.and_then(|events| events.actions().get(index)) == Some(&Action::Alloc);
        let Some(allocation) = usize::try_from(allocation).ok().filter(is_allocation) else {
            return Err(damaged(at, format!("accesses of event {allocation}, which is no allocation")));
        };
        let most = events.map_or(0, Events::len) as u64;
        let mut later = |before: usize| {
            let sum = f.uint()?.checked_add(before as u64).filter(|&sum| sum <= most);
            sum.map(|sum| sum as usize).ok_or_else(|| damaged(at, "an access after the last event"))
        };
        let first = later(allocation)?;
        let (last, from) = (later(first)?, later(first)?);
        let to = later(from)?;
        let count = f.uint()?;
        if to > last || count == 0 {
            return Err(damaged(at, "accesses that contradict each other"));
        }
        let accesses =
            AllocationAccesses { device, allocation, first, last, count, longest_idle: (from, to) };
        self.accesses.insert((device, allocation), accesses);
        Ok(())
    }

    /// Reads a statement. Adds one of an unknown kind to the notices.
    fn fact(&mut self, f: &mut Fields<'_>) -> Result<()> {
        let name = self.string(f)?;
        let (text, number) = (self.string(f)?, f.uint()?);
        let process = self.trace.process.get_or_insert_default();
        match self.trace.strings.get(name) {
            ATTACHED_AT => process.attached_us = i64::try_from(number).ok(),
            STACKS_FROM => process.stacks_from = Some(number),
            NOT_FOLLOWED => {
                let functions = &mut process.not_followed;
                match functions.iter().position(|&(function, _)| function == text) {
                    Some(at) => functions[at].1 = number,
                    None if functions.len() < MOST_NOT_FOLLOWED => functions.push((text, number)),
                    None => {}
                }
            }
            name => match name.strip_prefix(RECORDING).map(str::to_owned) {
                Some(name) => {
                    let name = self.trace.strings.intern(&name)?;
                    let statements = &mut process.recording;
                    match statements.iter().position(|&(known, _)| known == name) {
                        Some(at) => statements[at].1 = text,
                        None if statements.len() < MOST_STATEMENTS => statements.push((name, text)),
                        None => {}
                    }
                }
                None => self.notices.unknown_value(ValueKind::Fact, name),
            },
        }
        Ok(())
    }

    /// Reads an action. For an unknown action, also returns its name.
    fn action(&mut self, f: &mut Fields<'_>) -> Result<(Action, Option<StringId>)> {
        if self.version == 1 {
            return Ok((f.choice(&version1::ACTIONS, "action")?, None));
        }
        let at = f.offset();
        let Some(number) = f.number(&self.strings, "string")? else {
            return Err(damaged(at, "an event whose action is missing"));
        };
        let (name, action) = self.strings.items()[number];
        if let Some(action) = action {
            return Ok((action, None));
        }
        self.notices.unknown_action(self.trace.strings.get(name));
        Ok((Action::Unknown, Some(name)))
    }

    fn kind(&mut self, f: &mut Fields<'_>) -> Result<SegmentKind> {
        if self.version == 1 {
            return f.choice(&version1::KINDS, "kind of segment");
        }
        Ok(self.named(f, ValueKind::KindOfSegment, names::kind)?.unwrap_or(SegmentKind::Unknown))
    }

    /// Reads the state of a block. An unknown state counts as allocated, because recorders may omit free blocks.
    fn state(&mut self, f: &mut Fields<'_>) -> Result<BlockState> {
        if self.version == 1 {
            return f.choice(&version1::STATES, "state of a block");
        }
        Ok(self.named(f, ValueKind::StateOfBlock, names::state)?.unwrap_or(BlockState::ActiveAllocated))
    }

    fn stage(&mut self, f: &mut Fields<'_>) -> Result<Option<Stage>> {
        if self.version == 1 {
            return f.choice(&version1::STAGES, "stage").map(Some);
        }
        self.named(f, ValueKind::StageOfRegion, names::stage)
    }

    /// Reads the value named by a string. Adds an unknown name to the notices.
    fn named<T>(
        &mut self,
        f: &mut Fields<'_>,
        what: ValueKind,
        known: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(number) = f.number(&self.strings, "string")? else { return Ok(None) };
        let name = self.trace.strings.get(self.strings.items()[number].0);
        let value = known(name);
        if value.is_none() {
            self.notices.unknown_value(what, name);
        }
        Ok(value)
    }

    /// Reads a string. One that is missing is `??`.
    fn string(&mut self, f: &mut Fields<'_>) -> Result<StringId> {
        match f.number(&self.strings, "string")? {
            Some(number) => Ok(self.strings.items()[number].0),
            None => Ok(self.trace.strings.intern("??")?),
        }
    }

    /// Uses the stack's number as its id for now. The stack is resolved at the end.
    fn stack(&self, f: &mut Fields<'_>) -> Result<Option<StackId>> {
        let number = f.optional_number(&self.stacks, "stack")?;
        Ok(number.map(StackId::new).transpose()?)
    }

    fn time(&mut self, f: &mut Fields<'_>) -> Result<i64> {
        self.time_us = self.time_us.wrapping_add(f.int()?);
        Ok(self.time_us)
    }

    /// Counts an event or a block. Fails beyond 32 bits, because analyses use 32-bit indices.
    fn count(&mut self) -> Result<()> {
        self.records = self.records.checked_add(1).ok_or(TableFull("event"))?;
        Ok(())
    }

    /// Returns the trace of a recording of `bytes` bytes.
    fn finish(mut self, bytes: u64) -> Result<(Trace, Notices)> {
        let stacks = self.resolve_stacks(bytes)?;
        // Like PyTorch, list all devices up to the last one.
        for device in 0..self.devices.keys().next_back().map_or(0, |last| last + 1) {
            self.devices.entry(device).or_default();
        }
        let most = FREE_SEGMENTS + bytes / BYTES_PER_SEGMENT;
        if self.devices.values().map(|(_, held, _)| held.num_segments() as u64).sum::<u64>() > most {
            return Err(beyond("devices", most, "segments"));
        }
        let is_cut = self.trace.process.as_ref().is_some_and(|process| process.cut.is_some());
        let mut host = None;
        for (number, (events, held, gap)) in self.devices {
            // No ring buffer drops events here, but a cut does. There is no such flag for the host.
            let overflowed = (number >= 0).then_some(is_cut);
            let gap = gap.finish(events.len(), self.places);
            let mut device =
                DeviceTrace { device: number, events, overflowed, gap, ..DeviceTrace::default() };
            held.finish(&mut device);
            device.events.shrink_to_fit();
            let of_segments = device.segments.iter_mut().map(|s| &mut s.stack);
            let of_blocks = device.blocks.iter_mut().map(|b| &mut b.stack);
            for stack in device.events.stacks_mut().chain(of_segments).chain(of_blocks) {
                *stack = stack.map(|number| stacks[number.index()]);
            }
            if number < 0 {
                host = Some(device);
            } else {
                self.trace.devices.push(device);
            }
        }
        for event in self.trace.process.iter_mut().flat_map(|process| &mut process.events) {
            event.stack = event.stack.map(|number| stacks[number.index()]);
        }
        self.trace.records_host =
            self.trace.settings.as_ref().is_some_and(AllocatorSettings::with_host_memory);
        if let Some(host) = host {
            self.trace.push_host(host);
        }
        self.trace.annotations = Some(self.annotations);
        // Without the accesses between the last number of launches and the end, an allocation could seem unused.
        let launches = self.launches.filter(|&(_, _, records)| records == self.records && self.places == 0);
        self.trace.accesses = launches.map(|(launches, unknown_launches, _)| Accesses {
            allocations: self.accesses.into_values().collect(),
            launches,
            unknown_launches,
        });
        self.notices.unclosed = !self.closed;
        self.trace.ends_early = !self.closed;
        Ok((self.trace, self.notices))
    }

    /// For each stack number, the stack of its sites' frames.
    fn resolve_stacks(&mut self, bytes: u64) -> Result<Vec<StackId>> {
        let most = FREE_FRAMES + bytes / BYTES_PER_FRAME;
        let frames = std::mem::take(&mut self.frames);
        let mut frame_ids: Vec<FrameId> = Vec::new();
        for (first, count) in self.sites.items_mut() {
            let of_site = &frames[*first as usize..][..*count as usize];
            *first = frame_ids.len() as u32;
            for &(name, filename, line) in of_site {
                let frame = Frame { name, filename, line, fx: FxNode::default() };
                frame_ids.push(self.trace.frames.intern(frame)?);
                if self.trace.frames.len() as u64 > most {
                    return Err(beyond("sites", most, "frames"));
                }
            }
        }
        let most = FREE_STACK_FRAMES + bytes * STACK_FRAMES_PER_BYTE;
        let mut total = 0;
        let mut stack = Vec::new();
        let mut stacks = Vec::with_capacity(self.stacks.len());
        for i in 0..self.stacks.len() {
            stack.clear();
            for &site in &self.stack_sites[bounds(self.stacks.items(), i)] {
                let (first, count) = self.sites.items()[site as usize];
                total += u64::from(count);
                if total > most {
                    return Err(beyond("stacks", most, "frames"));
                }
                stack.extend_from_slice(&frame_ids[first as usize..][..count as usize]);
            }
            stacks.push(self.trace.stacks.intern(&stack)?);
            if i % STACKS_BETWEEN_CHECKS == 0 {
                self.check_memory()?;
            }
        }
        Ok(stacks)
    }
}

fn device(f: &mut Fields<'_>) -> Result<i64> {
    let at = f.offset();
    let device = f.int()?;
    let known = DEVICES.contains(&device);
    known.then_some(device).ok_or_else(|| damaged(at, format!("device {device}, which no machine has")))
}

fn pool(f: &mut Fields<'_>) -> Result<PoolId> {
    Ok(PoolId(f.uint()?, f.uint()?))
}

fn beyond(path: &str, most: u64, things: &str) -> ReadError {
    let what = format!("have more than {most} {things}, which no recorder writes");
    ReadError::Schema { path: path.to_owned(), what }
}
