//! A recording made ready for the page.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use vramscope_analysis::{
    Cancel, DeviceReplay, Facts, Frames, History, Moment, Options, Peak, Recorder, ReplayOptions, Summary,
    Timeline,
};
use vramscope_report::{
    Advice, Answers, ReplayAnswers, ReplayJson, ReplayTrust, ReportJson, Trust, count, findings,
};
use vramscope_trace::formats::{Compression, Format, Recording};
use vramscope_trace::{Action, FrameId, SettingKind, SettingValue, StringId, TorchSettings};

use crate::ViewError;
use crate::columns::Columns;
use crate::device::{OpenDevice, by_kind};
use crate::protocol::{self, ByKind, Mark, MarkKind, NONE, Names, OomFinding, Replay, Report};
use crate::tables::code;
use crate::tags::TagsOfDevice;

/// A recording made ready for questions.
#[derive(Debug)]
pub(crate) struct OpenRecording {
    name: String,
    recording: Recording,
    /// Whose code each frame is.
    frames: Frames,
    pub(crate) devices: Vec<OpenDevice>,
}

/// Does two things at one time: the first on a thread of its own, where there is one to be had.
fn both<A: Send, B>(first: impl FnOnce() -> A + Send + Sync + Copy, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, first);
        let second = second();
        let first = match other.map(|other| other.join()) {
            Ok(Ok(first)) => first,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => first(),
        };
        (first, second)
    })
}

impl OpenRecording {
    /// Makes it ready: pairs events, follows sizes, indexes lifetimes, puts tags together, and looks at the frames meanwhile.
    /// `None` where the file was closed meanwhile.
    pub(crate) fn of(name: String, recording: Recording, closed: &Cancel) -> Option<Self> {
        let trace = &recording.trace;
        let was_used = |&position: &usize| {
            let device = &trace.devices[position];
            !device.events.is_empty() || !device.segments.is_empty()
        };
        let devices = || {
            let open = |position| {
                let history = Arc::new(History::replayed_unless(trace, position, closed)?);
                let (tags, timeline) =
                    both(|| TagsOfDevice::of(&history), || Timeline::of(Arc::clone(&history)));
                Some(OpenDevice::new(timeline, tags))
            };
            (0..trace.devices.len()).filter(was_used).map(open).collect::<Option<Vec<_>>>()
        };
        let (frames, devices) = both(|| Frames::of(trace), devices);
        Some(Self { frames, devices: devices?, name, recording })
    }

    /// What the page shows first: names, facts, peaks.
    pub(crate) fn overview(&self) -> protocol::Recording<'_> {
        let trace = &self.recording.trace;
        let recorder = Recorder::of(&self.recording);
        protocol::Recording {
            name: &self.name,
            format: self.recording.format.name(),
            conf: trace.settings.as_ref().and_then(|s| s.conf_text.as_deref()),
            facts: facts(&self.recording),
            settings: settings(&self.recording),
            devices: self.devices.iter().map(|device| device.overview(recorder)).collect(),
        }
    }

    /// Names of frames, and stacks made of them. Every text is sent once, and frames refer to it: a file may give one
    /// long name to any number of frames.
    pub(crate) fn names(&self, answer: &mut Columns) -> Names<'_> {
        let trace = &self.recording.trace;
        let names = vramscope_report::Names { trace, frames: &self.frames };
        let mut texts = Vec::new();
        let mut numbers: HashMap<(Text, StringId), u32> = HashMap::new();
        let mut number = |kind: Text, frame: FrameId| {
            let of = trace.frames.get(frame);
            let string = if matches!(kind, Text::File | Text::ShortFile) { of.filename } else { of.name };
            *numbers.entry((kind, string)).or_insert_with(|| {
                texts.push(match kind {
                    Text::File | Text::Function => Cow::Borrowed(trace.strings.get(string)),
                    Text::ShortFile => names.file(frame).into(),
                    Text::ShortFunction => names.function(frame).into(),
                });
                (texts.len() - 1) as u32
            })
        };
        let columns = [Text::File, Text::ShortFile, Text::Function, Text::ShortFunction]
            .map(|kind| trace.frames.iter().map(|(id, _)| number(kind, id)).collect::<Vec<u32>>());
        let [file, short_file, function, short_function] = columns;
        let mut end = 0;
        let ends = trace.stacks.iter().map(|(_, stack)| {
            end += stack.len() as u32;
            end
        });
        let own = trace.stacks.iter().map(|(id, _)| self.frames.own_frame(trace, id));
        Names {
            texts,
            file: answer.u32(file),
            short_file: answer.u32(short_file),
            function: answer.u32(function),
            short_function: answer.u32(short_function),
            line: answer.u32(trace.frames.iter().map(|(_, f)| f.line)),
            code: answer.u8(trace.frames.iter().map(|(id, _)| code(self.frames.code(id)))),
            ends: answer.u32(ends),
            frames: answer.u32(trace.stacks.iter().flat_map(|(_, s)| s.iter().map(|f| f.index() as u32))),
            own: answer.u32(own.map(|f| f.map_or(NONE, |f| f.index() as u32))),
        }
    }

    /// What the report finds on a device.
    pub(crate) fn report(&self, device: usize, cancel: &Cancel) -> Result<Report, ViewError> {
        let trace = &self.recording.trace;
        let history = self.device(device)?.history();
        let summary = Summary::of_history_unless(history, &self.frames, &Options::default(), cancel)
            .ok_or(ViewError::Unwanted)?;
        let could_expand = findings::could_expand(trace);
        let ooms = summary.ooms.iter().map(|oom| OomFinding {
            unusable: oom.fragmentation.unusable.iter().map(findings::unusable_blocks).collect(),
            cause: findings::oom_cause(oom, could_expand),
        });
        let ooms = ooms.collect();
        let best_setting = summary.best_setting.as_ref().map(findings::best_setting);
        let answers = Answers {
            file: &self.name,
            recording: &self.recording,
            frames: &self.frames,
            devices: vec![summary],
            by: None,
            at: None,
            advice: ADVICE,
        };
        let device = first_device(serde_json::to_value(ReportJson::new(&answers, Some(MOST_HOLDERS)))?);
        Ok(Report { device, ooms, best_setting })
    }

    /// The device replayed under its own settings and under others.
    pub(crate) fn replay(&self, device: usize, cancel: &Cancel) -> Result<Replay, ViewError> {
        let trace = &self.recording.trace;
        let position = self.device(device)?.history().position();
        let options = ReplayOptions { cancel: cancel.clone(), ..ReplayOptions::default() };
        let replay = DeviceReplay::of(trace, position, &self.frames, &options, &|| ())?;
        let lines = replay
            .tried
            .iter()
            .map(|t| t.outcome.reserved.iter().map(|&(event, b)| (Moment::after(event).index(), b)).collect())
            .collect();
        let names = vramscope_report::Names { trace, frames: &self.frames };
        let trust = ReplayTrust::of(&replay, names.overflowed(replay.device), &ADVICE);
        let trust = protocol::ReplayTrust {
            title: trust.title,
            reproduced: trust.reproduced,
            doubts: trust.doubts,
            what_if_doubts: trust.what_if_doubts,
        };
        let (device_size, floors) = (findings::device_size(&replay, &ADVICE), findings::floors(&replay));
        let answers = ReplayAnswers {
            file: &self.name,
            recording: &self.recording,
            frames: &self.frames,
            devices: vec![replay],
            advice: ADVICE,
        };
        let device = first_device(serde_json::to_value(ReplayJson::new(&answers))?);
        Ok(Replay { device, lines, device_size, floors, trust })
    }

    pub(crate) fn device(&self, position: usize) -> Result<&OpenDevice, ViewError> {
        self.devices.get(position).ok_or(ViewError::NoDevice(position))
    }
}

/// What a text of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Text {
    File,
    ShortFile,
    Function,
    ShortFunction,
}

/// Whoever sees the page has the command, too, whose options name what the page does not ask for.
const ADVICE: Advice = Advice {
    any_moment: "the view Moment",
    replay: "`vramscope replay`",
    capacity: "`vramscope replay --capacity`",
    capacity_alone: "`vramscope replay --capacity`",
    overhead: "`vramscope replay --overhead`",
    release: "`vramscope replay --torch`",
    ..Advice::LIBRARY
};

/// Rows of lists of holders: the page makes its own for any moment.
const MOST_HOLDERS: usize = 20;

fn first_device(mut json: serde_json::Value) -> serde_json::Value {
    json["devices"][0].take()
}

/// Marks shown; a program that catches out of memory may have any number.
const MOST_MARKS: usize = 1000;

impl OpenDevice {
    fn overview(&self, recorder: Recorder) -> protocol::Device<'_> {
        let history = self.history();
        let events = &history.device().events;
        let peaks = self.timeline.peaks();
        let peak = |p: Peak| protocol::Peak { bytes: p.bytes, moment: p.moment.index() };
        let overflowed = history.device().overflowed == Some(true);
        let trust = Trust::of(&history.quality, overflowed, recorder, &ADVICE);
        protocol::Device {
            device: history.device().device,
            events: events.len(),
            allocations: history.allocations.len(),
            origin_us: self.timeline.duration().and_then(|_| events.get(0).time_us),
            duration_us: self.timeline.duration(),
            peaks: ByKind {
                requested: peak(peaks.requested),
                allocated: peak(peaks.allocated),
                active: peak(peaks.active),
                reserved: peak(peaks.reserved),
            },
            start: by_kind(self.timeline.counters_at(Moment::START)),
            end: by_kind(self.timeline.counters_at(history.end())),
            preexisting: history.quality.preexisting,
            marks: self.marks(),
            tags: &self.tags.table,
            tag_texts: self.tags.texts.iter().map(|&text| history.trace().strings.get(text)).collect(),
            trust: protocol::Trust {
                is_exact: trust.is_exact,
                title: trust.title,
                doubts: trust.doubts,
                replay: trust.replay,
                dropped: trust.dropped,
            },
        }
    }

    fn marks(&self) -> Vec<Mark> {
        let events = &self.history().device().events;
        let marked = events.actions().iter().enumerate().filter_map(|(event, action)| match action {
            Action::Oom => Some((event, MarkKind::Oom)),
            Action::Snapshot => Some((event, MarkKind::Snapshot)),
            _ => None,
        });
        marked
            .take(MOST_MARKS)
            .map(|(event, kind)| Mark {
                event,
                time_us: self.timeline.time_of(Moment::after(event)),
                kind,
                bytes: events.get(event).size,
            })
            .collect()
    }
}

fn facts(recording: &Recording) -> Vec<(&'static str, String)> {
    let facts = Facts::of(&recording.trace);
    let (format, compression) = (recording.format, recording.compression);
    let mut out = vec![("Format", format.to_string())];
    if compression != Compression::None {
        out.push(("Compressed with", compression.name().to_owned()));
    }
    if !matches!(format, Format::Log { .. }) {
        out.push(("Age", facts.generation.to_owned()));
    }
    out.push(("Has", facts.features.join(", ")));
    out.push(("Stacks", count(recording.trace.stacks.len() as u64)));
    out.push(("Frames", count(recording.trace.frames.len() as u64)));
    let notices: Vec<String> = recording.notices.to_string().lines().map(str::to_owned).collect();
    out.push(("Not read", notices.join("; ")));
    out.retain(|(_, value)| !value.is_empty());
    out
}

/// Every setting the file has, as PyTorch names it.
fn settings(recording: &Recording) -> Vec<(&'static str, String)> {
    let Some(s) = &recording.trace.settings else { return Vec::new() };
    let recorded = TorchSettings::ALL.iter().filter_map(|setting| {
        let value = match setting.get(&s.recorded)? {
            SettingValue::Int(n) if setting.kind != SettingKind::Bytes => n.to_string(),
            SettingValue::Int(n) => u64::try_from(n).map_or("unlimited".to_owned(), vramscope_report::bytes),
            SettingValue::Float(x) => x.to_string(),
            SettingValue::Bool(b) => b.to_string(),
            SettingValue::Divisions(of) => divisions(of),
            SettingValue::Word(text) => text.to_owned(),
        };
        Some((setting.recorded?, value))
    });
    let conf = s.conf_text.clone().map(|text| ("PYTORCH_CUDA_ALLOC_CONF", text));
    conf.into_iter().chain(recorded).collect()
}

/// `1 MiB: 4, 2 MiB: 8`, only what is on.
fn divisions(of: vramscope_trace::PowerOfTwoDivisions) -> String {
    let on = of.0.iter().enumerate().filter(|&(_, &n)| n > 0);
    let parts: Vec<String> =
        on.map(|(i, n)| format!("{}: {n}", vramscope_report::bytes(1 << (20 + i)))).collect();
    if parts.is_empty() { "off".to_owned() } else { parts.join(", ") }
}
