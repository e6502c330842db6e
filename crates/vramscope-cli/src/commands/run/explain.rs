//! Copies of logs that go on, and the memory that is held at their ends.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::{Builder, JoinHandle};

use anyhow::Context as _;
use vramscope::analysis::Cancel;
use vramscope::recorder::LogCopy;
use vramscope::report::TextOptions;
use vramscope::session::values::At;
use vramscope::session::{ReportRequest, Session};
use vramscope::trace::formats::ReadOptions;
use vramscope::trace::{DeviceTrace, Trace};

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
    Ok(format!("{}: the log until now\n{}", path.display(), explanation(&path)?))
}

/// The memory that is held at the end of a log: the verdict of its report, and some of its sections.
fn explanation(log: &Path) -> anyhow::Result<String> {
    let mut recording = input::read(log, ReadOptions::default())?;
    end_together(Arc::make_mut(&mut recording.trace));
    let session = Session::once(input::name(log), recording, ADVICE);
    let devices = &session.trace().devices;
    let request = |device: &DeviceTrace| ReportRequest {
        device: Some(device.device),
        at: device.events.len().checked_sub(1).map(At::Event),
        ..ReportRequest::default()
    };
    let mut text = String::new();
    for request in devices.iter().map(request) {
        let answer =
            session.report(&request, &Cancel::default()).map_err(super::super::about(session.name()))?;
        let report = answer.text(TextOptions { width: super::super::width(), top: ROWS, full_stacks: false });
        if let (Some(device), true) = (request.device, devices.len() > 1) {
            text.push_str(&format!("Device {device}\n"));
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

/// Moves what happened after the last event of PyTorch's allocator to the time of that event, so that a report at the event has it.
fn end_together(trace: &mut Trace) {
    let end = |device: &DeviceTrace| device.events.time(device.events.len().checked_sub(1)?);
    let ends: Vec<(i64, i64)> = trace.devices.iter().filter_map(|d| Some((d.device, end(d)?))).collect();
    let Some(process) = &mut trace.process else { return };
    // Host memory belongs to the reports of all devices.
    let end_of = |device| ends.iter().filter(|end| device < 0 || end.0 == device).map(|end| end.1).min();
    let events = process.events.iter_mut().map(|e| (e.device, &mut e.time_us));
    let readings = process.readings.iter_mut().map(|r| (r.device, &mut r.time_us));
    for (device, time_us) in events.chain(readings) {
        if let Some(end) = end_of(device) {
            *time_us = end.min(*time_us);
        }
    }
}
