//! `vramscope query`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use regex::Regex;

use crate::args::{ReadArgs, rank_pattern};

/// Run SQL over the recordings of many ranks
#[derive(Debug, Args)]
#[command(
    after_help = "Tables, each with the columns rank, host and file: events, allocations, segments, holders, summary.

Examples:
  vramscope query 'SELECT rank, peak_allocated_bytes FROM summary ORDER BY 2 DESC LIMIT 5' runs/
  vramscope query \"SELECT key, sum(bytes) FROM holders WHERE grouped_by = 'category' GROUP BY key\" runs/*.pickle
  vramscope query 'SELECT * FROM events WHERE rank = 3' runs/ -o rank3.parquet"
)]
pub(crate) struct QueryArgs {
    /// One read-only SQL statement
    pub(crate) sql: String,
    /// Folders with recordings, patterns as 'runs/*/rank*.pickle', or recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Format of the rows [default: from the ending of OUT, else table]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<RowFormat>,
    /// Output file, replaced only when all is written [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    /// Pattern whose first group is the rank in a path, as for `fleet` [default: inferred from differing numbers]
    #[arg(long, value_name = "REGEX", value_parser = rank_pattern)]
    pub(crate) rank: Option<Regex>,
    /// Run on a cluster; the URL of its scheduler, as df://host:50050
    #[arg(long, value_name = "URL")]
    pub(crate) cluster: Option<String>,
    /// Neither read nor write cached summaries
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Number of recordings read in parallel [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "cluster")]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

/// The format of query results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    Table,
    Csv,
    Json,
    Parquet,
}

#[cfg(not(feature = "rollup"))]
pub(crate) fn run(_: &QueryArgs) -> anyhow::Result<()> {
    anyhow::bail!("this build of vramscope has no SQL support; {}", crate::ranks::WITH_ROLLUP)
}

#[cfg(feature = "rollup")]
pub(crate) use with_rollup::run;

#[cfg(feature = "rollup")]
mod with_rollup {
    use std::io::IsTerminal as _;
    use std::path::{Path, PathBuf};

    use anyhow::{Context as _, bail};
    use vramscope::report::counted;
    use vramscope_rollup::{AnswerFormat, Answered, Job, MOST_SHOWN, ReadingOptions};

    use super::{QueryArgs, RowFormat};
    use crate::output::Output;
    use crate::ranks::{self, RankFiles};
    use crate::say::say;

    pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<()> {
        let output = args.output.as_deref().filter(|&o| o != Path::new("-"));
        let format = format(args, output);
        if output.is_none() && format == AnswerFormat::Parquet && super::super::stdout().is_terminal() {
            bail!("parquet is a binary format: write it to a file, as `--output out.parquet`, or to a pipe");
        }
        let RankFiles { files, .. } = ranks::find(&args.paths, args.rank.as_ref())?;
        let count = files.len();
        let inputs = ranks::on_this_machine(&files);
        let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
        let job = Job {
            recordings: files,
            reading: ReadingOptions {
                expanded_bytes: args.reading.options().expanded_bytes,
                no_cache: args.no_cache,
            },
            at_once: args.jobs.map_or(0, usize::from),
            cluster: args.cluster.clone(),
        };
        let mut out = output.map_or_else(|| Ok(Output::stdout()), |path| Output::file(path, &inputs))?;
        let answered = job.query(&args.sql, format, &mut out);
        if answered.is_err() && out.is_unread() {
            return Ok(());
        }
        let Answered { is_cut, broken, notes, .. } = answered.context("query")?;
        out.finish()?;
        notes.iter().for_each(|note| say(&format!("note: {note}")));
        for (file, why) in &broken {
            say(&format!("note: {file}: {why}; this recording appears only in the table summary"));
        }
        if is_cut {
            say(&format!(
                "note: only the first {MOST_SHOWN} rows are shown; --format csv, json or parquet prints all"
            ));
        }
        if broken.len() == count {
            bail!("none of {} could be read", counted(count as u64, "recording"));
        }
        Ok(())
    }

    /// The format from the options, or from the ending of the output's name.
    fn format(args: &QueryArgs, output: Option<&Path>) -> AnswerFormat {
        match args.format {
            Some(RowFormat::Table) => AnswerFormat::Table,
            Some(RowFormat::Csv) => AnswerFormat::Csv,
            Some(RowFormat::Json) => AnswerFormat::Json,
            Some(RowFormat::Parquet) => AnswerFormat::Parquet,
            None => match output.and_then(Path::extension).and_then(|e| e.to_str()) {
                Some("csv") => AnswerFormat::Csv,
                Some("json") => AnswerFormat::Json,
                Some("parquet") => AnswerFormat::Parquet,
                _ => AnswerFormat::Table,
            },
        }
    }
}
