//! `vramscope report`

use std::collections::BTreeSet;

use anyhow::bail;
use vramscope::analysis::{By, Frames, IntervalOptions, IntervalSummary, Options, SamplesSummary, Summary};
use vramscope::report::{
    Answers, ReportJson, SampleAnswers, SamplesJson, SpanAnswers, SpanJson, TextOptions, report,
    samples_report, span_report,
};
use vramscope::trace::formats::{Compression, Opened, Recording};
use vramscope::trace::samples::{SampleLog, Series};

use crate::advice::ADVICE;
use crate::args::{AtArg, ReportArgs};
use crate::input;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    match input::read_any(&args.file, args.reading.options())? {
        Opened::Recording(recording) => of_recording(args, &recording),
        Opened::Samples { log, compression } => of_samples(args, &log, compression),
    }
}

/// Reports a log of samples.
fn of_samples(args: &ReportArgs, log: &SampleLog, compression: Compression) -> anyhow::Result<()> {
    let name = input::name(&args.file);
    let asked = [
        (args.by.is_some(), "--by"),
        (args.at.is_some(), "--at"),
        (args.filter.is_some(), "--filter"),
        (args.full_stacks, "--full-stacks"),
    ];
    if let Some((_, option)) = asked.iter().find(|(is_asked, _)| *is_asked) {
        bail!("{name}: {option} needs allocations, which a log of samples does not have; give a recording");
    }
    let is_asked_for = |series: &&Series| args.device.is_none_or(|device| series.device == Some(device));
    let answers = SampleAnswers {
        file: &name,
        log,
        compression,
        devices: log.series.iter().filter(is_asked_for).map(|s| SamplesSummary::of(log, s)).collect(),
    };
    if let (Some(device), true) = (args.device, answers.devices.is_empty()) {
        let known: BTreeSet<String> =
            log.series.iter().filter_map(|s| s.device).map(|device| device.to_string()).collect();
        if known.is_empty() {
            bail!("{name}: the log does not contain device numbers; omit --device");
        }
        let known: Vec<String> = known.into_iter().collect();
        bail!("{name}: has no samples of device {device}; it has {}", known.join(", "));
    }
    if args.json {
        return super::print_json(&SamplesJson::new(&answers, args.top));
    }
    super::print_text(&samples_report(&answers, text_options(args)))
}

fn text_options(args: &ReportArgs) -> TextOptions {
    TextOptions { width: super::width(), top: args.top.unwrap_or(10).max(1), full_stacks: args.full_stacks }
}

fn of_recording(args: &ReportArgs, recording: &Recording) -> anyhow::Result<()> {
    let trace = &recording.trace;
    let name = input::name(&args.file);
    let devices = super::devices(&name, trace, args.device)?;
    let at = match args.at {
        Some(AtArg::Events(first, last)) => return of_span(args, recording, &devices, first, last),
        Some(AtArg::Event(event)) => Some(event),
        None => None,
    };
    super::check_event(&name, trace, &devices, at)?;
    let frames = Frames::of(trace);
    let options = Options { at, by: args.by.map(Into::into), filter: args.filter.clone() };
    let answers = Answers {
        file: &name,
        recording,
        frames: &frames,
        devices: devices.into_iter().map(|d| Summary::of(trace, d, &frames, &options)).collect(),
        by: options.by,
        at,
        advice: ADVICE,
    };
    if args.json {
        return super::print_json(&ReportJson::new(&answers, args.top));
    }
    super::print_text(&report(&answers, text_options(args)))
}

/// Reports a range of events.
fn of_span(
    args: &ReportArgs,
    recording: &Recording,
    devices: &[usize],
    first: usize,
    last: usize,
) -> anyhow::Result<()> {
    let trace = &recording.trace;
    let name = input::name(&args.file);
    super::check_event(&name, trace, devices, Some(last))?;
    let frames = Frames::of(trace);
    let by = args.by.map_or(By::Line, Into::into);
    let options = IntervalOptions { first, last, by, filter: args.filter.clone() };
    let answers = SpanAnswers {
        file: &name,
        recording,
        frames: &frames,
        devices: devices.iter().filter_map(|&d| IntervalSummary::of(trace, d, &frames, &options)).collect(),
        by,
        advice: ADVICE,
    };
    if args.json {
        return super::print_json(&SpanJson::new(&answers, args.top));
    }
    super::print_text(&span_report(&answers, text_options(args)))
}
