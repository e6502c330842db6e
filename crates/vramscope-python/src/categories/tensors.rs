//! Properties of tensors.

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

/// PyTorch's own tensor types.
pub(crate) struct Types {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
}

impl Types {
    pub(crate) fn of(torch: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = torch.py();
        let parameter = torch.getattr(intern!(py, "nn"))?.getattr(intern!(py, "Parameter"))?;
        Ok(Self {
            tensor: torch.getattr(intern!(py, "Tensor"))?.cast_into::<PyType>()?.unbind(),
            parameter: parameter.cast_into::<PyType>()?.unbind(),
        })
    }

    pub(crate) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_plain(object) || object.is_instance(self.tensor.bind(object.py())).unwrap_or(false)
    }

    /// Whether the object is a plain parameter.
    pub(crate) fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type_ptr().cast() == self.parameter.as_ptr()
    }

    fn is_plain(&self, object: &Bound<'_, PyAny>) -> bool {
        let kind = object.get_type_ptr().cast();
        kind == self.tensor.as_ptr() || kind == self.parameter.as_ptr()
    }

    /// The address of a tensor's data. None if it has no memory of its own, as sparse and fake tensors.
    pub(crate) fn address(&self, tensor: &Bound<'_, PyAny>) -> Option<u64> {
        let py = tensor.py();
        if !self.is_plain(tensor) {
            // A tensor distributed over several GPUs has its local part here.
            if let Some(local) = tensor.getattr_opt(intern!(py, "_local_tensor")).ok().flatten() {
                return if local.is(tensor) { None } else { self.address(&local) };
            }
        }
        let address = tensor.call_method0(intern!(py, "data_ptr")).ok()?.extract().ok()?;
        (address != 0).then_some(address)
    }

    /// The address of a parameter's gradient.
    pub(crate) fn gradient(&self, parameter: &Bound<'_, PyAny>) -> Option<u64> {
        let gradient = parameter.getattr(intern!(parameter.py(), "grad")).ok()?;
        if gradient.is_none() { None } else { self.address(&gradient) }
    }
}

/// Calls `then` for every value except `None` in a module's dictionary with this name.
pub(crate) fn each_of(
    module: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    mut then: impl FnMut(&Bound<'_, PyAny>),
) {
    let Ok(all) = module.getattr(name) else { return };
    let Ok(all) = all.cast::<PyDict>() else { return };
    for (_, value) in all.iter() {
        if !value.is_none() {
            then(&value);
        }
    }
}

/// Calls `then` for every value of a tuple, a list or a dictionary.
pub(crate) fn each_inside(container: &Bound<'_, PyAny>, mut then: impl FnMut(&Bound<'_, PyAny>)) {
    if let Ok(items) = container.cast::<PyTuple>() {
        items.iter().for_each(|item| then(&item));
    } else if let Ok(items) = container.cast::<PyList>() {
        items.iter().for_each(|item| then(&item));
    } else if let Ok(items) = container.cast::<PyDict>() {
        items.iter().for_each(|(_, item)| then(&item));
    }
}

/// Calls `then` for every parameter of an optimizer.
pub(crate) fn each_parameter(optimizer: &Bound<'_, PyAny>, mut then: impl FnMut(&Bound<'_, PyAny>)) {
    let py = optimizer.py();
    let Ok(groups) = optimizer.getattr(intern!(py, "param_groups")) else { return };
    each_inside(&groups, |group| {
        if let Ok(parameters) = group.get_item(intern!(py, "params")) {
            each_inside(&parameters, &mut then);
        }
    });
}

/// PyTorch's error for a tensor that was changed after it was saved.
pub(crate) fn changed_in_place(
    tensor: &Bound<'_, PyAny>,
    now: &Bound<'_, PyAny>,
    expected: &Bound<'_, PyAny>,
) -> PyErr {
    let describe = || -> PyResult<String> {
        let kind: String = tensor.call_method0("type")?.extract()?;
        let shape: Vec<u64> = tensor.getattr("shape")?.extract()?;
        let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
        Ok(format!("[{kind} [{}]]", shape.join(", ")))
    };
    match describe() {
        Ok(what) => PyRuntimeError::new_err(format!(
            "one of the variables needed for gradient computation has been modified by an inplace operation: {what} is at \
             version {now}; expected version {expected} instead. Hint: enable anomaly detection to find the operation that \
             failed to compute its gradient, with torch.autograd.set_detect_anomaly(True)."
        )),
        Err(error) => error,
    }
}
