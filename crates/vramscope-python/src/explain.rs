//! Explains why a program ran out of memory, from the recording that it just wrote, or from the text of an error.

use std::path::PathBuf;

use pyo3::prelude::*;
use vramscope::analysis::{By, Frames, History, Holder, HolderKey, Moment, Options, Summary, holders_at};
use vramscope::report::{OomInBrief, oom_in_brief};
use vramscope::texts;
use vramscope::trace::formats::Reader;

use crate::error::{ReadError, VramscopeError};

/// Explains the out-of-memory errors in a text, such as an exception or the log of a job.
#[pyfunction]
pub(crate) fn explain_text(py: Python<'_>, text: &str) -> PyResult<String> {
    let bytes = text.as_bytes();
    py.detach(|| Ok(texts::told("the error", &texts::read(bytes)?)))
}

/// Explains the last out-of-memory event of a device in at most 14 lines. None if the recording has no such event.
#[pyfunction]
pub(crate) fn explain_out_of_memory(py: Python<'_>, path: PathBuf, device: i64) -> PyResult<Option<String>> {
    py.detach(|| {
        let recording = Reader::open(&path)
            .map_err(|error| VramscopeError::new_err(error.to_string()))?
            .read()
            .map_err(|error| ReadError::new_err(format!("{}: {error}", path.display())))?;
        let trace = recording.trace;
        let Some(position) = trace.devices.iter().position(|recorded| recorded.device == device) else {
            return Ok(None);
        };
        let frames = Frames::of(&trace);
        let history = History::replayed(&trace, position);
        let summary = Summary::of_history(&history, &frames, &Options::default());
        let Some(oom) = summary.ooms.last() else { return Ok(None) };
        let mut categories = holders_at(&history, &frames, Moment::after(oom.event), By::Category);
        let is_told = |h: &Holder| matches!(h.key, HolderKey::Category(category) if category.is_told());
        if !categories.iter().any(is_told) {
            categories.clear();
        }
        Ok(Some(oom_in_brief(&OomInBrief {
            trace: &trace,
            frames: &frames,
            oom,
            categories: &categories,
            summary: &summary,
        })))
    })
}
