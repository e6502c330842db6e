//! Opening what the user named, with a progress bar where it takes long.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, bail};
use vramscope::trace::formats::{self, Recording};

use crate::progress::Progress;
use crate::say::say;

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
    let mut progress = Progress::new("reading", length);
    let recording = formats::read(stream, &mut |bytes| progress.at(bytes));
    progress.done();
    let recording = recording.with_context(|| name.clone())?;
    for notice in recording.notices.to_string().lines() {
        say(&format!("note: {name}: {notice}"));
    }
    Ok(recording)
}
