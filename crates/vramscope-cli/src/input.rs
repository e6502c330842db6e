//! Opens the user's input files, with a progress bar for slow reads.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use vramscope::trace::ReadError;
use vramscope::trace::formats::{self, Opened, ReadOptions, Reader, Recording};

use crate::progress::ByteProgress;
use crate::say::say;

/// The name of `file` in messages.
pub(crate) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Reads a recording and prints notes on stderr about contents that were not used.
pub(crate) fn read(file: &Path, options: ReadOptions) -> anyhow::Result<Recording> {
    read_with(file, options, |_, _| {})
}

/// Like [`read`], and calls `told` now and then with the bytes read so far, and those of the file if they are known.
pub(crate) fn read_with(
    file: &Path,
    options: ReadOptions,
    told: impl FnMut(u64, Option<u64>),
) -> anyhow::Result<Recording> {
    let recording = read_by(file, options, told, |reader| reader.read())?;
    tell(file, &recording);
    Ok(recording)
}

/// Like [`read`], but also accepts a log of samples.
pub(crate) fn read_any(file: &Path, options: ReadOptions) -> anyhow::Result<Opened> {
    let opened = read_by(file, options, |_, _| {}, |reader| reader.read_any())?;
    if let Opened::Recording(recording) = &opened {
        tell(file, recording);
    }
    Ok(opened)
}

/// The bytes at the beginning of a text that show whether it is a recording.
const START: usize = 8 << 10;

/// Opens the log of a job, a notebook or a pasted error. `None` for recordings and other files.
///
/// # Errors
/// Fails if standard input cannot be read.
pub(crate) fn text(file: &Path) -> io::Result<Option<Box<dyn BufRead>>> {
    let mut text: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        // Other kinds of files can be read once only, and errors are those of the reader.
        let opened = File::open(file).ok().filter(|opened| opened.metadata().is_ok_and(|of| of.is_file()));
        let Some(opened) = opened else { return Ok(None) };
        Box::new(BufReader::with_capacity(START, opened))
    };
    let start = text.fill_buf()?;
    let start = &start[..start.len().min(START)];
    let is_notebook =
        start.trim_ascii_start().starts_with(b"{") && start.windows(7).any(|part| part == b"\"cells\"");
    let is_text = is_notebook || Reader::new(start).read_any().is_err_and(|error| error.is_text());
    Ok(is_text.then_some(text))
}

/// Reads standard input or a file.
fn read_by<T>(
    file: &Path,
    options: ReadOptions,
    mut told: impl FnMut(u64, Option<u64>),
    read: impl FnOnce(Reader<'_>) -> Result<T, ReadError>,
) -> anyhow::Result<T> {
    let file = &*formats::in_bundle(file).map_or(Cow::Borrowed(file), Cow::Owned);
    let reader = if file == Path::new("-") { Reader::new(io::stdin().lock()) } else { Reader::open(file)? };
    let length = reader.length();
    let mut progress = ByteProgress::new("reading", length);
    let read = read(reader.options(options).progress(|bytes| {
        progress.at(bytes);
        told(bytes, length);
    }));
    progress.done();
    read.map_err(remedied).with_context(|| name(file))
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
