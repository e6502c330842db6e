//! `vramscope split`: parts of a long recording, each a snapshot of its own.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::{ArgGroup, Args};
use serde::Serialize;
use vramscope::analysis::event_times;
use vramscope::export::{ExportFormat, Source, Split, SplitBy, SplitError, lost};
use vramscope::report::{Shown, count, counted};
use vramscope::trace::{Trace, formats};
use vramscope_files::make_folder;

use super::{about, open};
use crate::args::ReadArgs;
use crate::output::Output;
use crate::part;
use crate::part_folder::PartFolder;
use crate::say::{print_json, print_text, say};

/// Cut a long recording into parts that can each be reported and replayed
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("by").required(true).args(["events", "steps", "time"])))]
#[command(
    after_help = "Each part is a PyTorch snapshot: it has the events of an interval, the blocks that were live before them, and the blocks at its end.

Examples:
  vramscope split long.pickle -o parts/ --events 100000
  vramscope split run.vramscope -o parts/ --steps 10
  vramscope split run.vramscope -o parts/ --time 60"
)]
pub(crate) struct SplitArgs {
    /// A recording, as for `report`; `-` is standard input
    #[arg(value_name = "RECORDING")]
    file: PathBuf,
    /// Folder for the parts, which must be empty or absent
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Number of events of a part, on the device with the most events; other devices are cut at the same times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    events: Option<u32>,
    /// Number of steps of a part, as `report` finds them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Duration of a part in seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    time: Option<u64>,
    /// Only this device
    #[arg(long, value_name = "N")]
    device: Option<i64>,
    /// Print the parts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

/// The parts, for `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Split"))]
pub(crate) struct SplitJson {
    file: String,
    output: String,
    parts: Vec<PartJson>,
    /// What the parts lack of the recording.
    lost: Vec<&'static str>,
}

/// A part of a recording.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SplitPart"))]
struct PartJson {
    file: String,
    devices: Vec<DeviceJson>,
}

/// The events of a part on one device.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SplitDevice"))]
struct DeviceJson {
    device: i64,
    /// The event of the whole recording that is the first of this part.
    first_event: usize,
    /// Number of events of the whole recording in this part.
    events: usize,
    /// Number of `alloc` events in front of them, for blocks that were live before. Only in recordings without segments.
    repeated_events: usize,
    /// Time of the first event in microseconds since the Unix epoch.
    begin_us: Option<i64>,
    /// Time of the last event.
    end_us: Option<i64>,
}

/// Parses a number of seconds to microseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let microseconds = (seconds * 1e6).round();
    if !(1.0..1e18).contains(&microseconds) {
        return Err("must be at least a microsecond, and less than 30,000 years".to_owned());
    }
    Ok(microseconds as u64)
}

impl SplitArgs {
    fn by(&self) -> anyhow::Result<SplitBy> {
        Ok(match (self.events, self.steps, self.time) {
            (Some(events), _, _) => SplitBy::Events(events as usize),
            (_, Some(steps), _) => SplitBy::Steps(steps as usize),
            (_, _, Some(microseconds)) => SplitBy::Microseconds(microseconds),
            _ => bail!("give one of --events, --steps and --time"),
        })
    }
}

pub(crate) fn run(args: &SplitArgs) -> anyhow::Result<()> {
    let folder = &args.output;
    let name_of_folder = folder.display().to_string();
    if folder.exists() && folder.read_dir().with_context(|| name_of_folder.clone())?.next().is_some() {
        bail!("{name_of_folder}: is not empty; name a new folder");
    }
    let session = open(&args.file, args.reading)?;
    let name = session.name().to_owned();
    let devices = session.devices(args.device).map_err(about(&name))?;
    let source = Source { trace: session.trace(), frames: session.frames(), devices };
    let split = Split::of(&source, args.by()?).map_err(|error| with_advice(&error, &name))?;
    make_folder(folder).with_context(|| name_of_folder.clone())?;
    let lost = lost(&source, ExportFormat::Pickle);
    let parts = write_parts(&split, folder)?;
    let answer = SplitJson { file: name, output: name_of_folder, parts, lost };
    if args.json {
        return print_json(&answer);
    }
    for what in &answer.lost {
        say(&format!("note: {}: lost: {what}", answer.output));
    }
    print_text(&text(&answer, session.trace()))
}

fn with_advice(error: &SplitError, name: &str) -> anyhow::Error {
    let option = match error {
        SplitError::SeveralDevices => ", with --device",
        _ => "",
    };
    anyhow!("{name}: {error}{option}")
}

/// Writes all parts, or none.
fn write_parts(split: &Split, folder: &Path) -> anyhow::Result<Vec<PartJson>> {
    part::watch_signals()?;
    let unfinished = PartFolder::create(folder).with_context(|| folder.display().to_string())?;
    let (mut names, mut parts) = (Vec::new(), Vec::new());
    for part in 0..split.parts() {
        let name = format!("part-{part:04}.pickle");
        let file = folder.join(&name).display().to_string();
        let dir = unfinished.dir().try_clone().with_context(|| file.clone())?;
        let mut out = Output::in_folder(dir, &name, file.clone())?;
        formats::write_pickle(&split.part(part), &mut out).with_context(|| file.clone())?;
        out.finish()?;
        names.push(name);
        parts.push(PartJson { file, devices: devices_of(split, part) });
    }
    for (name, part) in names.iter().zip(&parts) {
        unfinished.finish(name).with_context(|| part.file.clone())?;
    }
    Ok(parts)
}

fn devices_of(split: &Split, part: usize) -> Vec<DeviceJson> {
    let histories = split.histories().iter();
    let devices = split.events(part).zip(histories).map(|(of, history)| {
        let times = event_times(history.device());
        let time = |event: usize| times.as_ref().and_then(|times| times.get(event).copied());
        let last = of.events.end.checked_sub(1).filter(|_| !of.events.is_empty());
        DeviceJson {
            device: of.device,
            first_event: of.events.start,
            events: of.events.len(),
            repeated_events: of.repeated,
            begin_us: last.and_then(|_| time(of.events.start)),
            end_us: last.and_then(time),
        }
    });
    devices.collect()
}

/// One line for each part and device.
fn text(answer: &SplitJson, names: &Trace) -> String {
    let mut text = String::new();
    for part in &answer.parts {
        for d in part.devices.iter().filter(|d| d.events > 0) {
            let (name, first) = (names.device_name(d.device), count(d.first_event as u64));
            let events = counted(d.events as u64, "event");
            // A write into a string cannot fail.
            let _ = write!(text, "{}  {name}: {events}, from event {first}", Shown::of(&part.file));
            if d.repeated_events > 0 {
                let live = counted(d.repeated_events as u64, "allocation");
                let _ = write!(text, ", after {live} that were live before");
            }
            text.push('\n');
        }
    }
    text
}
