//! A log file that is written while the tracker runs.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::error::TrackerError;
use super::events::{LogFormat, Row, write_header};

/// A file to write a log to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Replaced if it is there.
    pub path: PathBuf,
    /// Its format.
    pub format: LogFormat,
}

impl LogFile {
    /// A log at `path`: CSV where its name ends in `.csv`, else JSON Lines.
    pub fn at(path: &Path) -> Self {
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let format = if is_csv { LogFormat::Csv } else { LogFormat::JsonLines };
        Self { path: path.to_owned(), format }
    }
}

/// A log file that is open.
pub(super) struct OpenLog {
    file: File,
    format: LogFormat,
    /// Rows of the look that is under way, after what the file did not take.
    waiting: Vec<u8>,
    pub(super) failed: Option<io::ErrorKind>,
    /// Whose log it is: a forked process writes nothing to it.
    process: u32,
}

/// Bytes that may wait for a file that takes nothing. Rows beyond are lost.
const MOST_WAITING: usize = 1 << 20;

impl OpenLog {
    pub(super) fn create(to: &LogFile) -> Result<Self, TrackerError> {
        let failed = |why| TrackerError::Log { path: to.path.clone(), why };
        let file = File::create(&to.path).map_err(failed)?;
        let mut waiting = Vec::new();
        write_header(to.format, &mut waiting).map_err(failed)?;
        Ok(Self { file, format: to.format, waiting, failed: None, process: std::process::id() })
    }

    pub(super) fn add(&mut self, row: Row<'_>) {
        if self.waiting.len() > MOST_WAITING {
            return;
        }
        if let Err(e) = row.write(self.format, &mut self.waiting) {
            self.failed = Some(e.kind());
        }
    }

    /// Whole rows in one write, where the file takes them. What it does not take comes first the next time, so that no
    /// row begins in the middle of another.
    pub(super) fn write_out(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        while !self.waiting.is_empty() {
            match self.file.write(&self.waiting) {
                Ok(0) => self.failed = Some(io::ErrorKind::WriteZero),
                Ok(written) => {
                    self.waiting.drain(..written);
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => self.failed = Some(e.kind()),
            }
            return;
        }
    }
}
