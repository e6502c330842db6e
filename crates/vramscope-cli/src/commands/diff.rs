//! `vramscope diff`

use anyhow::bail;
use vramscope::analysis::{Both, DeviceDiff};
use vramscope::report::{Compared, DiffAnswers, DiffJson, TextOptions, diff};

use super::{Open, devices, is_stream};
use crate::Found;
use crate::advice::ADVICE;
use crate::args::DiffArgs;

/// Rows of what differs.
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
    let traces = Both { a: &a.recording.trace, b: &b.recording.trace };
    let both = used.a.iter().filter_map(|&(device, position)| {
        let other = used.b.iter().find(|(other, _)| *other == device)?;
        Some(Both { a: position, b: other.1 })
    });
    let only = |of: &[(i64, usize)], others: &[(i64, usize)]| {
        let is_alone = |device: &i64| !others.iter().any(|(other, _)| other == device);
        of.iter().map(|(device, _)| *device).filter(is_alone).collect()
    };
    let answers = DiffAnswers {
        recordings: Both { a: a.compared(), b: b.compared() },
        devices: both.map(|positions| DeviceDiff::of(traces, positions)).collect(),
        only: Both { a: only(&used.a, &used.b), b: only(&used.b, &used.a) },
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

impl Open {
    /// The devices asked for that were used, each with its position.
    fn used(&self, only: Option<i64>) -> anyhow::Result<Vec<(i64, usize)>> {
        let trace = &self.recording.trace;
        let positions = devices(&self.name, trace, only)?;
        let used = positions.into_iter().filter(|&position| trace.devices[position].was_used());
        Ok(used.map(|position| (trace.devices[position].device, position)).collect())
    }

    fn compared(&self) -> Compared<'_> {
        Compared { file: &self.name, recording: &self.recording, frames: &self.frames }
    }
}
