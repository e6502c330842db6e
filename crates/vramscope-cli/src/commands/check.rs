//! `vramscope check`

use std::path::Path;

use anyhow::bail;
use vramscope::analysis::{Budget, BudgetCheck, ByteKind, DeviceRecording, Frames, Growth};
use vramscope::report::{CheckAnswers, CheckJson, TextOptions, check, junit};

use super::{Open, is_stream};
use crate::Found;
use crate::advice::ADVICE;
use crate::args::CheckArgs;
use crate::input;
use crate::output::Output;

/// Rows below an exceeded budget.
const ROWS: usize = 5;

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Found> {
    let baseline = args.baseline.as_deref();
    if is_stream(&args.file) && baseline.is_some_and(is_stream) {
        bail!("only one of FILE and --baseline can be standard input");
    }
    if args.json && args.junit.as_deref().is_some_and(is_stream) {
        bail!("--json: standard output is already used by --junit; give --junit a file name");
    }
    let recording = input::read(&args.file, args.reading.options())?;
    let name = input::name(&args.file);
    let trace = &recording.trace;
    let devices = super::devices(&name, trace, args.device)?;
    if !devices.iter().any(|&d| trace.devices[d].was_used()) {
        bail!("{name}: nothing was recorded on {}; there is nothing to check", asked_for(args));
    }
    let old = baseline.map(|file| Open::read(file, args.reading.options())).transpose()?;
    let frames = Frames::of(trace);
    let budgets = budgets(args);
    let check_device = |position: usize| {
        let recorded = DeviceRecording { trace, position, frames: &frames };
        let number = trace.devices[position].device;
        BudgetCheck::of(recorded, old.as_ref().and_then(|old| old.device(number)), &budgets)
    };
    let numbers: Vec<i64> = trace.devices.iter().map(|d| d.device).collect();
    let only_in_baseline = old
        .iter()
        .flat_map(|old| &old.recording.trace.devices)
        .filter(|d| args.device.is_none() && d.was_used() && !numbers.contains(&d.device));
    let answers = CheckAnswers {
        file: &name,
        recording: &recording,
        frames: &frames,
        baseline: old.as_ref().map(|old| old.name.as_str()),
        only_in_baseline: only_in_baseline.map(|d| d.device).collect(),
        devices: devices.into_iter().map(check_device).collect(),
        advice: ADVICE,
    };
    let kept = answers.devices.iter().all(BudgetCheck::keeps_all);
    write(args, &answers)?;
    Ok(if kept { Found::Nothing } else { Found::Something })
}

/// Writes the verdicts in the requested formats.
fn write(args: &CheckArgs, answers: &CheckAnswers<'_>) -> anyhow::Result<()> {
    let options = |width| TextOptions { width, top: ROWS, full_stacks: false };
    let junit_to = args.junit.as_deref();
    if let Some(path) = junit_to {
        let inputs: Vec<&Path> =
            [Some(args.file.as_path()), args.baseline.as_deref()].into_iter().flatten().collect();
        Output::named(path, &inputs)?.write_whole(junit(answers, options(super::WIDTH))?.as_bytes())?;
    }
    if args.json {
        super::print_json(&CheckJson::new(answers))
    } else if junit_to.is_some_and(is_stream) {
        Ok(())
    } else {
        super::print_text(&check(answers, options(super::width())))
    }
}

/// The budgets of the options, in the order of the options.
fn budgets(args: &CheckArgs) -> Vec<Budget> {
    let growth = args.baseline.as_ref().map(|_| args.max_growth.unwrap_or(Growth::Bytes(0)));
    let asked = [
        args.max_peak.map(|limit| Budget::Peak(ByteKind::Allocated, limit)),
        args.max_reserved.map(|limit| Budget::Peak(ByteKind::Reserved, limit)),
        growth.map(|growth| Budget::Growth(ByteKind::Allocated, growth)),
        growth.map(|growth| Budget::Growth(ByteKind::Reserved, growth)),
        args.no_leaks.then_some(Budget::NoLeaks),
        args.no_oom.then_some(Budget::NoOoms),
    ];
    let categories = args.max_category.iter().map(|&(category, limit)| Budget::Category(category, limit));
    asked.into_iter().flatten().chain(categories).collect()
}

impl Open {
    fn device(&self, number: i64) -> Option<DeviceRecording<'_>> {
        let trace = &self.recording.trace;
        let position = trace.devices.iter().position(|d| d.device == number)?;
        Some(DeviceRecording { trace, position, frames: &self.frames })
    }
}

fn asked_for(args: &CheckArgs) -> String {
    args.device.map_or_else(|| "any device".to_owned(), |n| format!("device {n}"))
}
