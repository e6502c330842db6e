//! `--also-pickle`: logs as pickles, once they are complete.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use vramscope::export::{ExportFormat, ExportOptions, Source, write as export};
use vramscope::session::Session;
use vramscope::trace::formats::ReadOptions;
use vramscope_files::with_suffix;

use crate::advice::ADVICE;
use crate::input;
use crate::output::Output;

/// Checks before the program starts that the pickle can be written.
pub(super) fn check(pickle: &Path) -> anyhow::Result<()> {
    let folder = pickle.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        bail!("--also-pickle {}: its folder does not exist", pickle.display());
    }
    Ok(())
}

/// The path of the pickle for `log`. If the name of the log has a rank or a process, such as `run-rank3.vramscope` for `run.vramscope`, the
/// name of the pickle has it too.
pub(super) fn path(pickle: &Path, record: &Path, log: &Path) -> PathBuf {
    let stem = |path: &Path| path.file_stem().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    let (of_log, of_record) = (stem(log), stem(record));
    let suffix = of_log.strip_prefix(&of_record).unwrap_or_default();
    with_suffix(pickle, suffix)
}

/// Writes the recording of a log as a pickle.
pub(super) fn write(log: &Path, pickle: &Path) -> anyhow::Result<()> {
    let session = Session::once(input::name(log), input::read(log, ReadOptions::default())?, ADVICE);
    let devices = session.devices(None).map_err(super::super::about(session.name()))?;
    let source = Source { trace: session.trace(), frames: session.frames(), devices };
    let mut out = Output::file(pickle, &[log])?;
    export(&source, ExportFormat::Pickle, &ExportOptions::default(), &mut out)
        .with_context(|| out.name().to_owned())?;
    out.finish()
}
