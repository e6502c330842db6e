//! Memory by source line, for the `LineProfileHook`s of `vramscope.cupy` and `vramscope.torch`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use vramscope::allocator::hooks::LineProfileHook;
use vramscope::allocator::hooks::line_profile::{LineNode, LineReportOptions};
use vramscope::allocator::{CapturedStack, SourceFrame};
use vramscope_basics::lock;

use crate::call_tree::{CallTree, NodeId};

/// Counts the bytes taken from the pool, and the bytes that the pool took from the device, by Python line.
///
/// Its callbacks are those of CuPy's `MemoryHook`. Other sources call `count`.
#[pyclass(subclass, frozen, module = "vramscope._native")]
#[derive(Default)]
pub(crate) struct LineProfile {
    tree: CallTree,
    hook: LineProfileHook,
    /// The hook's stack of each node.
    stacks: Mutex<HashMap<NodeId, Option<CapturedStack>>>,
    /// The number of printed levels, including the root; 0 for no limit.
    max_depth: AtomicUsize,
}

#[pymethods]
impl LineProfile {
    // Subclasses may take any arguments.
    #[new]
    #[pyo3(signature = (*_arguments, **_keywords))]
    fn new(_arguments: &Bound<'_, PyAny>, _keywords: Option<&Bound<'_, PyAny>>) -> Self {
        Self::default()
    }

    /// Counts bytes for the running line and its callers.
    #[pyo3(signature = (used_bytes=0, acquired_bytes=0))]
    fn count(&self, py: Python<'_>, used_bytes: u64, acquired_bytes: u64) -> PyResult<()> {
        let node = self.tree.capture(py)?;
        let mut stacks = lock(&self.stacks);
        let stack = *stacks.entry(node).or_insert_with(|| {
            self.tree.with(node, |stack, frames| {
                self.hook.stack(&stack.iter().map(|&i| frames[i as usize].clone()).collect::<Vec<_>>())
            })
        });
        self.hook.count(stack, used_bytes, acquired_bytes);
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
            let (used, acquired) = if is_used { (size, 0) } else { (0, size) };
            self.hook.count(self.hook.stack(&stack), used, acquired);
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
        self.max_depth.load(Ordering::Relaxed)
    }

    #[setter(_max_depth)]
    fn set_max_depth(&self, max_depth: isize) {
        self.max_depth.store(usize::try_from(max_depth).unwrap_or(0), Ordering::Relaxed);
    }

    /// Each line that counted bytes itself, with the sum over all callers, most used bytes first.
    fn _lines(&self) -> Vec<(String, Option<u32>, String, u64, u64)> {
        let options = LineReportOptions { depth_from_leaf: 1, ..LineReportOptions::default() };
        let lines = self.hook.report(&options).nodes.into_iter().skip(1);
        let mut lines: Vec<_> = lines.filter(|n| n.used_bytes > 0 || n.acquired_bytes > 0).collect();
        lines.sort_by_key(|n| std::cmp::Reverse((n.used_bytes, n.acquired_bytes)));
        let row = |n: LineNode| {
            (n.filename, (n.line > 0).then_some(n.line), n.name, n.used_bytes, n.acquired_bytes)
        };
        lines.into_iter().map(row).collect()
    }

    /// The report in CuPy's format.
    fn _report(&self) -> PyResult<String> {
        let options = LineReportOptions { max_depth: self.max_depth(), ..LineReportOptions::default() };
        let mut text = Vec::new();
        self.hook.report(&options).write_tree(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
