//! `vramscope dump`

use crate::args::log;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use serde::Serialize;
use vramscope::recorder::{ControlError, RunningProcess, RunningRecorder};
use vramscope::report::ReportJson;
use vramscope_files::with_suffix;

use crate::commands::run::explain;
use crate::output::Output;
use crate::say::{print_json, print_text};

/// Copy the log of a process that is being recorded, and explain the memory that it holds now
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  vramscope dump 4711
  vramscope dump 4711 -o now.vramscope --json

The process goes on, and so does its recording. PID is a process that `vramscope run`, `vramscope attach` or `vramscope.torch.record(\"run.vramscope\")` records, or the process of `vramscope run` itself, which means all processes that it records.")]
pub(crate) struct DumpArgs {
    /// The process ID
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) process: u32,
    /// File for the copy, which ends in .vramscope [default: run-at-dump.vramscope beside the log run.vramscope]
    #[arg(short, long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(log))]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The output of `vramscope dump --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Dump"))]
pub(crate) struct DumpJson {
    copies: Vec<CopyJson>,
}

/// The copy of one process's log.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DumpCopy"))]
struct CopyJson {
    process: u32,
    /// Path of the copy.
    path: String,
    /// The report of the copy at its end.
    report: ReportJson,
}

pub(crate) fn run(args: &DumpArgs) -> anyhow::Result<()> {
    let recorder = RunningRecorder::of(args.process)?;
    let all = recorder.processes()?;
    let is_recorded = all.iter().any(|process| process.process == args.process);
    let asked: Vec<RunningProcess> =
        all.into_iter().filter(|process| !is_recorded || process.process == args.process).collect();
    if asked.is_empty() {
        bail!("no process of this recording has used a GPU yet");
    }
    let (mut copies, mut text) = (Vec::new(), String::new());
    for process in &asked {
        let path = match &args.output {
            Some(path) if asked.len() > 1 => with_suffix(path, &process.suffix),
            Some(path) => path.clone(),
            None => process.copy.clone(),
        };
        write(&recorder, process.process, &path)?;
        if args.json {
            let (process, report) = (process.process, explain::report(&path)?);
            copies.push(CopyJson { process, path: path.display().to_string(), report });
        } else {
            text += &explain::explained(&path)?;
        }
    }
    if args.json { print_json(&DumpJson { copies }) } else { print_text(&text) }
}

/// Writes the copy of a process's log.
fn write(recorder: &RunningRecorder, process: u32, path: &Path) -> anyhow::Result<()> {
    let mut out = Output::file(path, &[])?;
    match recorder.copy(process, &mut out) {
        Ok(()) => out.finish(),
        Err(ControlError::Io(error)) => Err(anyhow!(error)).with_context(|| path.display().to_string()),
        Err(error) => Err(error.into()),
    }
}
