//! Copies of logs that go on, and the memory that is held at their ends.

use std::io;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context as _, bail};
use vramscope::analysis::{Cancel, When};
use vramscope::recorder::LogCopy;
use vramscope::report::ReportJson;
use vramscope::session::values::At;
use vramscope::session::{ReportAnswer, ReportRequest, Session};
use vramscope::trace::DeviceTrace;
use vramscope::trace::formats::ReadOptions;

use crate::advice::ADVICE;
use crate::input;
use crate::say::{say, say_page};

/// First words of the report's sections about the memory that is held.
const SHOWN: [&str; 3] = ["Device memory of the process", "Pinned host memory", "Holders of"];
/// Rows of each list.
const ROWS: usize = 5;

/// Starts a thread that writes copies of logs and explains them, until there are no more.
pub(super) fn start(copies: Receiver<io::Result<LogCopy>>) -> io::Result<JoinHandle<()>> {
    Builder::new().name("vramscope-explain".to_owned()).spawn(move || {
        for copy in copies {
            match copy.context("the log cannot be copied").and_then(write) {
                Ok(text) => say_page(&text),
                Err(error) => say(&format!("{error:#}")),
            }
        }
    })
}

/// Writes a copy, and explains it.
fn write(copy: LogCopy) -> anyhow::Result<String> {
    let path = copy.path().to_owned();
    copy.write().with_context(|| path.display().to_string())?;
    explained(&path, &path)
}

/// A copy's name, and the memory that is held at its end.
pub(in super::super) fn explained(copy: &Path, name: &Path) -> anyhow::Result<String> {
    Ok(format!("{}: the log until now\n{}", name.display(), explanation(copy)?))
}

/// The memory that is held at the end of a log: the verdict of its report, and some of its sections.
fn explanation(log: &Path) -> anyhow::Result<String> {
    let session = open(log)?;
    let devices = &session.trace().devices;
    let request = |device: &DeviceTrace| ReportRequest {
        device: Some(device.device),
        at: Some(At::State(When::End)),
        top: Some(ROWS),
        ..ReportRequest::default()
    };
    let mut text = String::new();
    for request in devices.iter().map(request) {
        let answer =
            session.report(&request, &Cancel::default()).map_err(super::super::about(session.name()))?;
        let report = answer.text(super::super::width(), false);
        if let (Some(device), true) = (request.device, devices.len() > 1) {
            text.push_str(&format!("{}\n", session.names().device(device)));
        }
        // The first paragraph is about the file, the second is the verdict.
        for (i, paragraph) in report.trim_end().split("\n\n").enumerate() {
            let plain = anstream::adapter::strip_str(paragraph).to_string();
            if i == 1 || SHOWN.iter().any(|words| plain.trim_start().starts_with(words)) {
                text.push_str(paragraph);
                text.push('\n');
            }
        }
    }
    Ok(text)
}

/// The report of a log at its end.
pub(in super::super) fn report(log: &Path) -> anyhow::Result<ReportJson> {
    let session = open(log)?;
    let request = ReportRequest { at: Some(At::State(When::End)), ..ReportRequest::default() };
    match session.report(&request, &Cancel::default()).map_err(super::super::about(session.name()))? {
        ReportAnswer::State(answers) => Ok(ReportJson::new(&answers)),
        ReportAnswer::Interval(_) => bail!("{}: the report has no state", session.name()),
    }
}

fn open(log: &Path) -> anyhow::Result<Session> {
    Ok(Session::once(input::name(log), input::read(log, ReadOptions::default())?, ADVICE))
}
