//! Writing what the user named: a file is there whole or not at all. A command that is killed leaves a file
//! `.vramscope-*.part` beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tempfile::{Builder, NamedTempFile};

use crate::progress::Progress;

/// An output being written.
pub(crate) struct Output {
    to: To,
    bytes: u64,
    progress: Progress,
}

enum To {
    Stdout(io::Stdout),
    /// A pipe or a device: nothing to replace.
    Special(File),
    /// A file beside the one it becomes.
    Beside(NamedTempFile, PathBuf),
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::new(To::Stdout(io::stdout()))
    }

    /// The file `path`, which is as it was until [`finish`](Self::finish).
    pub(crate) fn file(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let before = fs::metadata(path).ok();
        if before.as_ref().is_some_and(fs::Metadata::is_dir) {
            bail!("{name}: is a directory; name a file in it");
        }
        if before.as_ref().is_some_and(|m| !m.is_file()) {
            let special = File::options().write(true).open(path).with_context(|| name.to_string())?;
            return Ok(Self::new(To::Special(special)));
        }
        // The file that a link leads to is replaced, and the link stays; one that leads nowhere is itself replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("{name}: there is no directory {}", folder.display());
        }
        let mut builder = Builder::new();
        builder.prefix(".vramscope-").suffix(".part");
        // As any new file, where the default is readable by its owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let beside =
            builder.tempfile_in(folder).with_context(|| format!("cannot write into {}", folder.display()))?;
        if let Some(before) = before {
            beside.as_file().set_permissions(before.permissions()).with_context(|| name.to_string())?;
        }
        Ok(Self::new(To::Beside(beside, path)))
    }

    fn new(to: To) -> Self {
        Self { to, bytes: 0, progress: Progress::new("writing", None) }
    }

    /// Puts the file in its place, once it is on the disk.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.progress.done();
        if let To::Beside(file, path) = self.to {
            // On the disk before its name is: a crash of the machine leaves the former file or the whole new one.
            file.as_file().sync_all().with_context(|| path.display().to_string())?;
            file.persist(&path).map_err(|e| e.error).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::Special(out) => out.write(bytes),
            To::Beside(out, _) => out.write(bytes),
        }?;
        self.bytes += n as u64;
        self.progress.at(self.bytes);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::Special(out) => out.flush(),
            To::Beside(out, _) => out.flush(),
        }
    }
}
