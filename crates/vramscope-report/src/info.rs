//! The properties of a file: `vramscope info`.

use std::fmt::Write as _;

use serde::Serialize;
use vramscope_analysis::{DeviceFacts, RecordingFacts};
use vramscope_basics::units::{bytes, count, counted};
use vramscope_trace::formats::{Format, Recording};
use vramscope_trace::{Action, Events, Trace};

use crate::report::limitations::DamageJson;
use crate::shown::Shown;
use crate::text::lines::BOLD;
use crate::text::page::format_of;

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
    /// How a log of a process was recorded, by name: command, host, user, versions, devices, rank. What is missing is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<std::collections::BTreeMap<String, String>>,
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
            recording: trace.process.as_ref().map(|process| {
                let text = |id| trace.strings.get(id).to_owned();
                process.recording.iter().map(|&(name, of)| (text(name), text(of))).collect()
            }),
            allocator_conf: trace.settings.as_ref().and_then(|s| s.conf_text.clone()),
            bytes_per_event: Events::BYTES_PER_EVENT,
        }
    }
}

/// The statements of a log about how it was recorded, as lines: what a log can say, known or not.
fn recorded(trace: &Trace) -> Vec<(&'static str, String)> {
    let Some(process) = &trace.process else { return Vec::new() };
    if process.recording.is_empty() {
        return vec![("recorded", "unknown: an earlier release wrote the log".to_owned())];
    }
    let find = |name: &str| {
        let known = process.recording.iter().find(|&&(known, _)| trace.strings.get(known) == name);
        known.map(|&(_, text)| Shown::of(trace.strings.get(text)).to_string())
    };
    let known = |name: &str| find(name).unwrap_or_else(|| "unknown".to_owned());
    let rank = match (find("rank"), find("world_size")) {
        (Some(rank), Some(size)) => format!("{rank} of {size}"),
        (Some(rank), None) => rank,
        (None, _) => "none".to_owned(),
    };
    let mut lines = vec![
        ("command", known("command")),
        ("host", format!("{}, Linux {}", known("host"), known("kernel"))),
        ("user", format!("{}, process {}", known("user"), known("process"))),
        ("started", known("started_us") + " us since the Unix epoch"),
        (
            "versions",
            format!(
                "vramscope {}, Python {}, PyTorch {}, CUDA runtime {}, driver {} (CUDA {})",
                known("vramscope"),
                known("python"),
                known("torch"),
                known("runtime"),
                known("driver"),
                known("driver_cuda"),
            ),
        ),
        ("rank", rank),
        ("visible", find("visible_devices").unwrap_or_else(|| "all devices".to_owned())),
    ];
    let devices = (0..64).filter_map(|device| Some((device, find(&format!("device_{device}"))?)));
    for (device, name) in devices {
        let reading = process.readings.iter().find(|reading| reading.device == device);
        let size = reading.map_or_else(|| "unknown size".to_owned(), |reading| bytes(reading.total));
        lines.push(("device", format!("{device}: {name}, {size}")));
    }
    lines
}

/// The properties of a file as text with ANSI styles: format, settings and counts.
pub fn info(file: &str, recording: &Recording, facts: &RecordingFacts) -> String {
    let trace = &recording.trace;
    let mut out = format!("{BOLD}{}{BOLD:#}\n", Shown::of(file));
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<11} {value}");
    };
    line("format", format_of(recording));
    let notices = &recording.notices;
    if notices.damage.places > 0 {
        line("damage", notices.damage.to_string());
    }
    if trace.ends_early {
        let cut = match notices.cut_off_bytes {
            0 => "without its end".to_owned(),
            bytes => format!("in an incomplete write of {}", counted(bytes, "byte")),
        };
        line("ends", cut);
    }
    // A log does not contain the generation of PyTorch's format.
    if !matches!(recording.format, Format::Log { .. }) {
        line("age", facts.generation.to_owned());
    }
    line(
        "has",
        if facts.features.is_empty() { "nothing more".to_owned() } else { facts.features.join(", ") },
    );
    if let Some(settings) = &trace.settings {
        let conf = settings.conf_text.as_deref().filter(|c| !c.is_empty()).unwrap_or("(defaults)");
        line("settings", Shown::of(conf).into());
    }
    for (name, text) in recorded(trace) {
        line(name, text);
    }
    line(
        "stacks",
        format!(
            "{} of {} frames together, {} distinct frames",
            count(trace.stacks.len() as u64),
            count(facts.stack_frames as u64),
            count(trace.frames.len() as u64)
        ),
    );
    if let Some(annotations) = &trace.annotations {
        line("annotations", count(annotations.len() as u64));
    }
    if let Some(accesses) = &trace.accesses {
        let [launches, unknown] = [accesses.launches, accesses.unknown_launches].map(count);
        let noun = if accesses.launches == 1 { "launch" } else { "launches" };
        line("accesses", format!("{launches} {noun}, {unknown} with unknown parameters"));
    }
    for d in &facts.devices {
        let name = if d.device < 0 { "host".to_owned() } else { trace.device_name(d.device) };
        let counts = [(d.events, "event"), (d.segments, "segment"), (d.blocks, "block")];
        line(&name, counts.map(|(n, what)| counted(n as u64, what)).join(", "));
        for (action, n) in &d.actions {
            line("", format!("{:<16}{:>12}", action.name(), count(*n as u64)));
        }
        for action in d.skipped.iter() {
            line("", format!("{:<16}{:>12}", action.name(), "left out"));
        }
    }
    out
}
