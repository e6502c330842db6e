//! What hooks ask PyTorch.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// PyTorch's own functions.
pub(crate) struct Functions {
    /// Has a function called when a backward pass ends.
    queue_callback: Py<PyAny>,
    /// The number of the backward pass that this thread is in.
    pass: Py<PyAny>,
    /// The number that the next node of this thread gets.
    next_node: Py<PyAny>,
    /// The node that runs on this thread.
    running: Py<PyAny>,
    /// Reads and sets the text that PyTorch writes into each event of this thread; from 2.11 on.
    metadata: Option<(Py<PyAny>, Py<PyAny>)>,
}

impl Functions {
    pub(crate) fn of(torch: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = torch.py();
        let c = torch.getattr(intern!(py, "_C"))?;
        let metadata = || -> PyResult<_> {
            let get = c.getattr(intern!(py, "_cuda_getMemoryMetadata"))?;
            let set = c.getattr(intern!(py, "_cuda_setMemoryMetadata"))?;
            Ok((get.unbind(), set.unbind()))
        };
        Ok(Self {
            queue_callback: torch
                .getattr(intern!(py, "autograd"))?
                .getattr(intern!(py, "Variable"))?
                .getattr(intern!(py, "_execution_engine"))?
                .getattr(intern!(py, "queue_callback"))?
                .unbind(),
            pass: c.getattr(intern!(py, "_current_graph_task_id"))?.unbind(),
            next_node: c
                .getattr(intern!(py, "_autograd"))?
                .getattr(intern!(py, "_get_sequence_nr"))?
                .unbind(),
            running: c.getattr(intern!(py, "_current_autograd_node"))?.unbind(),
            metadata: metadata().ok(),
        })
    }

    /// The number of the backward pass that this thread is in; they grow.
    pub(crate) fn pass(&self, py: Python<'_>) -> Option<i64> {
        self.pass.bind(py).call0().ok()?.extract().ok().filter(|&pass| pass >= 0)
    }

    /// The number that the next node gets which this thread makes.
    pub(crate) fn next_node(&self, py: Python<'_>) -> u64 {
        self.next_node.bind(py).call0().ok().and_then(|number| number.extract().ok()).unwrap_or(0)
    }

    /// The number of the node that runs on this thread.
    pub(crate) fn running_node(&self, py: Python<'_>) -> Option<u64> {
        let node = self.running.bind(py).call0().ok()?;
        node.call_method0(intern!(py, "_sequence_nr")).ok()?.extract().ok()
    }

    /// Has `then` called when the backward pass ends that this thread is in.
    pub(crate) fn at_end_of_pass(&self, then: &Bound<'_, PyAny>) -> PyResult<()> {
        self.queue_callback.bind(then.py()).call1((then,)).map(drop)
    }

    /// Sets the text in each event of this thread, where it is `expected` now. It says whether it did.
    pub(crate) fn replace_metadata(&self, py: Python<'_>, expected: &str, text: &str) -> bool {
        let Some((get, set)) = &self.metadata else { return false };
        let is_expected = get
            .bind(py)
            .call0()
            .ok()
            .and_then(|now| now.cast_into::<PyString>().ok())
            .is_some_and(|now| now.to_str().is_ok_and(|now| now == expected));
        is_expected && set.bind(py).call1((text,)).is_ok()
    }
}
