//! `vramscope plan`

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use vramscope::analysis::{Cancel, PlanSource};
use vramscope::report::{ReplayJson, TextOptions, replay, replay_sentences};
use vramscope::session::ReplayRequest;

use crate::advice::ADVICE;
use crate::args::ReadArgs;
use crate::output::Output;
use crate::say::say;

/// Plan the addresses of a program's allocations: how much memory would it reserve without fragmentation?
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope plan snapshot.pickle
  vramscope plan before.pickle -o run.plan
  vramscope plan before.pickle -o run.plan --share-streams
  vramscope replay after.pickle --plan run.plan")]
pub(crate) struct PlanArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    /// Write the plan to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Let streams share the memory of the plan, if it then has fewer bytes: a stream waits for the stream that used its memory before
    #[arg(long)]
    pub(crate) share_streams: bool,
    /// Only this device
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<i64>,
    /// Print JSON, as `replay --plan auto --json` does
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let session = super::open(&args.file, args.reading)?;
    let output = args.output.as_deref().map(|path| Output::file(path, &[&args.file])).transpose()?;
    let mut device = args.device;
    if output.is_some() {
        let position = session.device(device).map_err(super::about(session.name()))?;
        device = Some(session.number(position));
    }
    let plan = Some(PlanSource::Recording { share_streams: args.share_streams });
    let request = ReplayRequest { plan, device, ..ReplayRequest::default() };
    request.check(&ADVICE)?;
    let answers =
        session.replay(&request, &Cancel::default(), &|| ()).map_err(super::about(session.name()))?;
    let plans = answers.devices.iter().filter_map(|device| device.plan.as_ref());
    if args.share_streams && plans.clone().any(|plan| !plan.plan.shares_streams()) {
        say(&format!(
            "note: {}: streams that share memory need no fewer bytes, so each has its own",
            session.name()
        ));
    }
    if let Some(output) = output {
        let plan = answers.devices.first().and_then(|device| device.plan.as_ref());
        let Some(plan) = plan else { bail!("{}: too large for a plan", session.name()) };
        let text = serde_json::to_vec(plan.plan.as_ref()).context("cannot write the plan")?;
        output.write_whole(&text)?;
        if let Some(warning) = plan.made.as_ref().and_then(replay_sentences::varying_steps) {
            say(&format!("warning: {}: {warning}", session.name()));
        }
    }
    if args.json {
        super::print_json(&ReplayJson::new(&answers))
    } else {
        let options = TextOptions { width: super::width(), top: 10, full_stacks: false };
        super::print_text(&replay(&answers, options))
    }
}
