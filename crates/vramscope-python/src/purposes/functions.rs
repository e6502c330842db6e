//! What hooks ask PyTorch.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::steps::Counts;

/// PyTorch's own functions.
pub(crate) struct Functions {
    /// Has a function called when a backward pass ends.
    queue_callback: Py<PyAny>,
    /// The number of the backward pass that this thread is in.
    pass: Py<PyAny>,
    /// The number that the next node of this thread gets.
    next_node: Py<PyAny>,
    /// What decides whether and in which precision autograd saves tensors.
    modes: [Py<PyAny>; 3],
    /// How many GPUs there are, and what PyTorch counts on one.
    device_count: Py<PyAny>,
    memory_stats: Py<PyAny>,
    /// Reads and sets the text that PyTorch writes into each event of this thread; from 2.11 on.
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

    /// The number of the backward pass that this thread is in; they grow.
    pub(crate) fn pass(&self, py: Python<'_>) -> Option<i64> {
        self.pass.bind(py).call0().ok()?.extract().ok().filter(|&pass| pass >= 0)
    }

    /// The number that the next node gets which this thread makes.
    pub(crate) fn next_node(&self, py: Python<'_>) -> u64 {
        self.next_node.bind(py).call0().ok().and_then(|number| number.extract().ok()).unwrap_or(0)
    }

    /// Whether gradients and automatic precision are on, and which type that has.
    pub(crate) fn modes(&self, py: Python<'_>) -> PyResult<[usize; 3]> {
        let [gradients, autocast, kind] = &self.modes;
        // There is one object of each of these values.
        let gpu = (intern!(py, "cuda"),);
        let answers = [gradients.bind(py).call0()?, autocast.bind(py).call1(gpu)?, kind.bind(py).call1(gpu)?];
        Ok(answers.map(|answer| answer.as_ptr() as usize))
    }

    /// What PyTorch has allocated so far; none where it has on more than one GPU.
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
