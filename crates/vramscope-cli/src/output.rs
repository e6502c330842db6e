//! Writes the user's output files: a file is complete or not created at all, even if a signal ends the command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use vramscope::recorder::NewRecording;
use vramscope_files::{Dir, is_same_file};

use crate::part::Part;
use crate::progress::ByteProgress;
use crate::say::say;

/// The file of a new recording, which replaces no earlier one; says if its name is not the usual one.
pub(crate) fn new_recording(named: Option<&Path>, usual: &str, replaces: bool) -> anyhow::Result<PathBuf> {
    let new = NewRecording::choose(named, usual, replaces)?;
    if let Some(note) = new.note() {
        say(&note);
    }
    Ok(new.path)
}

/// An output that is being written.
pub(crate) struct Output {
    /// The name as the user gave it.
    name: String,
    to: To,
    bytes: u64,
    progress: ByteProgress,
    /// Whether the reader of the output has closed it.
    unread: bool,
}

enum To {
    Stdout(io::Stdout),
    File(Part),
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::new("standard output".to_owned(), To::Stdout(stdout()))
    }

    /// A file at `path`, which stays unchanged until [`finish`](Self::finish). `inputs` are the input files of the command, `-` for
    /// standard input.
    ///
    /// # Errors
    /// `path` is one of `inputs`, even under another name, or cannot be written.
    pub(crate) fn file(path: &Path, inputs: &[&Path]) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let stdin = Path::new("/dev/stdin");
        let mut inputs = inputs.iter().map(|&input| if input == Path::new("-") { stdin } else { input });
        if inputs.any(|input| is_same_file(path, input) && input.is_file()) {
            bail!("{name}: is also an input file; choose another output file");
        }
        if path.is_dir() {
            bail!("{name}: is a directory; name a file in it");
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("{name}: the directory {} does not exist", folder.display());
        }
        let part = Part::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied if e.get_ref().is_none() && !path.exists() => {
                anyhow::Error::new(e).context(format!("cannot write into {}", folder.display()))
            }
            _ => anyhow::Error::new(e).context(name.clone()),
        })?;
        Ok(Self::new(name, To::File(part)))
    }

    /// The file `file` in an open folder. `name` is its name in messages.
    pub(crate) fn in_folder(dir: Dir, file: &str, name: String) -> anyhow::Result<Self> {
        let part = Part::at(dir, file.into()).with_context(|| name.clone())?;
        Ok(Self::new(name, To::File(part)))
    }

    /// A file at `path`, or standard output if it is `-`. `inputs` as for [`file`](Self::file).
    pub(crate) fn named(path: &Path, inputs: &[&Path]) -> anyhow::Result<Self> {
        if path == Path::new("-") { Ok(Self::stdout()) } else { Self::file(path, inputs) }
    }

    fn new(name: String, to: To) -> Self {
        Self { name, to, bytes: 0, progress: ByteProgress::new("writing", None), unread: false }
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes all bytes, and moves the file to its place.
    pub(crate) fn write_whole(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.write_all(bytes) {
            Err(_) if self.unread => Ok(()),
            written => {
                written.with_context(|| self.name.clone())?;
                self.finish()
            }
        }
    }

    /// Whether the reader of standard output, or of the named pipe, has closed it; that is not an error.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread
    }

    /// Syncs the file to disk and moves it to its place.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        match self.flush() {
            Err(_) if self.unread => return Ok(()),
            flushed => flushed.with_context(|| self.name.clone())?,
        }
        self.progress.done();
        match self.to {
            To::File(part) => part.finish().context(self.name),
            To::Stdout(_) => Ok(()),
        }
    }

    /// Notes if the reader has closed the output.
    fn noted<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        self.unread |= matches!(&written, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        written
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where data goes to standard output")]
fn stdout() -> io::Stdout {
    io::stdout()
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::File(part) => part.file().write(bytes),
        };
        let n = self.noted(written)?;
        self.bytes += n as u64;
        self.progress.at(self.bytes);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::File(part) => part.file().flush(),
        };
        self.noted(flushed)
    }
}
