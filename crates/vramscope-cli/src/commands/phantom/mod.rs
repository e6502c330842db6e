//! `vramscope phantom`

mod attempt;
mod card;
mod cards;
mod child;
mod found_out;
mod json;
mod list;
mod rank;
mod recordings;
mod run;
mod unrecorded;
mod verdict;
mod words;

use crate::Found;
use crate::args::{PhantomArgs, PhantomCommand};

pub(crate) fn run(args: &PhantomArgs) -> anyhow::Result<Found> {
    match &args.command {
        PhantomCommand::Run(args) => run::run(args),
        PhantomCommand::List(args) => list::run(args).map(|()| Found::Nothing),
    }
}
