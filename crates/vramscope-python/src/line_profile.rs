//! Memory by source line, for the `LineProfileHook`s of `vramscope.cupy` and `vramscope.torch`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use vramscope::allocator::SourceFrame;
use vramscope::allocator::hooks::line_profile::LineReport;

use crate::call_tree::{CallTree, NodeId};

/// Counts the bytes taken from the pool, and the bytes that the pool took from the device, by Python line.
///
/// Its callbacks are those of CuPy's `MemoryHook`. Other sources call `count`.
#[pyclass(subclass, frozen, module = "vramscope._native")]
pub(crate) struct LineProfile {
    tree: CallTree,
    counted: Mutex<Counted>,
}

#[derive(Clone, Default)]
struct Counted {
    /// The number of printed levels, including the root; 0 for no limit.
    max_depth: usize,
    /// Bytes that each line requested itself, without its callees, by node.
    own: Vec<Bytes>,
}

/// Used and acquired bytes.
type Bytes = [u64; 2];

fn add(sum: &mut Bytes, [used, acquired]: Bytes) {
    *sum = [sum[0].saturating_add(used), sum[1].saturating_add(acquired)];
}

#[pymethods]
impl LineProfile {
    // Subclasses may take any arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords))]
    fn new(_arguments: &Bound<'_, PyAny>, _keywords: Option<&Bound<'_, PyAny>>) -> Self {
        Self { tree: CallTree::default(), counted: Mutex::default() }
    }

    /// Counts bytes for the running line and its callers.
    #[pyo3(signature = (used_bytes=0, acquired_bytes=0))]
    fn count(&self, py: Python<'_>, used_bytes: u64, acquired_bytes: u64) -> PyResult<()> {
        let node = self.tree.capture(py)?;
        self.add(node, [used_bytes, acquired_bytes]);
        Ok(())
    }

    /// Counts the events of PyTorch's history since a time in microseconds since the Unix epoch. Requested bytes count as used,
    /// and bytes taken from the device as acquired.
    fn count_history(&self, events: &Bound<'_, PyList>, since_us: i64) -> PyResult<()> {
        let py = events.py();
        for event in events.iter() {
            let action = event.get_item(intern!(py, "action"))?;
            let is_used = match action.extract()? {
                "alloc" => true,
                "segment_alloc" | "segment_map" => false,
                _ => continue,
            };
            if event.get_item(intern!(py, "time_us"))?.extract::<i64>()? < since_us {
                continue;
            }
            let size: u64 = event.get_item(intern!(py, "size"))?.extract()?;
            let mut stack = Vec::new();
            for frame in event.get_item(intern!(py, "frames"))?.try_iter()? {
                let frame = frame?;
                let text = |key| frame.get_item(key)?.extract::<String>();
                let line = frame.get_item(intern!(py, "line"))?.extract()?;
                stack.push(SourceFrame::new(&text("filename")?, line, &text("name")?));
            }
            let node = self.tree.node_of_frames(stack.into_iter().rev());
            self.add(node, if is_used { [size, 0] } else { [0, size] });
        }
        Ok(())
    }

    /// Counts the rounded bytes of a request.
    fn malloc_preprocess(
        &self,
        py: Python<'_>,
        device_id: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        mem_size: u64,
    ) -> PyResult<()> {
        let _ = (device_id, size);
        self.count(py, mem_size, 0)
    }

    /// Counts the bytes that the pool requests from the device.
    fn alloc_preprocess(&self, py: Python<'_>, device_id: &Bound<'_, PyAny>, mem_size: u64) -> PyResult<()> {
        let _ = device_id;
        self.count(py, 0, mem_size)
    }

    #[getter(_max_depth)]
    fn max_depth(&self) -> usize {
        self.counted().max_depth
    }

    #[setter(_max_depth)]
    fn set_max_depth(&self, max_depth: isize) {
        self.counted().max_depth = usize::try_from(max_depth).unwrap_or(0);
    }

    /// Each line that counted bytes itself, with the sum over all callers, most used bytes first.
    fn _lines(&self) -> Vec<(String, Option<u32>, String, u64, u64)> {
        let own = self.counted().own.clone();
        self.tree.with(|nodes, frames| {
            let mut by_frame: Vec<(u32, Bytes)> =
                (0..frames.len() as u32).map(|frame| (frame, Bytes::default())).collect();
            for (node, bytes) in nodes.iter().zip(own.iter().skip(1)) {
                add(&mut by_frame[node.frame as usize].1, *bytes);
            }
            by_frame.retain(|(_, bytes)| *bytes != [0, 0]);
            by_frame.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
            let line = |(frame, [used, acquired]): (u32, Bytes)| {
                let SourceFrame { filename, line, name } = &frames[frame as usize];
                let line = (*line > 0).then_some(*line);
                (filename.to_string(), line, name.to_string(), used, acquired)
            };
            by_frame.into_iter().map(line).collect()
        })
    }

    /// The report in CuPy's format.
    fn _report(&self) -> PyResult<String> {
        let Counted { max_depth, own } = self.counted().clone();
        let mut text = Vec::new();
        self.tree.with(|nodes, frames| {
            let lines = nodes.iter().map(|node| (node.parent as usize, &frames[node.frame as usize]));
            LineReport::of_tree(lines, &own, max_depth).write_tree(&mut text)
        })?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl LineProfile {
    fn add(&self, node: NodeId, bytes: Bytes) {
        let node = node as usize;
        let mut counted = self.counted();
        if counted.own.len() <= node {
            counted.own.resize(node + 1, Bytes::default());
        }
        add(&mut counted.own[node], bytes);
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
