//! Memory by source line, for the `LineProfileHook`s of `vramscope.cupy` and `vramscope.torch`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use vramscope_basics::units::cupy_bytes;

use crate::call_tree::{CallTree, Node, NodeId};
use crate::stacks::Frame;

/// Counts the bytes taken from the pool, and the bytes that the pool took from the device, by Python line.
///
/// Its callbacks are those of CuPy's `MemoryHook`. Other sources call `count`.
#[pyclass(subclass, frozen, module = "vramscope._native")]
pub(crate) struct LineProfile {
    tree: CallTree,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// The number of printed levels, including the root; 0 for no limit.
    max_depth: usize,
    /// Bytes that each line requested itself, without its callees, by node.
    own: Vec<Bytes>,
}

#[derive(Clone, Copy, Default)]
struct Bytes {
    used: u64,
    acquired: u64,
}

/// A line of the report: level, source file, line, function, used and acquired bytes. The first is the root.
type Row = (usize, String, Option<u32>, String, u64, u64);

impl Bytes {
    fn add(&mut self, other: Self) {
        self.used = self.used.saturating_add(other.used);
        self.acquired = self.acquired.saturating_add(other.acquired);
    }
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
        self.add(node, Bytes { used: used_bytes, acquired: acquired_bytes });
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
                let line: u32 = frame.get_item(intern!(py, "line"))?.extract()?;
                stack.push(Frame {
                    filename: frame.get_item(intern!(py, "filename"))?.extract()?,
                    line: (line > 0).then_some(line),
                    name: frame.get_item(intern!(py, "name"))?.extract()?,
                });
            }
            let node = self.tree.node_of_frames(stack.into_iter().rev());
            let (used, acquired) = if is_used { (size, 0) } else { (0, size) };
            self.add(node, Bytes { used, acquired });
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
                by_frame[node.frame as usize].1.add(*bytes);
            }
            by_frame.retain(|(_, bytes)| bytes.used > 0 || bytes.acquired > 0);
            by_frame.sort_by_key(|(_, bytes)| std::cmp::Reverse((bytes.used, bytes.acquired)));
            let line = |(frame, bytes): (u32, Bytes)| {
                let Frame { filename, line, name } = frames[frame as usize].clone();
                (filename, line, name, bytes.used, bytes.acquired)
            };
            by_frame.into_iter().map(line).collect()
        })
    }

    /// The lines of the report, in CuPy's format.
    fn _report(&self) -> Vec<String> {
        let line = |(depth, filename, line, name, used, acquired): Row| {
            let (used, acquired) = (cupy_bytes(used), cupy_bytes(acquired));
            if depth == 0 {
                return format!("{name} ({used}, {acquired})\n");
            }
            let line = line.map_or_else(|| "None".to_owned(), |line| line.to_string());
            format!("{:1$}{filename}:{line}:{name} ({used}, {acquired})\n", "", 2 * depth)
        };
        let (max_depth, own) = {
            let counted = self.counted();
            (counted.max_depth, counted.own.clone())
        };
        let rows = self.tree.with(|nodes, frames| rows(nodes, frames, own, max_depth));
        rows.into_iter().map(line).collect()
    }
}

impl LineProfile {
    fn add(&self, node: NodeId, bytes: Bytes) {
        let node = node as usize;
        let mut counted = self.counted();
        if counted.own.len() <= node {
            counted.own.resize(node + 1, Bytes::default());
        }
        counted.own[node].add(bytes);
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rows(nodes: &[Node], frames: &[Frame], mut bytes: Vec<Bytes>, max_depth: usize) -> Vec<Row> {
    // Captured stacks without counts have no bytes.
    bytes.resize(nodes.len() + 1, Bytes::default());
    let mut children: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.len() + 1];
    for (number, node) in (1..).zip(nodes) {
        children[node.parent as usize].push(number);
    }
    // A callee's bytes also count for its caller. Children follow their parents.
    for (number, node) in nodes.iter().enumerate().rev() {
        let called = bytes[number + 1];
        bytes[node.parent as usize].add(called);
    }
    let mut rows = Vec::new();
    let mut next = vec![(0, 0)];
    while let Some((number, depth)) = next.pop() {
        let Bytes { used, acquired } = bytes[number as usize];
        match (number as usize).checked_sub(1).map(|i| &frames[nodes[i].frame as usize]) {
            None => rows.push((depth, String::new(), None, "_root".to_owned(), used, acquired)),
            Some(f) => rows.push((depth, f.filename.clone(), f.line, f.name.clone(), used, acquired)),
        }
        if max_depth == 0 || depth + 1 < max_depth {
            next.extend(children[number as usize].iter().rev().map(|&child| (child, depth + 1)));
        }
    }
    rows
}
