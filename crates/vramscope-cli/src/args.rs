//! Arguments that several commands share. The arguments of one command stand beside it.

use std::path::{Path, PathBuf};

use clap::Args;
use regex::Regex;
use vramscope::export::ExportFormat;
pub(crate) use vramscope::recorder::names_log;
use vramscope::recorder::{CopyAt, RecordedStacks};
use vramscope::session::values::size;
pub(crate) use vramscope::session::values::{seconds, seconds_from};
use vramscope::trace::formats::ReadOptions;

/// Options for reading recordings, shared by all subcommands that read them.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ReadArgs {
    /// Limit on the decompressed size of a recording, as 80GiB, in bytes or `unlimited` [default: 16 MiB plus 250 times
    /// its compressed size]
    #[arg(long, value_name = "SIZE", value_parser = expansion)]
    max_expanded: Option<u64>,
}

impl ReadArgs {
    pub(crate) fn options(self) -> ReadOptions {
        ReadOptions { expanded_bytes: self.max_expanded, ..ReadOptions::default() }
    }
}

/// Parses a [`size`], or `unlimited`.
fn expansion(text: &str) -> Result<u64, String> {
    if text == "unlimited" { Ok(u64::MAX) } else { size(text) }
}

/// File name endings that are not snapshots, in addition to those of [`ExportFormat`].
const OTHER_ENDINGS: [&str; 5] = [".gz", ".html", ".jsonl", ".txt", ".zst"];

/// Whether the file name has the ending of a format other than a snapshot (an uncompressed pickle).
pub fn names_another_format(file: &Path) -> bool {
    let name = file.to_string_lossy().to_ascii_lowercase();
    let other = ExportFormat::of_file_name(&name).is_some_and(|format| format != ExportFormat::Pickle);
    other || OTHER_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Checks that the name of an output file fits a snapshot.
pub(crate) fn snapshot_file(file: PathBuf) -> Result<PathBuf, String> {
    if names_another_format(&file) {
        return Err("recordings are written as pickle: use a name that ends in .pickle or .pkl; `vramscope export` writes other formats".to_owned());
    }
    Ok(file)
}

/// Checks that the name of an output file fits a snapshot or a log.
pub(crate) fn snapshot_or_log(file: PathBuf) -> Result<PathBuf, String> {
    if names_log(&file) { Ok(file) } else { snapshot_file(file) }
}

/// Checks that the name of an output file fits a log.
pub(crate) fn log(file: PathBuf) -> Result<PathBuf, String> {
    if names_log(&file) {
        return Ok(file);
    }
    Err("the recording is a log: use a name that ends in .vramscope".to_owned())
}

/// Parses a regular expression with at least one group.
pub(crate) fn rank_pattern(text: &str) -> Result<Regex, String> {
    let pattern = Regex::new(text).map_err(|e| e.to_string())?;
    if pattern.captures_len() < 2 {
        return Err("the pattern has no group for the number; put the number in parentheses, as rank(\\d+)"
            .to_owned());
    }
    Ok(pattern)
}

/// Parses bytes of device memory, or a percentage.
pub(crate) fn copy_at(text: &str) -> Result<CopyAt, String> {
    let Some(percent) = text.trim().strip_suffix('%') else { return size(text).map(CopyAt::Bytes) };
    match percent.trim_end().parse() {
        Ok(percent @ 1..=100) => Ok(CopyAt::Percent(percent)),
        _ => Err("expected a whole number of percent from 1% to 100%".to_owned()),
    }
}

/// Parses the frames of the stacks in a log.
pub(crate) fn stacks(text: &str) -> Result<RecordedStacks, String> {
    match (text, text.strip_prefix("large:")) {
        ("none", _) => Ok(RecordedStacks::None),
        ("python", _) => Ok(RecordedStacks::Python),
        ("all", _) => Ok(RecordedStacks::All),
        (_, Some(least)) => size(least).map(RecordedStacks::Large),
        _ => Err("expected none, python, all, or large:SIZE, as large:1MiB".to_owned()),
    }
}
