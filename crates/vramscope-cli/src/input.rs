//! Opens the user's input files, with a progress bar for slow reads.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use vramscope::trace::ReadError;
use vramscope::trace::formats::{self, Opened, ReadOptions, Recording};

use crate::progress::ByteProgress;
use crate::say::say;

/// The name of `file` in messages.
pub(crate) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads a recording and prints notes on stderr about contents that were not used.
pub(crate) fn read(file: &Path, options: ReadOptions) -> anyhow::Result<Recording> {
    let recording = read_by(
        file,
        |stdin, progress| formats::read_with(options, stdin, progress),
        |opened, progress| formats::read_file(options, opened, progress),
    )?;
    tell(file, &recording);
    Ok(recording)
}

/// Like [`read`], but also accepts a log of samples.
pub(crate) fn read_any(file: &Path, options: ReadOptions) -> anyhow::Result<Opened> {
    let opened = read_by(
        file,
        |stdin, progress| formats::read_any(options, stdin, progress),
        |opened, progress| formats::read_any_file(options, opened, progress),
    )?;
    if let Opened::Recording(recording) = &opened {
        tell(file, recording);
    }
    Ok(opened)
}

/// Reads standard input or a file.
fn read_by<T>(
    file: &Path,
    stdin: impl FnOnce(io::StdinLock<'static>, &mut dyn FnMut(u64)) -> Result<T, ReadError>,
    named: impl FnOnce(&File, &mut dyn FnMut(u64)) -> Result<T, ReadError>,
) -> anyhow::Result<T> {
    let name = name(file);
    let read = if file == Path::new("-") {
        let mut progress = ByteProgress::new("reading", None);
        let read = stdin(io::stdin().lock(), &mut |bytes| progress.at(bytes));
        progress.done();
        read
    } else {
        let opened = File::open(file).with_context(|| name.clone())?;
        let metadata = opened.metadata().with_context(|| name.clone())?;
        if metadata.is_dir() {
            bail!("{name}: is a directory; {}", in_folder(file));
        }
        let length = Some(metadata.len()).filter(|_| metadata.is_file());
        let mut progress = ByteProgress::new("reading", length);
        let read = named(&opened, &mut |bytes| progress.at(bytes));
        progress.done();
        read
    };
    read.map_err(remedied).with_context(|| name)
}

/// Advice for a folder: the bundle of an out-of-memory failure contains a recording and a log.
fn in_folder(folder: &Path) -> String {
    let is_there = |name: &&&str| folder.join(name).is_file();
    let there: Vec<&str> =
        ["snapshot.pickle", "log.jsonl", "events.json"].iter().filter(is_there).copied().collect();
    match there.as_slice() {
        [] => "name a snapshot in it".to_owned(),
        there => format!("name {} in it", there.join(" or ")),
    }
}

/// Prints notes about contents that were not used.
fn tell(file: &Path, recording: &Recording) {
    for notice in recording.notices.to_string().lines() {
        say(&format!("note: {}: {notice}", name(file)));
    }
}

/// Adds advice with options of the command to `error`.
pub(crate) fn remedied(error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Expands { .. } => anyhow!("{error}, or raise --max-expanded"),
        _ => error.into(),
    }
}
