//! JSON of `vramscope info --json`.

use super::quality::DamageJson;
use serde::Serialize;
use vramscope_analysis::{DeviceFacts, RecordingFacts};
use vramscope_trace::formats::{Format, Recording};
use vramscope_trace::{Action, Events};

/// The output of `vramscope info --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Info"))]
pub struct InfoJson {
    file: String,
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pickle_protocol: Option<u8>,
    compression: &'static str,
    /// Damaged places of the file; null if there are none.
    damage: Option<DamageJson>,
    /// Bytes of an incomplete write at the end of the file.
    cut_off_bytes: u64,
    /// Whether the recording ends before the program did: it was killed or is still running, or the file was cut.
    ends_early: bool,
    generation: Option<&'static str>,
    features: Vec<&'static str>,
    devices: Vec<InfoDeviceJson>,
    frames: usize,
    stacks: usize,
    stack_frames: usize,
    annotations: Option<usize>,
    allocator_conf: Option<String>,
    /// Memory of one event in bytes, without its stack.
    bytes_per_event: usize,
}

/// Basic facts about one device.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "InfoDevice"))]
struct InfoDeviceJson {
    device: i64,
    events: usize,
    actions: std::collections::BTreeMap<&'static str, usize>,
    /// Kinds of events that were left out of the recording.
    skipped_actions: Vec<&'static str>,
    segments: usize,
    blocks: usize,
    first_time_us: Option<i64>,
    last_time_us: Option<i64>,
}

impl InfoJson {
    /// The properties of a file.
    pub fn new(file: &str, recording: &Recording, facts: &RecordingFacts) -> Self {
        let trace = &recording.trace;
        let device = |d: &DeviceFacts| InfoDeviceJson {
            device: d.device,
            events: d.events,
            actions: d.actions.iter().map(|&(a, n)| (a.name(), n)).collect(),
            skipped_actions: d.skipped.iter().map(Action::name).collect(),
            segments: d.segments,
            blocks: d.blocks,
            first_time_us: d.time_us.0,
            last_time_us: d.time_us.1,
        };
        Self {
            file: file.to_owned(),
            format: recording.format.name(),
            pickle_protocol: match recording.format {
                Format::Pickle { protocol } => Some(protocol),
                _ => None,
            },
            compression: recording.compression.name(),
            damage: DamageJson::of(recording),
            cut_off_bytes: recording.notices.cut_off_bytes,
            ends_early: trace.ends_early,
            // A log does not contain the generation of PyTorch's format.
            generation: (!matches!(recording.format, Format::Log { .. })).then_some(facts.generation),
            features: facts.features.clone(),
            devices: facts.devices.iter().map(device).collect(),
            frames: trace.frames.len(),
            stacks: trace.stacks.len(),
            stack_frames: facts.stack_frames,
            annotations: trace.annotations.as_ref().map(Vec::len),
            allocator_conf: trace.settings.as_ref().and_then(|s| s.conf_text.clone()),
            bytes_per_event: Events::BYTES_PER_EVENT,
        }
    }
}
