//! Opening what the user named, with a progress bar where it takes long.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use vramscope::trace::ReadError;
use vramscope::trace::formats::{self, ReadOptions, Recording};

use crate::progress::Progress;
use crate::say::say;

/// The name of `file` for people.
pub(crate) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads a recording and tells on stderr, once each, what did not reach the trace.
pub(crate) fn read(file: &Path, options: ReadOptions) -> anyhow::Result<Recording> {
    let name = name(file);
    let recording = if file == Path::new("-") {
        let mut progress = Progress::new("reading", None);
        let recording = formats::read_with(options, io::stdin().lock(), &mut |bytes| progress.at(bytes));
        progress.done();
        recording
    } else {
        let opened = File::open(file).with_context(|| name.clone())?;
        let metadata = opened.metadata().with_context(|| name.clone())?;
        if metadata.is_dir() {
            bail!("{name}: is a directory; name a snapshot in it");
        }
        let length = Some(metadata.len()).filter(|_| metadata.is_file());
        let mut progress = Progress::new("reading", length);
        let recording = formats::read_file(options, &opened, &mut |bytes| progress.at(bytes));
        progress.done();
        recording
    };
    let recording = recording.map_err(remedied).with_context(|| name.clone())?;
    for notice in recording.notices.to_string().lines() {
        say(&format!("note: {name}: {notice}"));
    }
    Ok(recording)
}

/// Adds what the command can do about `error`.
pub(crate) fn remedied(error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Expands { .. } => anyhow!("{error}, or give --max-expanded"),
        _ => error.into(),
    }
}
