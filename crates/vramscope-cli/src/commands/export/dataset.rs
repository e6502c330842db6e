//! `vramscope export` of many recordings: a dataset of Parquet files, partitioned by rank.

use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use vramscope::analysis::Frames;
use vramscope::export::{ExportFormat, Part, Source, Table, Written, write_part, write_summary_part};
use vramscope::fleet::{RankFile, RankRow, WorkOptions, read, summaries, summarize};
use vramscope::report::counted;
use vramscope::trace::formats::Recording;
use vramscope_files::make_folder;

use super::args::{ExportArgs, table_name};
use crate::output::Output;
use crate::part;
use crate::part_folder::PartFolder;
use crate::ranks::{self, RankFiles};
use crate::say::say;

/// The name of a rank's file in the folder of a table.
const PART: &str = "part-0.parquet";

/// A summary of the written files, for `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Dataset"))]
pub(crate) struct DatasetJson {
    format: &'static str,
    output: String,
    tables: Vec<TableJson>,
    ranks: Vec<RankJson>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DatasetTable"))]
struct TableJson {
    table: &'static str,
    output_bytes: u64,
    rows: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DatasetRank"))]
struct RankJson {
    rank: u64,
    host: Option<String>,
    file: String,
    unread_because: Option<String>,
}

/// Whether the export of this one path is a dataset.
pub(super) fn is_meant(args: &ExportArgs, path: &Path, output: Option<&Path>) -> bool {
    let text = path.to_string_lossy();
    let is_folder = |path: &Path| path.is_dir() || path.to_string_lossy().ends_with('/');
    let is_of_tables = args.what.len() > 1 || args.what.contains(&None);
    let is_into_folder = args.format == Some(ExportFormat::Parquet) && output.is_some_and(is_folder);
    let is_pattern = !path.exists() && text.contains(['*', '?', '[']);
    path.is_dir() || text.contains("://") || is_of_tables || is_into_folder || is_pattern
}

pub(super) fn run(args: &ExportArgs, output: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = output else {
        bail!("several recordings are exported as a dataset, which is a folder: name it with --output");
    };
    if args.format != Some(ExportFormat::Parquet) {
        bail!(
            "several recordings are exported as a dataset, which needs --format parquet; other formats take one recording"
        );
    }
    if args.at.is_some() || args.device.is_some() {
        bail!(
            "--at and --device apply to one recording; a dataset contains all devices, and holders at their peaks"
        );
    }
    let tables: &[Option<Table>] = if args.what.is_empty() { &[Some(Table::Events)] } else { &args.what };
    for table in tables {
        let there = folder.join(table_name(*table));
        if there.exists() {
            bail!("{}: already exists; remove it, or name another folder", there.display());
        }
    }
    let RankFiles { files, .. } = ranks::find(&args.files, args.rank.as_ref())?;
    make_folder(folder).with_context(|| folder.display().to_string())?;
    for part in PartFolder::others(folder) {
        let part = part.display();
        say(&format!(
            "note: {part}: belongs to another export, which is running or was killed; if none is running, remove it"
        ));
    }
    part::watch_signals()?;
    let unfinished = PartFolder::create(folder).with_context(|| folder.display().to_string())?;
    let written = vec![Written { bytes: 0, rows: 0 }; tables.len()];
    let mut dataset = Dataset { folder, unfinished, tables, written };
    let rows = dataset.write(&files, args)?;
    let unread = rows.iter().filter_map(|row| Some((&row.file, row.summary.as_ref().err()?)));
    unread.clone().for_each(|(file, why)| say(&format!("note: {file}: {why}; this recording is left out")));
    if unread.count() == rows.len() {
        bail!("none of {} could be read", counted(rows.len() as u64, "recording"));
    }
    dataset.finish()?;
    if args.json { crate::commands::print_json(&dataset.json(rows)) } else { Ok(()) }
}

/// A dataset that is being written.
struct Dataset<'a> {
    folder: &'a Path,
    /// Holds the tables until all of them are complete.
    unfinished: PartFolder,
    tables: &'a [Option<Table>],
    /// Bytes and rows written to each table.
    written: Vec<Written>,
}

impl Dataset<'_> {
    /// Writes the parts of all ranks, with one recording in memory at a time.
    fn write(&mut self, files: &[RankFile], args: &ExportArgs) -> anyhow::Result<Vec<RankRow>> {
        if self.tables.iter().all(Option::is_none) {
            return self.write_summaries(files, args);
        }
        let mut rows = Vec::with_capacity(files.len());
        for file in files {
            let recording = read(&file.place, args.reading.options(), ranks::store());
            let summary = recording.as_ref().map_err(Clone::clone).and_then(summarize);
            let row = RankRow {
                rank: file.rank.clone(),
                file: file.place.to_string(),
                summary: summary.map(Box::new),
            };
            self.write_rank(recording.as_ref().ok(), &row)?;
            rows.push(row);
        }
        Ok(rows)
    }

    /// Writes only summaries, which may come from the cache.
    fn write_summaries(&mut self, files: &[RankFile], args: &ExportArgs) -> anyhow::Result<Vec<RankRow>> {
        let reading = args.reading.options();
        let options = WorkOptions { jobs: 0, cache: true, reading, store: ranks::store() };
        let (rows, notes) = summaries(files, &options, &mut |_, _| {});
        notes.iter().for_each(|note| say(&format!("note: {note}")));
        rows.iter().try_for_each(|row| self.write_rank(None, row))?;
        Ok(rows)
    }

    /// Writes the parts of a rank. A recording that could not be read gets only a summary, with the reason.
    fn write_rank(&mut self, recording: Option<&Recording>, row: &RankRow) -> anyhow::Result<()> {
        let frames = recording.map(|recording| Frames::of(&recording.trace));
        let part = Part { host: row.rank.host.as_deref(), file: &row.file };
        for (at, what) in self.tables.iter().enumerate() {
            let out = || self.part(*what, row.rank.number);
            let written = match (*what, recording.zip(frames.as_ref())) {
                (None, _) => {
                    let mut out = out()?;
                    let written = write_summary_part(row, &mut out).with_context(|| out.name().to_owned())?;
                    out.finish()?;
                    written
                }
                (Some(table), Some((recording, frames))) => {
                    let trace = &recording.trace;
                    let source = Source { trace, frames, devices: (0..trace.devices.len()).collect() };
                    let mut out = out()?;
                    let written =
                        write_part(&source, table, &part, &mut out).with_context(|| out.name().to_owned())?;
                    out.finish()?;
                    written
                }
                (Some(_), None) => continue,
            };
            self.written[at].bytes += written.bytes;
            self.written[at].rows += written.rows;
        }
        Ok(())
    }

    /// Moves the complete tables to their final place.
    fn finish(&self) -> anyhow::Result<()> {
        let mut tables = self.tables.iter().map(|table| table_name(*table));
        tables.try_for_each(|name| match self.unfinished.finish(name) {
            // A table without a row has no folder.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            finished => finished.with_context(|| self.folder.join(name).display().to_string()),
        })
    }

    /// Opens the part of a rank for writing. Errors name its final path.
    fn part(&self, what: Option<Table>, rank: u64) -> anyhow::Result<Output> {
        let (table, rank) = (table_name(what), format!("rank={rank}"));
        let will_be = self.folder.join(table).join(&rank).join(PART).display().to_string();
        let dir = self.unfinished.dir().make_subdir(table.as_ref(), 0o755);
        let dir =
            dir.and_then(|dir| dir.make_subdir(rank.as_ref(), 0o755)).with_context(|| will_be.clone())?;
        Output::in_folder(dir, PART, will_be)
    }

    fn json(&self, rows: Vec<RankRow>) -> DatasetJson {
        let tables = self.tables.iter().zip(&self.written).map(|(table, written)| TableJson {
            table: table_name(*table),
            output_bytes: written.bytes,
            rows: written.rows,
        });
        let ranks = rows.into_iter().map(|row| RankJson {
            rank: row.rank.number,
            host: row.rank.host,
            file: row.file,
            unread_because: row.summary.err(),
        });
        DatasetJson {
            format: "parquet",
            output: self.folder.display().to_string(),
            tables: tables.collect(),
            ranks: ranks.collect(),
        }
    }
}
