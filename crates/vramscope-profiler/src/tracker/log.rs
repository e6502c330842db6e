//! The log file of a tracker, written while the tracker runs.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use vramscope_allocator::ExclusiveFile;

use super::error::TrackerError;
use super::events::{LogFormat, Row, write_header};

/// A log file. It is locked while the tracker runs, so that no other tracker writes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// The path.
    pub path: PathBuf,
    /// Its format.
    pub format: LogFormat,
    /// Whether an existing file is replaced. Otherwise a file with contents is an error.
    pub replaces: bool,
}

impl LogFile {
    /// A log at `path`: CSV if its name ends in `.csv`, otherwise JSON Lines. An existing file is replaced.
    pub fn at(path: &Path) -> Self {
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let format = if is_csv { LogFormat::Csv } else { LogFormat::JsonLines };
        Self { path: path.to_owned(), format, replaces: true }
    }
}

/// An open log file.
pub(super) struct OpenLog {
    file: ExclusiveFile,
    format: LogFormat,
    /// Bytes of rows that are not written yet: bytes that the file did not accept before, then the rows of this sample.
    waiting: Vec<u8>,
    /// The last write error.
    failed: Option<io::ErrorKind>,
}

/// Maximum bytes that wait for a file that accepts nothing, such as on a full disk. Further rows are lost.
const MOST_WAITING: usize = 1 << 20;

impl OpenLog {
    pub(super) fn create(to: &LogFile) -> Result<Self, TrackerError> {
        let failed = |why: io::Error| match why.kind() {
            io::ErrorKind::ResourceBusy => TrackerError::Busy { path: to.path.clone() },
            _ => TrackerError::Log { path: to.path.clone(), why },
        };
        let create = if to.replaces { ExclusiveFile::create } else { ExclusiveFile::create_new };
        let file = create(&to.path).map_err(failed)?;
        let mut waiting = Vec::new();
        write_header(to.format, &mut waiting).map_err(failed)?;
        Ok(Self { file, format: to.format, waiting, failed: None })
    }

    /// Returns the last write error.
    pub(super) fn error(&self) -> Option<io::ErrorKind> {
        self.failed
    }

    /// Adds a waiting row.
    pub(super) fn add(&mut self, row: Row<'_>) {
        if self.waiting.len() > MOST_WAITING {
            return;
        }
        if let Err(e) = row.write(self.format, &mut self.waiting) {
            self.failed = Some(e.kind());
        }
    }

    /// Writes the waiting rows, in one write if the file accepts them all. The rest is written first the next time, so no row begins in the
    /// middle of another. A forked process writes nothing: the log belongs to its parent.
    pub(super) fn write_waiting(&mut self) {
        if !self.file.is_of_this_process() {
            return;
        }
        if let Err(e) = self.file.check_name() {
            self.failed = Some(e.kind());
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
