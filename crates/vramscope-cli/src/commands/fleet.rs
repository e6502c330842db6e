//! `vramscope fleet`

use crate::args::{ReadArgs, rank_pattern};
use clap::{ArgGroup, Args};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vramscope::gpus::Gpu;
use vramscope::session::values::command::gpu;
use vramscope::session::values::{percent, size};

/// Report all ranks of a job: which ranks differ and why, which ran out of memory first, which leak
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("fleet_budgets").multiple(true).args(["max_peak", "max_imbalance"])), after_help = "Examples:
  vramscope fleet recordings/
  vramscope fleet 'runs/*/rank*.pickle' --gpu a100-80gb
  vramscope fleet recordings/ --rank 'gpu(\\d+)' --json
  vramscope fleet recordings/ --view
  vramscope fleet recordings/ --max-peak 72GiB --max-imbalance 5% --junit memory.xml

Exit code 1: a budget is exceeded. Exit code 3: none is, but the recordings cannot show whether all are kept.")]
pub(crate) struct FleetArgs {
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Pattern whose first group is the rank in a path, as 'rank(\d+)' [default: inferred from differing numbers]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Total memory of each GPU, as 80GiB or in bytes [default: inferred from a recorded out-of-memory failure]
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) capacity: Option<u64>,
    /// Total memory of each GPU, by GPU name, as a100-40gb
    #[arg(long, value_name = "NAME", value_parser = gpu, conflicts_with = "capacity")]
    pub(crate) gpu: Option<&'static Gpu>,
    /// Limit on the peak of allocated bytes of each rank, as 40GiB or in bytes
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub(crate) max_peak: Option<u64>,
    /// Limit on the excess of the highest peak over the mean, as 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub(crate) max_imbalance: Option<f64>,
    /// Also write the verdicts as JUnit XML; with `-`, to standard output in place of the text
    #[arg(long, value_name = "OUT", requires = "fleet_budgets")]
    pub(crate) junit: Option<PathBuf>,
    /// Neither read nor write cached summaries
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Read the recordings on a cluster; the URL of its scheduler, as df://host:50050
    #[arg(long, value_name = "URL", conflicts_with = "jobs")]
    pub(crate) cluster: Option<String>,
    /// Explore the ranks and their recordings in the browser
    #[arg(long, conflicts_with = "fleet_budgets")]
    pub(crate) view: bool,
    /// With --view: the port to serve on [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, requires = "view")]
    pub(crate) port: u16,
    /// With --view: print the address and do not open a browser
    #[arg(long, requires = "view")]
    pub(crate) no_open: bool,
    /// Print JSON; with --view, print the address as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

#[cfg(feature = "rollup")]
use anyhow::Context as _;
use anyhow::bail;
use vramscope::fleet::{
    Budgets, Fleet, FleetAnswers, FleetJson, RankFile, RankRow, Status, WorkOptions, fleet_junit, fleet_text,
    read, summaries,
};
use vramscope::report::counted;
use vramscope::trace::formats::ReadOptions;
use vramscope::viewer::{JobFiles, Library, ranks_answer};

use super::is_stream;
use super::view::{Serve, begin, until_it_ends};
use crate::Found;
use crate::advice::ADVICE;
use crate::console::console;
use crate::output::Output;
use crate::part;
use crate::progress::ByteProgress;
use crate::ranks::{self, RankFiles};
use crate::say::say;

pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<Found> {
    if args.json && args.junit.as_deref().is_some_and(is_stream) {
        bail!("--json: standard output is already used by --junit; give --junit a file name");
    }
    let RankFiles { files, rule, mut notes } = ranks::find(&args.paths, args.rank.as_ref())?;
    if !args.no_cache {
        part::watch_signals()?;
    }
    if args.view {
        return view(args, files, &rule, notes).map(|()| Found::Nothing);
    }
    let (rows, not_kept) = made(args, &files)?;
    not_kept.iter().for_each(|note| say(&format!("note: {note}")));
    notes.extend(not_kept);
    let fleet = Fleet::of(rows, args.capacity.or(args.gpu.map(|gpu| gpu.total_bytes)));
    let verdicts =
        Budgets { max_peak: args.max_peak, max_imbalance_percent: args.max_imbalance }.verdicts(&fleet);
    let inputs = ranks::on_this_machine(&files);
    let paths = paths(args);
    let answers = FleetAnswers {
        paths: &paths,
        rule: &rule,
        notes: &notes,
        fleet: &fleet,
        verdicts: &verdicts,
        advice: ADVICE,
    };
    write(args, &answers, &inputs)?;
    if fleet.read_count == 0 {
        bail!("none of {} could be read", counted(fleet.rank_count as u64, "recording"));
    }
    Ok(match Status::of_all(&verdicts) {
        None | Some(Status::Kept) => Found::Nothing,
        Some(Status::Exceeded) => Found::Something,
        Some(Status::Unknown) => Found::Unknown,
    })
}

/// The paths as given on the command line.
fn paths(args: &FleetArgs) -> Vec<String> {
    args.paths.iter().map(|path| path.display().to_string()).collect()
}

/// The summaries, made by a cluster or by this process.
fn made(args: &FleetArgs, files: &[RankFile]) -> anyhow::Result<(Vec<RankRow>, Vec<String>)> {
    match &args.cluster {
        Some(scheduler) => on_cluster(args, scheduler, files.to_vec()),
        None => Ok(here(args, files)),
    }
}

/// The summaries, made by this process.
fn here(args: &FleetArgs, files: &[RankFile]) -> (Vec<RankRow>, Vec<String>) {
    let options = WorkOptions {
        jobs: args.jobs.map_or(0, usize::from),
        cache: !args.no_cache,
        reading: args.reading.options(),
        store: ranks::store(),
    };
    let mut progress: Option<ByteProgress> = None;
    let made = summaries(files, &options, &mut |done, all| {
        progress.get_or_insert_with(|| ByteProgress::new("reading", Some(all))).at(done);
    });
    progress.iter().for_each(ByteProgress::done);
    made
}

/// The summaries, made by a cluster.
#[cfg(feature = "rollup")]
fn on_cluster(
    args: &FleetArgs,
    scheduler: &str,
    files: Vec<RankFile>,
) -> anyhow::Result<(Vec<RankRow>, Vec<String>)> {
    let job = vramscope_rollup::Job {
        recordings: files,
        reading: vramscope_rollup::ReadingOptions {
            expanded_bytes: args.reading.options().expanded_bytes,
            no_cache: args.no_cache,
        },
        at_once: 0,
        cluster: Some(scheduler.to_owned()),
    };
    job.summaries().context("--cluster")
}

#[cfg(not(feature = "rollup"))]
fn on_cluster(_: &FleetArgs, _: &str, _: Vec<RankFile>) -> anyhow::Result<(Vec<RankRow>, Vec<String>)> {
    bail!("--cluster: this build of vramscope has no cluster support; {}", ranks::WITH_ROLLUP)
}

/// Serves the page of all ranks. The browser loads the page while the files are read.
fn view(
    args: &FleetArgs,
    mut files: Vec<RankFile>,
    rule: &str,
    mut notes: Vec<String>,
) -> anyhow::Result<()> {
    // In the order of the page.
    files.sort_by(|a, b| a.rank.cmp(&b.rank));
    let library = Arc::new(Library::of_ranks().with_sql(console(Some(&files), &args.reading, args.no_cache)));
    let how = Serve { port: args.port, no_open: args.no_open, json: args.json };
    let serving = begin(how, &library)?;
    let (rows, not_kept) = made(args, &files)?;
    not_kept.iter().for_each(|note| say(&format!("note: {note}")));
    notes.extend(not_kept);
    let names = rows.iter().map(|row| row.file.clone()).collect();
    let fleet = Fleet::of(rows, args.capacity.or(args.gpu.map(|gpu| gpu.total_bytes)));
    let paths = paths(args);
    let answers =
        FleetAnswers { paths: &paths, rule, notes: &notes, fleet: &fleet, verdicts: &[], advice: ADVICE };
    let answer = ranks_answer(&answers)?;
    // A saved page has a log as a log.
    let reading = ReadOptions { keeps_log: true, ..args.reading.options() };
    let read_one = Box::new(move |position: usize| {
        let file = files.get(position).ok_or("unknown rank")?;
        read(&file.place, reading, ranks::store())
    });
    library.know_ranks(JobFiles { answer, names, read: read_one });
    until_it_ends(serving)
}

/// Writes the answers in the requested formats.
fn write(args: &FleetArgs, answers: &FleetAnswers<'_>, inputs: &[PathBuf]) -> anyhow::Result<()> {
    let junit_to = args.junit.as_deref();
    if let Some(path) = junit_to {
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        Output::named(path, &inputs)?.write_whole(fleet_junit(answers)?.as_bytes())?;
    }
    if args.json {
        super::print_json(&FleetJson::new(answers))
    } else if junit_to.is_some_and(is_stream) {
        Ok(())
    } else {
        super::print_text(&fleet_text(answers, super::width()))
    }
}
