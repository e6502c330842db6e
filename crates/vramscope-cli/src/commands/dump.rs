//! `vramscope dump`

use crate::args::log;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use serde::Serialize;
use vramscope::recorder::{ControlError, RunningProcess, RunningRecorder};
use vramscope::report::ReportJson;
use vramscope_files::{PrivateFolder, with_suffix};

use crate::commands::run::explain;
use crate::output::{Output, new_recording};
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
    /// File for the copy, which ends in .vramscope; %t in the name stands for the time [default: a new file of the recorder,
    /// run-at-dump.vramscope beside the log run.vramscope]
    #[arg(short, long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(log))]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file of --output
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
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
    let asked = recorder.processes()?;
    if asked.is_empty() {
        bail!("no process of this recording has used a GPU yet");
    }
    let output = args.output.as_deref();
    let output = output.map(|output| new_recording(Some(output), "", args.force)).transpose()?;
    let several = asked.len() > 1;
    let (mut copies, mut text) = (Vec::new(), String::new());
    for RunningProcess { process, suffix, .. } in asked {
        // The recorder writes its own file. This process reads the same bytes from a file of its own, and opens none that others name.
        let folder = PrivateFolder::new("vramscope-dump-").context("a folder for temporary files")?;
        let (path, copy) = match &output {
            Some(path) => {
                let path = if several { with_suffix(path, &suffix) } else { path.clone() };
                write(&recorder, process, &path)?;
                (path.clone(), path)
            }
            None => {
                let copy = folder.path().join("dump.vramscope");
                let mut file = folder.dir().create_new("dump.vramscope".as_ref(), 0o600)?;
                let path = recorder.dump(process, &mut file)?;
                file.flush()?;
                (path, copy)
            }
        };
        if args.json {
            copies.push(CopyJson {
                process,
                path: path.display().to_string(),
                report: explain::report(&copy)?,
            });
        } else {
            text += &explain::explained(&copy, &path)?;
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
