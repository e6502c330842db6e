//! A heap profile for pprof: `profile.proto`, gzipped.
//!
//! Four values a sample, as a Go heap profile has them: what was allocated over the whole recording, as the report
//! counts churn, and what is allocated at the moment. What was live before recording is only in the latter.

mod proto;

use std::io::{BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use prost::Message as _;
use vramscope_analysis::{Allocation, History, Layout, Moment, Origin, event_times};
use vramscope_report::{Names, clean};
use vramscope_trace::{FrameId, PoolId, StackId, StringId};

use crate::error::ExportError;
use crate::labels::{self, NO_STACK};
use crate::source::{Source, moment};
use proto::{Function, Label, Line, Location, Profile, Sample, ValueType};

/// Writes a profile; returns the number of samples.
pub(crate) fn write(source: &Source<'_>, at: Option<usize>, out: impl Write) -> Result<u64, ExportError> {
    let out = GzEncoder::new(BufWriter::new(out), Compression::default());
    let mut writer = Writer { out, names: source.names(), tables: Tables::default(), buffer: Vec::new() };
    writer.begin()?;
    let mut samples = 0;
    for history in source.histories() {
        samples += writer.device(&history, at)?;
    }
    writer.out.finish()?.flush()?;
    Ok(samples)
}

/// What allocations of one sample share.
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

/// What the profile refers to by number, each written when it is first needed.
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
    names: Names<'r>,
    tables: Tables,
    buffer: Vec<u8>,
}

impl<W: Write> Writer<'_, W> {
    fn begin(&mut self) -> Result<(), ExportError> {
        let mut head = Profile::default();
        // String 0 is empty.
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
        self.put(&head)
    }

    /// Writes the samples of one device; returns their number.
    fn device(&mut self, history: &History<'_>, at: Option<usize>) -> Result<u64, ExportError> {
        let moment = moment(history, at);
        let device = history.device.device;
        let mut note = Profile::default();
        let when = match moment.event() {
            Some(event) => format!("after event {event}"),
            None => "before the first event".to_owned(),
        };
        let comment = self.string(&format!("device {device}: in use {when}"), &mut note);
        note.comment.push(comment);
        if let Some(times) = event_times(history.device).filter(|t| !t.is_empty()) {
            let (first, last) = (times[0], times[times.len() - 1]);
            let now = moment.event().and_then(|e| times.get(e)).copied().unwrap_or(first);
            note.time_nanos = now.saturating_mul(1000);
            note.duration_nanos = last.saturating_sub(first).saturating_mul(1000);
        }
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
        let frames = key.stack.map_or(&[][..], |s| self.names.trace.stacks.get(s));
        let mut location_id: Vec<u64> = frames.iter().map(|&f| self.frame(f, &mut part)).collect();
        if location_id.is_empty() {
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
        let mut label = vec![
            self.number("bytes", key.size, "bytes", &mut part),
            self.number("device", device.max(0).unsigned_abs(), "", &mut part),
            self.text("stream", &format!("{:#x}", key.stream), &mut part),
        ];
        if let Some(pool) = key.pool {
            label.push(self.text("pool", &labels::pool(pool), &mut part));
        }
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let value =
            [values.alloc_objects, values.alloc_bytes, values.inuse_objects, values.inuse_bytes].map(signed);
        part.sample.push(Sample { location_id, value: value.to_vec(), label });
        self.put(&part)
    }

    fn number(&mut self, key: &str, num: u64, unit: &str, part: &mut Profile) -> Label {
        let num = i64::try_from(num).unwrap_or(i64::MAX);
        Label { key: self.string(key, part), num, num_unit: self.string(unit, part), str: 0 }
    }

    fn text(&mut self, key: &str, text: &str, part: &mut Profile) -> Label {
        Label { key: self.string(key, part), str: self.string(text, part), num: 0, num_unit: 0 }
    }

    /// The location of a frame.
    fn frame(&mut self, id: FrameId, part: &mut Profile) -> u64 {
        if let Some(&location) = self.tables.frames.get(&id) {
            return location;
        }
        let frame = self.names.trace.frames.get(id);
        let (name, file) = (self.recorded(frame.name, part), self.recorded(frame.filename, part));
        let location = self.location(name, file, frame.line.into(), part);
        self.tables.frames.insert(id, location);
        location
    }

    /// A location of our own, for what has no frame.
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

    /// The number of a string of the recording.
    fn recorded(&mut self, id: StringId, part: &mut Profile) -> i64 {
        if let Some(&number) = self.tables.texts.get(&id) {
            return number;
        }
        let number = self.string(&clean(self.names.trace.strings.get(id)), part);
        self.tables.texts.insert(id, number);
        number
    }

    /// The number of a string.
    fn string(&mut self, text: &str, part: &mut Profile) -> i64 {
        if let Some(&number) = self.tables.strings.get(text) {
            return number;
        }
        let number = self.tables.strings.len() as i64;
        self.tables.strings.insert(text.into(), number);
        part.string_table.push(text.to_owned());
        number
    }

    /// Writes a part of the profile: messages end to end are one message with the fields of all.
    fn put(&mut self, part: &Profile) -> Result<(), ExportError> {
        self.buffer.clear();
        // A vector grows; there is nothing else to fail.
        part.encode_raw(&mut self.buffer);
        self.out.write_all(&self.buffer)?;
        Ok(())
    }
}

/// Every allocation, grouped, in order of first appearance.
fn samples(history: &History<'_>, moment: Moment) -> Vec<(Key, Values)> {
    let layout = Layout::at(history, moment);
    let mut index: HashMap<Key, usize> = HashMap::new();
    let mut samples: Vec<(Key, Values)> = Vec::new();
    for a in &history.allocations {
        let in_use = a.is_allocated_at(moment);
        if !in_use && a.origin != Origin::Recorded {
            continue;
        }
        let recorded = |a: &Allocation| history.trace.tags.get(a.tags?).pool;
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
mod tests {
    use std::io::Read as _;

    use prost::Message as _;

    use super::proto::Profile;
    use crate::{Format, Options, testing};

    fn profile(options: &Options) -> Profile {
        let (bytes, written) = testing::export(&testing::two_devices(), Format::Pprof, options);
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        let profile = Profile::decode(&plain[..]).unwrap();
        assert_eq!(written.rows as usize, profile.sample.len());
        profile
    }

    fn sums(profile: &Profile) -> Vec<i64> {
        (0..4).map(|i| profile.sample.iter().map(|s| s.value[i]).sum()).collect()
    }

    #[test]
    fn sums_are_those_of_the_moment_and_of_the_whole_recording() {
        assert_eq!(sums(&profile(&Options::default())), [3, 3584, 3, 3584]);
        // Event 3 gives 1000 bytes back; device 1 has one event and stays as it ended.
        assert_eq!(sums(&profile(&Options { at: Some(3), ..Options::default() })), [3, 3584, 2, 2560]);
    }

    #[test]
    fn every_number_refers_to_what_there_is() {
        let p = profile(&Options::default());
        let text = |n: i64| p.string_table[n as usize].as_str();
        assert_eq!(text(0), "");
        assert_eq!(text(p.default_sample_type), "inuse_space");
        assert_eq!(p.location.iter().map(|l| l.id).collect::<Vec<_>>(), [1, 2]);
        let innermost = &p.location[p.sample[0].location_id[0] as usize - 1].line[0];
        let function = &p.function[innermost.function_id as usize - 1];
        assert_eq!(text(function.name), "a;b\"\\<&>\\u{1b}[31m\\u{a}=1+1, 'x' 12");
        assert_eq!((text(function.filename), innermost.line), ("/home/user/train.py", 7));
        let labels: Vec<(&str, &str, i64)> =
            p.sample[2].label.iter().map(|l| (text(l.key), text(l.str), l.num)).collect();
        assert_eq!(labels, [("bytes", "", 512), ("device", "", 1), ("stream", "0x11", 0)]);
    }
}
