//! Finds the module whose nodes run in a backward pass.
//!
//! A node that saved a tensor is identified when it requests the tensor. Nodes that save nothing (a mean, a slice, a cast) are
//! identified by a hook: it is registered on a module's last node whenever the program leaves the module. Nodes run in the
//! reverse order of their creation.

use pyo3::intern;
use pyo3::prelude::*;

use super::Purposes;
use super::modules::ModuleId;
use super::tensors;
use super::threads::ThreadId;

/// Called before a node runs.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct NodeHook {
    purposes: Py<Purposes>,
    module: ModuleId,
}

#[pymethods]
impl NodeHook {
    #[pyo3(signature = (_gradients, /))]
    fn __call__(&self, py: Python<'_>, _gradients: &Bound<'_, PyAny>) {
        Purposes::run_node(self.purposes.bind(py), self.module);
    }
}

/// Called after a backward pass.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct PassEnd {
    purposes: Py<Purposes>,
    pass: i64,
    thread: ThreadId,
}

#[pymethods]
impl PassEnd {
    fn __call__(&self, py: Python<'_>) {
        self.purposes.bind(py).get().end_pass(py, self.pass, self.thread);
    }
}

impl PassEnd {
    pub(crate) fn new(purposes: &Bound<'_, Purposes>, pass: i64, thread: ThreadId) -> Self {
        Self { purposes: purposes.clone().unbind(), pass, thread }
    }
}

impl Purposes {
    /// Called when the program leaves `module` with `tensors`. Registers a hook on the last node that the module created,
    /// unless that node saved a tensor.
    pub(crate) fn watch_last_node(slf: &Bound<'_, Self>, module: ModuleId, tensors: &Bound<'_, PyAny>) {
        let this = slf.get();
        let next = this.functions.next_node(slf.py());
        let (is_known, follows_its_own) = this.with_thread(|thread| {
            let is_known = next <= thread.looked_at || thread.saved.0.wrapping_add(1) == next;
            thread.looked_at = next;
            (is_known, thread.saved == (next.saturating_sub(2), module))
        });
        if is_known {
            return;
        }
        let Some(node) = this.node_of(tensors, next - 1, 2) else { return };
        // The view that a layer makes of its result allocates nothing in backward.
        let is_view = || node.get_type().name().is_ok_and(|name| name.to_string().contains("ViewBackward"));
        if follows_its_own && is_view() {
            return;
        }
        let hook = NodeHook { purposes: slf.clone().unbind(), module };
        // If the registration fails, the node counts for the module of the previous node.
        let _ = node.call_method1(intern!(slf.py(), "register_prehook"), (hook,));
    }

    /// The node with this number, if it created one of `tensors`.
    fn node_of<'py>(
        &self,
        tensors: &Bound<'py, PyAny>,
        number: u64,
        depth: usize,
    ) -> Option<Bound<'py, PyAny>> {
        let py = tensors.py();
        if self.types.is_tensor(tensors) {
            let node = tensors.getattr(intern!(py, "grad_fn")).ok()?;
            if node.is_none() {
                return None;
            }
            let its_number: u64 = node.call_method0(intern!(py, "_sequence_nr")).ok()?.extract().ok()?;
            return (its_number == number).then_some(node);
        }
        let mut found: Option<Py<PyAny>> = None;
        if depth > 0 {
            tensors::each_inside(tensors, |inner| {
                if found.is_none() {
                    found = self.node_of(inner, number, depth - 1).map(Bound::unbind);
                }
            });
        }
        found.map(|node| node.into_bound(py))
    }
}
