//! `vramscope report`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use vramscope::analysis::{Cancel, SamplesSummary};
use vramscope::report::{ROWS, SampleAnswers, SamplesJson, Shown, TextOptions, samples_report};
use vramscope::session::{ReportRequest, Session};
use vramscope::texts;
use vramscope::trace::formats::{Compression, Opened};
use vramscope::trace::samples::{SampleLog, Series};

use crate::advice::ADVICE;
use crate::args::ReadArgs;
use crate::input;

/// Report the peak, the lines that hold it, leaks, fragmentation and out-of-memory failures
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope report snapshot.pickle
  vramscope report snapshot.pickle --by function --top 20
  vramscope report snapshot.pickle --at 1200 --filter 'model\\.py'
  vramscope report slurm-4711.out
  zstdcat big.pickle.zst | vramscope report - --json")]
pub(crate) struct ReportArgs {
    /// A PyTorch snapshot (pickle or JSON), a log of `monitor` or of a tracker, optionally compressed with gzip or zstd, or
    /// a text with out-of-memory errors, such as the log of a job; `-` is standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) request: ReportRequest,
    /// Show every frame below each row, instead of the tree of calls in user code
    #[arg(long)]
    pub(crate) full_stacks: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let name = input::name(&args.file);
    if let Some(text) = input::text(&args.file).with_context(|| name.clone())? {
        let found = texts::read(text).with_context(|| name.clone())?;
        if !found.errors.is_empty() {
            return of_text(args, &name, &found);
        }
        if args.file == Path::new("-") {
            bail!("{name}: text without an out-of-memory error, and not a recording");
        }
    }
    match input::read_any(&args.file, args.reading.options())? {
        Opened::Recording(recording) => of_recording(args, &Session::once(name, recording, ADVICE)),
        Opened::Samples { log, compression } => of_samples(args, &name, &log, compression),
    }
}

/// Reports the out-of-memory errors of a text.
fn of_text(args: &ReportArgs, name: &str, found: &texts::Found) -> anyhow::Result<()> {
    if args.json {
        super::print_json(&found.json())
    } else {
        super::print_text(&texts::told(&Shown::of(name), found))
    }
}

fn of_recording(args: &ReportArgs, session: &Session) -> anyhow::Result<()> {
    let answer = session.report(&args.request, &Cancel::default()).map_err(super::about(session.name()))?;
    if args.json {
        super::print_json(&answer.json())
    } else {
        super::print_text(&answer.text(super::width(), args.full_stacks))
    }
}

/// Reports a log of samples.
fn of_samples(
    args: &ReportArgs,
    file: &str,
    log: &SampleLog,
    compression: Compression,
) -> anyhow::Result<()> {
    let (device, top) = (args.request.device, args.request.top);
    let full_stacks = args.full_stacks.then_some("full-stacks");
    if let Some(name) = args.request.needs_allocations().or(full_stacks) {
        let option = ADVICE.option(name);
        bail!("{file}: {option} needs allocations, which a log of samples does not have; give a recording");
    }
    let is_asked_for = |series: &&Series| device.is_none_or(|device| series.device == Some(device));
    let answers = SampleAnswers {
        file,
        log,
        compression,
        devices: log.series.iter().filter(is_asked_for).map(|s| SamplesSummary::of(log, s)).collect(),
    };
    if let (Some(device), true) = (device, answers.devices.is_empty()) {
        let known: BTreeSet<String> =
            log.series.iter().filter_map(|s| s.device).map(|device| device.to_string()).collect();
        if known.is_empty() {
            bail!("{file}: the log does not contain device numbers; omit --device");
        }
        let known: Vec<String> = known.into_iter().collect();
        bail!("{file}: has no samples of device {device}; it has {}", known.join(", "));
    }
    if args.json {
        return super::print_json(&SamplesJson::new(&answers, top));
    }
    let options = TextOptions { width: super::width(), top: top.unwrap_or(ROWS).max(1), full_stacks: false };
    super::print_text(&samples_report(&answers, options))
}
