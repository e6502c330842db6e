//! `vramscope dump`

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use vramscope::recorder::{ControlError, RunningProcess, RunningRecorder};
use vramscope::report::ReportJson;
use vramscope_files::with_suffix;

use super::run::explain;
use crate::args::DumpArgs;
use crate::output::Output;
use crate::say::{print_json, print_text};

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
