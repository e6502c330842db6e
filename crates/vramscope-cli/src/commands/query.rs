//! `vramscope query`

#[cfg(not(feature = "rollup"))]
pub(crate) fn run(_: &crate::args::QueryArgs) -> anyhow::Result<()> {
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
    use vramscope_rollup::{AnswerFormat, Answered, Job, MOST_SHOWN, Reading};

    use crate::advice::ADVICE;
    use crate::args::{QueryArgs, QueryFormatArg};
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
            reading: Reading {
                expanded_bytes: args.reading.options().expanded_bytes,
                no_cache: args.no_cache,
            },
            at_once: args.jobs.map_or(0, usize::from),
            cluster: args.cluster.clone(),
            advice: ADVICE,
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
        if args.json {
            return AnswerFormat::Json;
        }
        match args.format {
            Some(QueryFormatArg::Table) => AnswerFormat::Table,
            Some(QueryFormatArg::Csv) => AnswerFormat::Csv,
            Some(QueryFormatArg::Json) => AnswerFormat::Json,
            Some(QueryFormatArg::Parquet) => AnswerFormat::Parquet,
            None => match output.and_then(Path::extension).and_then(|e| e.to_str()) {
                Some("csv") => AnswerFormat::Csv,
                Some("json") => AnswerFormat::Json,
                Some("parquet") => AnswerFormat::Parquet,
                _ => AnswerFormat::Table,
            },
        }
    }
}
