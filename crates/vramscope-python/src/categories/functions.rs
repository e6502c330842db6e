//! PyTorch functions that the hooks call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::steps::Counts;

/// References to PyTorch's own functions.
pub(crate) struct Functions {
    /// Registers a callback for the end of a backward pass.
    queue_callback: Py<PyAny>,
    /// Returns the number of this thread's current backward pass.
    pass: Py<PyAny>,
    /// Returns the number of this thread's next node.
    next_node: Py<PyAny>,
    /// Returns the node that runs on this thread.
    running: Py<PyAny>,
    /// Return the modes that decide whether, and in which precision, autograd saves tensors.
    modes: [Py<PyAny>; 3],
    /// Return the number of GPUs, and a GPU's allocator statistics.
    device_count: Py<PyAny>,
    memory_stats: Py<PyAny>,
    /// Read and set the text that PyTorch writes into each event of this thread. Available since 2.11.
    metadata: Option<(Py<PyAny>, Py<PyAny>)>,
}

impl Functions {
    pub(crate) fn of(torch: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = torch.py();
        let c = torch.getattr(intern!(py, "_C"))?;
        let cuda = torch.getattr(intern!(py, "cuda"))?;
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
            modes: [
                torch.getattr(intern!(py, "is_grad_enabled"))?.unbind(),
                torch.getattr(intern!(py, "is_autocast_enabled"))?.unbind(),
                torch.getattr(intern!(py, "get_autocast_dtype"))?.unbind(),
            ],
            device_count: cuda.getattr(intern!(py, "device_count"))?.unbind(),
            memory_stats: cuda.getattr(intern!(py, "memory_stats_as_nested_dict"))?.unbind(),
            metadata: metadata().ok(),
        })
    }

    /// The number of this thread's current backward pass. The numbers increase.
    pub(crate) fn pass(&self, py: Python<'_>) -> Option<i64> {
        self.pass.bind(py).call0().ok()?.extract().ok().filter(|&pass| pass >= 0)
    }

    /// The number of the next node that this thread creates.
    pub(crate) fn next_node(&self, py: Python<'_>) -> u64 {
        self.next_node.bind(py).call0().ok().and_then(|number| number.extract().ok()).unwrap_or(0)
    }

    /// The number of the node that runs on this thread.
    pub(crate) fn running_node(&self, py: Python<'_>) -> Option<u64> {
        let node = self.running.bind(py).call0().ok()?;
        node.call_method0(intern!(py, "_sequence_nr")).ok()?.extract().ok()
    }

    /// Whether gradients and autocast are on, and autocast's type.
    pub(crate) fn modes(&self, py: Python<'_>) -> PyResult<[usize; 3]> {
        let [gradients, autocast, kind] = &self.modes;
        // Each of these values is a singleton object.
        let gpu = (intern!(py, "cuda"),);
        let answers = [gradients.bind(py).call0()?, autocast.bind(py).call1(gpu)?, kind.bind(py).call1(gpu)?];
        Ok(answers.map(|answer| answer.as_ptr() as usize))
    }

    /// PyTorch's allocations so far. None if it has allocations on more than one GPU.
    pub(crate) fn counts(&self, py: Python<'_>) -> Option<Counts> {
        let devices: usize = self.device_count.bind(py).call0().ok()?.extract().ok()?;
        let mut used = (0..devices).filter_map(|device| {
            let stats = self.memory_stats.bind(py).call1((device,)).ok()?;
            let count = |of, what| -> PyResult<u64> {
                stats.get_item(of)?.get_item(intern!(py, "all"))?.get_item(what)?.extract()
            };
            let (allocated, freed) = (intern!(py, "allocated"), intern!(py, "freed"));
            let bytes = intern!(py, "allocated_bytes");
            let counts = Counts {
                allocations: count(intern!(py, "allocation"), allocated).ok()?,
                allocated: count(bytes, allocated).ok()?,
                freed: count(bytes, freed).ok()?,
            };
            (counts.allocations > 0).then_some(counts)
        });
        let counts = used.next();
        if used.next().is_some() { None } else { counts }
    }

    /// Registers `then` as a callback for the end of this thread's current backward pass.
    pub(crate) fn at_end_of_pass(&self, then: &Bound<'_, PyAny>) -> PyResult<()> {
        self.queue_callback.bind(then.py()).call1((then,)).map(drop)
    }

    /// Sets the text in each event of this thread if it currently equals `expected`. Returns whether it did.
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
