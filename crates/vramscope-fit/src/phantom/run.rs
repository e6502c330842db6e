//! A run, and what follows from it.

use std::path::PathBuf;

use anyhow::bail;
use vramscope_recorder::{NewRecording, names_log};

use super::attempt::{Attempt, Extra, UNLIMITED};
use super::chosen_gpu::Card;
use super::extremes;
use super::fits::FoundOut;
use super::recordings;
use super::request::RunRequest;
use super::text::Answer;
use super::without_recording::Unrecorded;
use crate::control::Control;
use crate::error::FitError;

/// Runs a program on phantom GPUs, and once more where that is needed to tell on which GPUs it fits.
///
/// # Errors
/// The request contradicts itself, the program cannot be started, or a recording cannot be read or written.
pub fn run<'a>(args: &'a RunRequest, control: &dyn Control) -> Result<Answer<'a>, FitError> {
    Ok(answer(args, control)?)
}

fn answer<'a>(args: &'a RunRequest, control: &dyn Control) -> anyhow::Result<Answer<'a>> {
    let card = Card::of(&args.on);
    if card.total <= *card.context.start() {
        bail!("a GPU of {} bytes has no room for a context of {} bytes", card.total, card.context.start());
    }
    args.check()?;
    let out = new_recording(args, control)?;
    let (log, out) = if out.as_deref().is_some_and(names_log) { (out, None) } else { (None, out) };
    let total = if args.sweep_gpus { UNLIMITED } else { card.total };
    let mut first = Attempt::with(args, args.on.gpu, total, Extra { log, ..Extra::default() }, control)?;
    let logs = std::mem::take(&mut first.logs);
    let (main_args, main) = extremes::explore(args, first, control, |args, total| {
        let extra = Extra { keeps_output: true, ..Extra::default() };
        Attempt::with(args, args.on.gpu, total, extra, control)
    })?;
    let ran_out = main.ran_out();
    let found = FoundOut::of(&main_args, &card, &main, control)?;
    let unrecorded = Unrecorded::of(&main);
    let Attempt { run, ended, machine, asked, mut recordings, .. } = main;
    if let Some(out) = out {
        recordings::keep(&mut recordings, &out, args.force)?;
    }
    Ok(Answer { args, card, ended, machine, asked, recordings, logs, unrecorded, found, ran_out, _run: run })
}

/// The file of the recording, if one is wanted.
fn new_recording(args: &RunRequest, control: &dyn Control) -> anyhow::Result<Option<PathBuf>> {
    if args.record.is_none() && !args.accesses {
        return Ok(None);
    }
    if let Some(record) = args.record.as_ref().filter(|record| args.accesses && !names_log(record)) {
        bail!("{}: accesses are in logs: name one, as --record run.vramscope", record.display());
    }
    let new = NewRecording::choose(args.record.as_deref(), "run.vramscope", args.force)?;
    if let Some(note) = new.note() {
        control.say(&note);
    }
    Ok(Some(new.path))
}
