//! Facts about a recording: its contents and the PyTorch releases that could have written it.

use serde::{Deserialize, Serialize};
use vramscope_engine::{Allocator, Policy};
use vramscope_trace::formats::{Format, Recording};
use vramscope_trace::{Action, DeviceTrace, Events, FxNode, Purpose, Trace};

use super::segments::Reserved;
use super::skipped::SkippedActions;

/// The contents of a recording, and the PyTorch releases that could have written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingFacts {
    /// When PyTorch began to write files of this form.
    pub generation: &'static str,
    /// Contents of the recording beyond segments and events.
    pub features: Vec<&'static str>,
    /// Each device, then the host (-1) if it was used.
    pub devices: Vec<DeviceFacts>,
    /// Number of frames in all distinct stacks together.
    pub stack_frames: usize,
}

/// Number of events, segments and blocks of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device index; -1 for the host.
    pub device: i64,
    /// Number of recorded events.
    pub events: usize,
    /// Number of events by action, in the order of [`Action::KNOWN`], with unknown actions last.
    pub actions: Vec<(Action, usize)>,
    /// Kinds of events that were left out, as far as the events and the end state show it.
    pub skipped: SkippedActions,
    /// Number of segments in the end state.
    pub segments: usize,
    /// Number of blocks in the end state.
    pub blocks: usize,
    /// Times of the first and the last event, in microseconds since the Unix epoch; `None` if not recorded.
    pub time_us: (Option<i64>, Option<i64>),
}

/// The program that made a recording. Advice on better recordings depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorder {
    /// PyTorch, or a program that writes the same format.
    Torch,
    /// A `vramscope-allocator` pool in a Rust program.
    Pool,
    /// Another tool, whose format vramscope reads.
    Other,
    /// `vramscope run` with a log, which sees PyTorch's allocator from outside.
    Process,
}

impl Recorder {
    /// Determines the recorder. Logs and recordings under CuPy's rules come from pools. A snapshot comes from a pool if its
    /// stacks have frames in Rust files, but none of Python or PyTorch.
    pub fn of(recording: &Recording) -> Self {
        let trace = &recording.trace;
        if trace.process.is_some() {
            return Self::Process;
        }
        if trace.other_allocator().is_some() {
            return Self::Other;
        }
        let is_cupys = Policy::recorded(trace).allocator == Allocator::Cupy;
        let is_rust = || {
            let ends =
                |end: &str| trace.frames.iter().any(|(_, f)| trace.strings.get(f.filename).ends_with(end));
            let torch = || trace.frames.iter().any(|(_, f)| trace.strings.get(f.name).starts_with("c10::"));
            ends(".rs") && !ends(".py") && !torch()
        };
        let is_pools = matches!(recording.format, Format::Log { .. }) || is_cupys || is_rust();
        if is_pools { Self::Pool } else { Self::Torch }
    }
}

impl DeviceFacts {
    fn of(trace: &Trace, d: &DeviceTrace, policy: &Policy) -> Self {
        let mut counts = [0usize; Action::KNOWN.len() + 1];
        for &a in d.events.actions() {
            counts[a as usize] += 1;
        }
        let actions = Action::KNOWN.into_iter().chain([Action::Unknown]);
        let time_of = |event: Option<usize>| event.and_then(|i| d.events.get(i).time_us);
        let last = d.events.len().checked_sub(1);
        Self {
            device: d.device,
            events: d.events.len(),
            actions: actions.zip(counts).filter(|&(_, n)| n > 0).collect(),
            skipped: SkippedActions::of(d, policy, &Reserved::of(trace, d, policy)),
            segments: d.segments.len(),
            blocks: d.blocks.len(),
            time_us: (time_of(last.and(Some(0))), time_of(last)),
        }
    }
}

impl RecordingFacts {
    /// Collects the facts of `trace`; reads all events once.
    pub fn of(trace: &Trace) -> Self {
        let events = || trace.devices.iter().map(|d| &d.events);
        let any_event = |test: &dyn Fn(&Events) -> bool| events().any(test);
        let has = |action: Action| any_event(&|e| e.actions().contains(&action));
        let tags = |test: &dyn Fn(vramscope_trace::Tags) -> bool| trace.tags.iter().any(test);
        let segments = || trace.devices.iter().flat_map(|d| &d.segments);

        let times = any_event(&|e| e.iter().next().is_some_and(|e| e.time_us.is_some()));
        let traces = any_event(&|e| !e.is_empty());
        let compile_contexts = tags(&|t| t.compile_context.is_some());
        // The Python package adds its metadata to recordings of any release.
        let metadata = || trace.tags.iter().filter_map(|t| t.user_metadata).map(|m| trace.strings.get(m));
        let purposes = metadata().any(|text| Purpose::strip(text) != text);
        let user_metadata = metadata().any(|text| text.is_empty() || !Purpose::strip(text).is_empty());
        let pool_ids = tags(&|t| t.pool.is_some());
        let python = trace.frames.iter().any(|(_, f)| trace.strings.get(f.filename).ends_with(".py"));
        let native = trace.frames.iter().any(|(_, f)| trace.strings.get(f.name).contains("::"));
        let generation = if trace.other_allocator().is_some() {
            "unknown: another tool wrote it"
        } else if trace.records_host {
            "since mid 2026: with pinned host memory (2.15 writes it)"
        } else if pool_ids || has(Action::Annotate) {
            "since March 2026: with pool ids in events"
        } else if user_metadata {
            "since October 2025: with user metadata (2.11 writes it)"
        } else if compile_contexts {
            "since 2025: with compile contexts"
        } else if trace.annotations.is_some() {
            "since July 2024: with annotations (2.6 writes it)"
        } else if has(Action::UserDefined) {
            "from April to July 2024: with regions as events"
        } else if trace.settings.is_some() {
            "since February 2024: with allocator settings"
        } else if times {
            "since October 2023: with times"
        } else if traces {
            "since October 2022: with traces"
        } else {
            "segments without traces"
        };
        let features = [
            ("Python stacks", python),
            ("C++ stacks", native),
            ("times", times),
            ("allocator settings", trace.settings.is_some()),
            ("annotations", trace.annotations.as_ref().is_some_and(|a| !a.is_empty())),
            ("compile contexts", compile_contexts),
            ("user metadata", user_metadata),
            ("pool ids", pool_ids),
            ("private pools", segments().any(|s| s.pool.is_some_and(|p| p != Default::default()))),
            (
                "expandable segments",
                segments().any(|s| s.is_expandable == Some(true)) || has(Action::SegmentMap),
            ),
            ("several streams", several_streams(trace)),
            ("out of memory", has(Action::Oom)),
            ("categories", tags(&|t| t.category.is_some())),
            ("purposes", purposes),
            ("forward stacks", tags(&|t| t.forward_frames.is_some())),
            ("FX nodes", trace.frames.iter().any(|(_, f)| f.fx != FxNode::default())),
            ("pinned host memory", trace.devices.iter().any(DeviceTrace::is_host)),
            ("operators", trace.operators.is_some()),
        ];
        let release = trace.shown_release();
        let device = |d: &DeviceTrace| DeviceFacts::of(trace, d, &Policy::of_device(trace, d, release));
        let features = features.into_iter().filter(|f| f.1).map(|f| f.0).collect();
        Self {
            generation,
            features,
            devices: trace.devices.iter().map(device).collect(),
            stack_frames: trace.stacks.iter().map(|(_, s)| s.len()).sum(),
        }
    }
}

fn several_streams(trace: &Trace) -> bool {
    let recorded = trace.tags.iter().map(|t| t.stream);
    let held = trace.devices.iter().flat_map(|d| &d.segments).map(|s| s.stream);
    let mut streams = recorded.chain(held);
    let first = streams.next();
    streams.any(|s| Some(s) != first)
}
