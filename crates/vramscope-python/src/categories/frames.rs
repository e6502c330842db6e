//! Removes the frames of vramscope's hooks from a snapshot's stacks.

use std::collections::{HashMap, HashSet};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The function that replaces `torch.nn.Module.__call__`, and the end of its file name (`python/vramscope/torch/_hooks.py`).
const OURS: (&str, [&str; 2]) =
    ("watched_call", ["vramscope/torch/_hooks.py", "vramscope\\torch\\_hooks.py"]);

/// Removes vramscope's frames from each stack of a snapshot.
pub(crate) fn hide_ours(snapshot: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = snapshot.py();
    let mut stacks = Stacks::default();
    for trace in snapshot.get_item(intern!(py, "device_traces"))?.cast::<PyList>()?.iter() {
        for event in trace.cast::<PyList>()?.iter() {
            stacks.clean(event.cast::<PyDict>()?)?;
        }
    }
    for segment in snapshot.get_item(intern!(py, "segments"))?.cast::<PyList>()?.iter() {
        stacks.clean(segment.cast::<PyDict>()?)?;
        for block in segment.get_item(intern!(py, "blocks"))?.cast::<PyList>()?.iter() {
            stacks.clean(block.cast::<PyDict>()?)?;
        }
    }
    Ok(())
}

/// Visited stacks and frames, by object address: PyTorch shares one object among equal ones.
#[derive(Default)]
struct Stacks {
    clean: HashSet<usize>,
    is_ours: HashMap<usize, bool>,
}

impl Stacks {
    /// Cleans the stack of an event, a segment or a block.
    fn clean(&mut self, entry: &Bound<'_, PyDict>) -> PyResult<()> {
        let Some(frames) = entry.get_item(intern!(entry.py(), "frames"))? else { return Ok(()) };
        let Ok(frames) = frames.cast_into::<PyList>() else { return Ok(()) };
        if !self.clean.insert(frames.as_ptr() as usize) {
            return Ok(());
        }
        for index in (0..frames.len()).rev() {
            let frame = frames.get_item(index)?;
            let is_ours = match self.is_ours.get(&(frame.as_ptr() as usize)) {
                Some(&known) => known,
                None => {
                    let is_ours = is_ours(&frame)?;
                    self.is_ours.insert(frame.as_ptr() as usize, is_ours);
                    is_ours
                }
            };
            if is_ours {
                frames.del_item(index)?;
            }
        }
        Ok(())
    }
}

fn is_ours(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = frame.py();
    let (name, files) = OURS;
    if !frame.get_item(intern!(py, "name"))?.eq(name)? {
        return Ok(false);
    }
    let file: String = frame.get_item(intern!(py, "filename"))?.extract()?;
    Ok(files.iter().any(|end| file.ends_with(end)))
}
