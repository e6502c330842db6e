//! `vramscope diff`

use anyhow::bail;
use vramscope::analysis::{
    AllocationCategories, Both, ComparedPart, Devices, History, Steps, changed_settings, diff_devices,
};
use vramscope::report::{Compared, DiffAnswers, DiffJson, TextOptions, diff};

use super::{Open, devices, is_stream};
use crate::Found;
use crate::advice::ADVICE;
use crate::args::DiffArgs;

/// Default rows of each list.
const ROWS: usize = 10;

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Found> {
    if is_stream(&args.a) && is_stream(&args.b) {
        bail!("only one of A and B can be standard input");
    }
    let a = Open::read(&args.a, args.reading.options())?;
    let b = Open::read(&args.b, args.reading.options())?;
    let used = Both { a: a.used(args.device)?, b: b.used(args.device)? };
    if used.a.is_empty() && used.b.is_empty() {
        bail!("{} and {}: nothing was recorded; there is nothing to compare", a.name, b.name);
    }
    let compared = Both { a: a.devices(&used.a), b: b.devices(&used.b) };
    let in_step = |history: &History| args.at_step.and_then(|step| step_of(history, step));
    if let Some(step) = args.at_step {
        a.has_step(&used.a, step)?;
        b.has_step(&used.b, step)?;
    }
    let (devices, only) = diff_devices(compared, &in_step);
    let answers = DiffAnswers {
        recordings: Both { a: a.compared(), b: b.compared() },
        devices,
        only,
        settings: changed_settings(compared.map(|of| &**of.trace)),
        at: args.at_step.map(|step| format!("At the peak of step {step}")),
        advice: ADVICE,
    };
    if args.json {
        super::print_json(&DiffJson::new(&answers))?;
    } else {
        let options =
            TextOptions { width: super::width(), top: args.top.unwrap_or(ROWS), full_stacks: false };
        super::print_text(&diff(&answers, options))?;
    }
    Ok(if answers.is_same() { Found::Nothing } else { Found::Something })
}

/// Step number `step`, counted from 1.
fn step_of(history: &History, step: u32) -> Option<ComparedPart> {
    let steps = Steps::of(history, &AllocationCategories::of(history)).steps;
    steps.get(step as usize - 1).map(ComparedPart::from)
}

impl Open {
    /// # Errors
    /// A device has fewer steps than `step`.
    fn has_step(&self, positions: &[usize], step: u32) -> anyhow::Result<()> {
        let trace = &self.recording.trace;
        for &position in positions {
            let history = History::replayed(trace, position);
            let steps = Steps::of(&history, &AllocationCategories::of(&history)).steps.len();
            let device = trace.devices[position].device;
            match steps {
                0 => bail!("{}: no steps were found on device {device}; omit --at-step", self.name),
                _ if step as usize > steps => {
                    bail!("{}: device {device} has {steps} steps; there is no step {step}", self.name)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The positions of the requested devices that were used.
    fn used(&self, only: Option<i64>) -> anyhow::Result<Vec<usize>> {
        let trace = &self.recording.trace;
        let positions = devices(&self.name, trace, only)?;
        Ok(positions.into_iter().filter(|&position| trace.devices[position].was_used()).collect())
    }

    fn devices<'t>(&'t self, positions: &'t [usize]) -> Devices<'t> {
        Devices { trace: &self.recording.trace, frames: &self.frames, positions }
    }

    fn compared(&self) -> Compared<'_> {
        Compared { file: &self.name, recording: &self.recording, frames: &self.frames }
    }
}
