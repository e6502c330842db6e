//! `vramscope phantom`
//!
//! `attempt` is one run, `cards` decides which cards need a run and which a replay, `found_out` combines both. The analysis (`replay/gpus.rs`)
//! finds the cards that fit; the sentences about them are here, beside the only command that prints them. The Python files are copied to
//! the program: `sitecustomize.py` records, `history.py` shares the history with a program that records too, `values.py` and `ranks.py`
//! help programs that wait for values or for other processes, `changes.py` changes the program for `vramscope fit`.

pub(crate) mod args;
pub(crate) mod attempt;
pub(crate) mod card;
mod cards;
pub(crate) mod changes;
mod child;
mod found_out;
pub(crate) mod json;
pub(crate) mod list;
mod rank;
pub(crate) mod recordings;
mod run;
mod unrecorded;
mod verdict;
pub(crate) mod words;

use crate::Found;
use crate::commands::phantom::args::PhantomArgs;
use crate::commands::phantom::args::PhantomCommand;

pub(crate) fn run(args: &PhantomArgs) -> anyhow::Result<Found> {
    match &args.command {
        PhantomCommand::Run(args) => run::run(args),
        PhantomCommand::List(args) => list::run(args).map(|()| Found::Nothing),
    }
}
