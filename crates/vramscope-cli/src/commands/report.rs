//! `vramscope report`

use vramscope::analysis::{Frames, Options, Summary};
use vramscope::report::{Answers, ReportJson, TextOptions, report};

use crate::advice::ADVICE;
use crate::args::ReportArgs;
use crate::input;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let recording = input::read(&args.file, args.reading.options())?;
    let trace = &recording.trace;
    let name = input::name(&args.file);
    let devices = super::devices(&name, trace, args.device)?;
    super::check_event(&name, trace, &devices, args.at)?;
    let frames = Frames::of(trace);
    let options = Options { at: args.at, by: args.by.map(Into::into), filter: args.filter.clone() };
    let answers = Answers {
        file: &name,
        recording: &recording,
        frames: &frames,
        devices: devices.into_iter().map(|d| Summary::of(trace, d, &frames, &options)).collect(),
        by: options.by,
        at: args.at,
        advice: ADVICE,
    };
    if args.json {
        return super::print_json(&ReportJson::new(&answers, args.top));
    }
    let text = report(
        &answers,
        TextOptions {
            width: super::width(),
            top: args.top.unwrap_or(10).max(1),
            full_stacks: args.full_stacks,
        },
    );
    super::print_text(&text)
}
