//! `vramscope report`

use std::io;

use anyhow::bail;
use terminal_size::{Width, terminal_size_of};
use vramscope::analysis::{Frames, Options, Summary};
use vramscope::report::{Answers, ReportJson, TextOptions, report};
use vramscope::trace::DeviceTrace;

use crate::args::ReportArgs;
use crate::input;

/// Columns where the output is not a terminal.
const WIDTH: usize = 100;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let recording = input::read(&args.file)?;
    let trace = &recording.trace;
    let name = input::name(&args.file);
    let devices: Vec<&DeviceTrace> =
        trace.devices.iter().filter(|d| args.device.is_none_or(|n| d.device == n)).collect();
    if let (Some(asked), true) = (args.device, devices.is_empty()) {
        let known: Vec<String> = trace.devices.iter().map(|d| d.device.to_string()).collect();
        bail!(
            "{name}: has no device {asked}; it has {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        );
    }
    if let Some(at) = args.at {
        let longest = devices.iter().map(|d| d.events.len()).max().unwrap_or(0);
        if at >= longest {
            bail!("{name}: has no event {at}; its events are numbered from 0 and there are {longest}");
        }
    }
    let frames = Frames::of(trace);
    let options = Options { at: args.at, by: args.by.map(Into::into), filter: args.filter.clone() };
    let answers = Answers {
        file: &name,
        recording: &recording,
        frames: &frames,
        devices: devices.into_iter().map(|d| Summary::of(trace, d, &frames, &options)).collect(),
        by: options.by,
        at: args.at,
    };
    if args.json {
        return super::print_json(&ReportJson::new(&answers, args.top));
    }
    let width = terminal_size_of(io::stdout()).map_or(WIDTH, |(Width(w), _)| w.into());
    let text = report(
        &answers,
        TextOptions {
            width: width.clamp(60, 160),
            top: args.top.unwrap_or(10).max(1),
            full_stacks: args.full_stacks,
        },
    );
    super::print_text(&text)
}
