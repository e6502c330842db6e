//! `vramscope replay`

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use vramscope::analysis::Cancel;
use vramscope::report::{ReplayJson, TextOptions, replay};
use vramscope::session::ReplayRequest;

use crate::Found;
use crate::advice::ADVICE;
use crate::args::ReadArgs;
use crate::progress::{PATIENCE, is_watched};

/// Replay the recording under other allocator settings or on another device size: would it have fit?
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope replay snapshot.pickle
  vramscope replay snapshot.pickle --gpu a100-40gb --overhead 600MiB
  vramscope replay snapshot.pickle --conf expandable_segments:True --capacity 24GiB
  vramscope replay snapshot.pickle --sweep max_split_size_mb=32..512
  vramscope replay snapshot.pickle --find-capacity

Exit code 1: the replay runs out of memory.")]
pub(crate) struct ReplayArgs {
    /// A recording, as for `report`; `-` is standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) request: ReplayRequest,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<Found> {
    args.request.check(&ADVICE)?;
    let session = super::open(&args.file, args.reading)?;
    let progress = Progress { started: Instant::now(), bar: OnceLock::new() };
    let replayed = session.replay(&args.request, &Cancel::default(), &|| progress.step());
    progress.done();
    let answers = replayed.map_err(super::about(session.name()))?;
    if args.json {
        super::print_json(&ReplayJson::new(&answers))?;
    } else {
        let options = TextOptions { width: super::width(), top: 10, full_stacks: false };
        super::print_text(&replay(&answers, options))?;
    }
    let fits = answers.devices.iter().all(|device| args.request.fits(device));
    Ok(if fits { Found::Nothing } else { Found::Something })
}

struct Progress {
    started: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Counts one more replay.
    fn step(&self) {
        if self.started.elapsed() > PATIENCE && is_watched() {
            self.bar.get_or_init(bar).inc(1);
        }
    }

    fn done(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    match ProgressStyle::with_template("replaying {spinner} {pos} more done") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
