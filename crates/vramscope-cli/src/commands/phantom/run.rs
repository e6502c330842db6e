//! `vramscope phantom run`

use std::path::{Path, PathBuf};

use anyhow::bail;
use vramscope::analysis::Fit;

use super::attempt::{Attempt, Extra, UNLIMITED};
use super::card::Card;
use super::found_out::FoundOut;
use super::json;
use super::recordings;
use super::unrecorded::Unrecorded;
use super::words::{self, Answer};
use crate::Found;
use crate::args::names_log;
use crate::commands::phantom::args::PhantomRunArgs;
use crate::commands::run::{check_logs, checked_output};
use crate::commands::{print_json, print_text};

pub(crate) fn run(args: &PhantomRunArgs) -> anyhow::Result<Found> {
    let card = Card::of(&args.on);
    if card.total <= *card.context.start() {
        bail!("a GPU of {} bytes has no room for a context of {} bytes", card.total, card.context.start());
    }
    if let (Some(world_size), Some(rank)) = (args.world_size, args.rank)
        && rank >= world_size
    {
        bail!("there is no rank {rank} among {world_size}: ranks count from 0");
    }
    let log = log(args)?;
    let writes_log = log.is_some();
    let total = if args.sweep_gpus { UNLIMITED } else { card.total };
    let first = Attempt::with(args, args.on.gpu, total, Extra { log, ..Extra::default() })?;
    let ran_out = first.ran_out();
    let found = FoundOut::of(args, &card, &first)?;
    let unrecorded = Unrecorded::of(&first);
    let Attempt { run, ended, machine, asked, mut recordings, logs, .. } = first;
    if let Some(out) = args.record.as_ref().filter(|_| !writes_log) {
        recordings::keep(&mut recordings, out)?;
    }
    let answer = Answer { args, card: &card, ended, machine, asked, recordings, logs, unrecorded, found };
    if args.json {
        print_json(&json::json(&answer))?;
    } else {
        print_text(&words::text(&answer)?)?;
    }
    drop(run);
    let failed = !ended.status.success() && !ended.timed_out && !ran_out;
    if failed || ended.killed {
        bail!("{}", words::end(ended));
    }
    check_logs(&answer.logs)?;
    Ok(if answer.found.fit == Fit::Fits { Found::Nothing } else { Found::Something })
}

/// The path of the log, if one is wanted.
fn log(args: &PhantomRunArgs) -> anyhow::Result<Option<PathBuf>> {
    match &args.record {
        Some(record) if names_log(record) => checked_output(record).map(Some),
        Some(record) if args.accesses => {
            bail!("{}: accesses are in logs: name one, as --record run.vramscope", record.display())
        }
        None if args.accesses => checked_output(Path::new("run.vramscope")).map(Some),
        _ => Ok(None),
    }
}
