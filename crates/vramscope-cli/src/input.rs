//! Opening what the user named, with a progress bar where it takes long.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use vramscope::trace::formats::{self, Recording};

/// How long work may take before it shows its progress.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The name of `file` for people.
pub(crate) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads a recording and tells on stderr, once each, what did not reach the trace.
pub(crate) fn read(file: &Path) -> anyhow::Result<Recording> {
    let name = name(file);
    let (stream, length): (Box<dyn Read>, Option<u64>) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let opened = File::open(file).with_context(|| name.clone())?;
        let metadata = opened.metadata().with_context(|| name.clone())?;
        if metadata.is_dir() {
            bail!("{name}: is a directory; name a snapshot in it");
        }
        (Box::new(opened), Some(metadata.len()).filter(|_| metadata.is_file()))
    };
    let mut progress = Progress::new(length);
    let recording = formats::read(stream, &mut |bytes| progress.at(bytes));
    progress.done();
    let recording = recording.with_context(|| name.clone())?;
    let mut stderr = anstream::stderr();
    for notice in recording.notices.to_string().lines() {
        writeln!(stderr, "note: {name}: {notice}")?;
    }
    Ok(recording)
}

struct Progress {
    started: Instant,
    length: Option<u64>,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(length: Option<u64>) -> Self {
        Self { started: Instant::now(), length, bar: None }
    }

    fn at(&mut self, bytes: u64) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE && io::stderr().is_terminal() {
            self.bar = Some(bar(self.length));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(length: Option<u64>) -> ProgressBar {
    let template = match length {
        Some(_) => "reading {wide_bar} {bytes} of {total_bytes}, {eta} left",
        None => "reading {spinner} {bytes}",
    };
    let bar = length.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
