//! A heap profile for pprof (`profile.proto`, compressed by gzip).
//!
//! A sample has the four values of a Go heap profile: the number and bytes of blocks allocated over the whole recording (churn in the
//! report), and the number and bytes of blocks live at the event. Blocks that were live before recording count only as live blocks.

mod proto;

use std::io::{BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use prost::Message as _;
use vramscope_analysis::{History, Layout, Moment, Origin, RecordedAllocation, event_times};
use vramscope_trace::{DeviceTrace, FrameId, PoolId, StackId, StringId};

use crate::error::ExportError;
use crate::labels::{self, Labels, NO_STACK};
use crate::source::{Source, moment};
use proto::{Function, Label, Line, Location, Profile, Sample, ValueType};

/// Limit on the frames of a stack in a sample; the innermost frames are kept. It bounds the file if a hostile recording has many samples
/// with the same huge stack; stacks of known recordings are far smaller.
const DEEPEST: usize = 1024;

/// Writes a profile; returns the number of samples.
pub(crate) fn write(source: &Source<'_>, at: Option<usize>, out: impl Write) -> Result<u64, ExportError> {
    let out = GzEncoder::new(BufWriter::new(out), Compression::default());
    let labels = Labels::new(source.names());
    let mut writer = Writer { out, labels, tables: Tables::default(), buffer: Vec::new() };
    writer.begin(source)?;
    let mut samples = 0;
    for history in source.histories() {
        samples += writer.device(&history, at)?;
    }
    writer.out.finish()?.flush()?;
    Ok(samples)
}

/// The common properties of the allocations in one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    origin: Origin,
    stack: Option<StackId>,
    stream: u64,
    pool: Option<PoolId>,
    size: u64,
}

/// The four values of a sample.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    alloc_objects: u64,
    alloc_bytes: u64,
    inuse_objects: u64,
    inuse_bytes: u64,
}

/// The strings, functions and locations of a profile by number; each is written at its first use.
#[derive(Default)]
struct Tables {
    strings: HashMap<Box<str>, i64>,
    texts: HashMap<StringId, i64>,
    functions: HashMap<(i64, i64), u64>,
    frames: HashMap<FrameId, u64>,
    words: HashMap<&'static str, u64>,
    locations: u64,
}

struct Writer<'r, W: Write> {
    out: GzEncoder<W>,
    labels: Labels<'r>,
    tables: Tables,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<'_, W> {
    /// Writes the fields of the whole profile. Each field must occur once: readers interpret a second `time_nanos` as a second profile.
    fn begin(&mut self, source: &Source<'_>) -> Result<(), ExportError> {
        let mut head = Profile::default();
        // The format requires that string 0 is empty.
        self.string("", &mut head);
        let mut value = |name: &str, unit: &str| ValueType {
            r#type: self.string(name, &mut head),
            unit: self.string(unit, &mut head),
        };
        let types = vec![
            value("alloc_objects", "count"),
            value("alloc_space", "bytes"),
            value("inuse_objects", "count"),
            value("inuse_space", "bytes"),
        ];
        let period = value("space", "bytes");
        head.default_sample_type = self.string("inuse_space", &mut head);
        head.sample_type = types;
        head.period_type = Some(period);
        head.period = 1;
        if let Some((first, last)) = span(source) {
            head.time_nanos = first.saturating_mul(1000);
            head.duration_nanos = last.saturating_sub(first).saturating_mul(1000);
        }
        self.put(&head)
    }

    /// Writes the samples of one device; returns their number.
    fn device(&mut self, history: &History, at: Option<usize>) -> Result<u64, ExportError> {
        let moment = moment(history, at);
        let device = history.device().device;
        let mut note = Profile::default();
        let when = match moment.event() {
            Some(event) => format!("after event {event}"),
            None => "before the first event".to_owned(),
        };
        let comment =
            self.string(&format!("{}: in use {when}", history.trace().device_name(device)), &mut note);
        note.comment.push(comment);
        self.put(&note)?;

        let samples = samples(history, moment);
        let count = samples.len() as u64;
        for (key, values) in samples {
            self.sample(device, &key, &values)?;
        }
        Ok(count)
    }

    fn sample(&mut self, device: i64, key: &Key, values: &Values) -> Result<(), ExportError> {
        let mut part = Profile::default();
        let frames = key.stack.map_or(&[][..], |s| self.labels.names.trace.stacks.get(s));
        let innermost = &frames[..frames.len().min(DEEPEST)];
        let mut location_id: Vec<u64> = innermost.iter().map(|&f| self.frame(f, &mut part)).collect();
        if frames.len() > DEEPEST {
            location_id.push(self.word("(more frames)", &mut part));
        } else if frames.is_empty() {
            location_id.push(self.word(NO_STACK, &mut part));
        }
        let before = match key.origin {
            Origin::Recorded => None,
            Origin::EndState => Some("(live before recording)"),
            Origin::FreeOnly => Some("(live before recording, freed here)"),
        };
        if let Some(word) = before {
            location_id.push(self.word(word, &mut part));
        }
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let mut label = vec![
            self.number("bytes", signed(key.size), "bytes", &mut part),
            // A unit is needed, because pprof drops a label with value 0 and no unit.
            self.number("device", device, "device", &mut part),
            self.text("stream", &format!("{:#x}", key.stream), &mut part),
        ];
        if let Some(pool) = key.pool {
            label.push(self.text("pool", &labels::pool(pool), &mut part));
        }
        let value =
            [values.alloc_objects, values.alloc_bytes, values.inuse_objects, values.inuse_bytes].map(signed);
        part.sample.push(Sample { location_id, value: value.to_vec(), label });
        self.put(&part)
    }

    fn number(&mut self, key: &str, num: i64, unit: &str, part: &mut Profile) -> Label {
        Label { key: self.string(key, part), num, num_unit: self.string(unit, part), str: 0 }
    }

    fn text(&mut self, key: &str, text: &str, part: &mut Profile) -> Label {
        Label { key: self.string(key, part), str: self.string(text, part), num: 0, num_unit: 0 }
    }

    /// Returns the location number of a frame.
    fn frame(&mut self, id: FrameId, part: &mut Profile) -> u64 {
        if let Some(&location) = self.tables.frames.get(&id) {
            return location;
        }
        let frame = self.labels.names.trace.frames.get(id);
        let (name, file) = (self.recorded(frame.name, part), self.recorded(frame.filename, part));
        let location = self.location(name, file, frame.line.into(), part);
        self.tables.frames.insert(id, location);
        location
    }

    /// Returns the location number of a fixed name, for allocations without a frame.
    fn word(&mut self, word: &'static str, part: &mut Profile) -> u64 {
        if let Some(&location) = self.tables.words.get(word) {
            return location;
        }
        let name = self.string(word, part);
        let location = self.location(name, 0, 0, part);
        self.tables.words.insert(word, location);
        location
    }

    fn location(&mut self, name: i64, filename: i64, line: i64, part: &mut Profile) -> u64 {
        let next = self.tables.functions.len() as u64 + 1;
        let function_id = *self.tables.functions.entry((name, filename)).or_insert_with(|| {
            part.function.push(Function { id: next, name, system_name: name, filename });
            next
        });
        self.tables.locations += 1;
        let id = self.tables.locations;
        part.location.push(Location { id, line: vec![Line { function_id, line }] });
        id
    }

    /// Returns the number of a string of the recording.
    fn recorded(&mut self, id: StringId, part: &mut Profile) -> i64 {
        if let Some(&number) = self.tables.texts.get(&id) {
            return number;
        }
        let text = self.labels.text_once(id);
        let number = self.string(&text, part);
        self.tables.texts.insert(id, number);
        number
    }

    /// Returns the number of a string.
    fn string(&mut self, text: &str, part: &mut Profile) -> i64 {
        if let Some(&number) = self.tables.strings.get(text) {
            return number;
        }
        let number = self.tables.strings.len() as i64;
        self.tables.strings.insert(text.into(), number);
        part.string_table.push(text.to_owned());
        number
    }

    /// Writes a part of the profile. Protobuf readers merge consecutive messages into one.
    fn put(&mut self, part: &Profile) -> Result<(), ExportError> {
        self.buffer.clear();
        // Writing to a vector does not fail.
        part.encode_raw(&mut self.buffer);
        self.out.write_all(&self.buffer)?;
        Ok(())
    }
}

/// Returns the first and the last recorded time of all devices, in microseconds.
fn span(source: &Source<'_>) -> Option<(i64, i64)> {
    let of = |device: &DeviceTrace| {
        let times = event_times(device)?;
        Some((*times.first()?, *times.last()?))
    };
    let spans = source.devices().filter_map(of);
    spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Returns the allocations grouped by sample, in order of first appearance.
fn samples(history: &History, moment: Moment) -> Vec<(Key, Values)> {
    let layout = Layout::at(history, moment);
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut samples: Vec<(Key, Values)> = Vec::new();
    for a in &history.allocations {
        let in_use = a.is_allocated_at(moment);
        if !in_use && a.origin != Origin::Recorded {
            continue;
        }
        let recorded = |a: &RecordedAllocation| history.trace().tags.get(a.tags?).pool;
        let around = || layout.range_around(a.address).filter(|_| in_use)?.pool;
        let pool = recorded(a).or_else(around);
        let key = Key { origin: a.origin, stack: a.stack, stream: a.stream, pool, size: a.size };
        let at = match index.entry(key) {
            Entry::Occupied(at) => *at.get(),
            Entry::Vacant(at) => {
                samples.push((key, Values::default()));
                *at.insert(samples.len() - 1)
            }
        };
        let values = &mut samples[at].1;
        if in_use {
            values.inuse_objects += 1;
            values.inuse_bytes = values.inuse_bytes.saturating_add(a.size);
        }
        if a.origin == Origin::Recorded {
            values.alloc_objects += 1;
            values.alloc_bytes = values.alloc_bytes.saturating_add(a.size);
        }
    }
    samples
}

#[cfg(test)]
mod tests;
