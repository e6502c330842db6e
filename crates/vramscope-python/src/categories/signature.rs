//! A hash of a model's arguments: equal calls have equal hashes.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::Purposes;
use super::tensors;

/// The maximum nesting depth of hashed lists and dictionaries.
const DEPTH: usize = 3;

impl Purposes {
    /// The hash of a call: the module, its arguments (tensors by shape and type, plain values by value, others by type), and
    /// the modes that decide which tensors autograd saves.
    pub(crate) fn signature(
        &self,
        module: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> PyResult<u64> {
        let py = module.py();
        let mut hasher = DefaultHasher::new();
        module.as_ptr().hash(&mut hasher);
        module.getattr(intern!(py, "training"))?.is_truthy()?.hash(&mut hasher);
        self.functions.modes(py)?.hash(&mut hasher);
        self.hash_into(&mut hasher, args.as_any(), DEPTH)?;
        self.hash_into(&mut hasher, kwargs.as_any(), DEPTH)?;
        Ok(hasher.finish())
    }

    fn hash_into(
        &self,
        hasher: &mut DefaultHasher,
        argument: &Bound<'_, PyAny>,
        depth: usize,
    ) -> PyResult<()> {
        let py = argument.py();
        argument.get_type_ptr().hash(hasher);
        if self.types.is_tensor(argument) {
            argument.getattr(intern!(py, "shape"))?.hash()?.hash(hasher);
            argument.getattr(intern!(py, "dtype"))?.as_ptr().hash(hasher);
            argument.getattr(intern!(py, "requires_grad"))?.is_truthy()?.hash(hasher);
        } else if argument.is_none()
            || argument.is_instance_of::<PyBool>()
            || argument.is_instance_of::<PyInt>()
            || argument.is_instance_of::<PyFloat>()
            || argument.is_instance_of::<PyString>()
        {
            argument.hash()?.hash(hasher);
        } else if depth > 0 {
            if argument.is_instance_of::<PyTuple>()
                || argument.is_instance_of::<PyList>()
                || argument.is_instance_of::<PyDict>()
            {
                argument.len()?.hash(hasher);
            }
            if let Ok(named) = argument.cast::<PyDict>() {
                for name in named.keys() {
                    self.hash_into(hasher, &name, 0)?;
                }
            }
            let mut outcome = Ok(());
            tensors::each_inside(argument, |inner| {
                if outcome.is_ok() {
                    outcome = self.hash_into(hasher, inner, depth - 1);
                }
            });
            outcome?;
        }
        Ok(())
    }
}
