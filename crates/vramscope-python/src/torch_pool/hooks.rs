//! Hooks written in Python on the pool: `with hook:` of `vramscope.MemoryHook`.

use std::panic::resume_unwind;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use vramscope::allocator::MemoryPool;
use vramscope::allocator::hooks::{
    AllocPostprocess, AllocPreprocess, BoxedError, Free, HookGuard, MallocPostprocess, MallocPreprocess,
    MemoryHook,
};

/// The exception of a callback that runs after a request. The request then ends as by a panic, so that its block is freed.
pub(super) struct Raised(pub(super) String);

/// A hook written in Python. Its callbacks run on the thread of the request, which waits for Python's lock.
pub(super) struct PythonHook {
    name: String,
    hook: Py<PyAny>,
}

impl PythonHook {
    pub(super) fn new(hook: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = hook.getattr(intern!(hook.py(), "name"))?.extract()?;
        Ok(Self { name, hook: hook.clone().unbind() })
    }

    /// Calls a callback with these keyword arguments, if the hook has it, and then `end` with the result. Returns the result of `end`.
    ///
    /// A tensor may be freed while an exception passes through the program; that exception stays. Nothing is called while Python ends.
    fn call<T>(
        &self,
        callback: &str,
        arguments: &[(&str, u64)],
        device: i32,
        end: impl FnOnce(Python<'_>, PyResult<()>) -> T,
    ) -> Option<T> {
        Python::try_attach(|py| {
            let pending = PyErr::take(py);
            let found = self.hook.bind(py).getattr_opt(PyString::intern(py, callback));
            let called = found.and_then(|found| {
                let Some(found) = found else { return Ok(()) };
                let named = PyDict::new(py);
                named.set_item(intern!(py, "device_id"), device)?;
                arguments.iter().try_for_each(|&(name, value)| named.set_item(name, value))?;
                found.call((), Some(&named)).map(drop)
            });
            let ended = end(py, called);
            if let Some(pending) = pending {
                pending.restore(py);
            }
            ended
        })
    }

    /// Runs a callback before memory is allocated. Its exception refuses the request.
    fn before(&self, callback: &str, arguments: &[(&str, u64)], device: i32) -> Result<(), BoxedError> {
        let called =
            self.call(callback, arguments, device, |_, called| called.map_err(|error| error.to_string()));
        called.unwrap_or(Ok(())).map_err(Into::into)
    }

    /// Runs a callback after memory was allocated. Its exception replaces the result.
    fn after(&self, callback: &str, arguments: &[(&str, u64)], device: i32) {
        let called =
            self.call(callback, arguments, device, |_, called| called.map_err(|error| error.to_string()));
        if let Some(Err(why)) = called {
            // Unlike a panic, this prints nothing.
            resume_unwind(Box::new(Raised(format!(
                "vramscope's pool: memory hook {} raised: {why}",
                self.name
            ))));
        }
    }

    /// Runs a callback around a free. PyTorch and CuPy free in destructors, so Python reports the exception and the program goes on.
    fn around_free(&self, callback: &str, &Free { device_id, mem_size, mem_ptr, pmem_id }: &Free) {
        let arguments = [("mem_size", mem_size), ("mem_ptr", mem_ptr), ("pmem_id", pmem_id)];
        self.call(callback, &arguments, device_id, |py, called| {
            if let Err(error) = called {
                error.write_unraisable(py, Some(self.hook.bind(py)));
            }
        });
    }
}

impl MemoryHook for PythonHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn alloc_preprocess(
        &self,
        &AllocPreprocess { device_id, mem_size }: &AllocPreprocess,
    ) -> Result<(), BoxedError> {
        self.before("alloc_preprocess", &[("mem_size", mem_size)], device_id)
    }

    fn alloc_postprocess(&self, &AllocPostprocess { device_id, mem_size, mem_ptr }: &AllocPostprocess) {
        self.after("alloc_postprocess", &[("mem_size", mem_size), ("mem_ptr", mem_ptr)], device_id);
    }

    fn malloc_preprocess(&self, event: &MallocPreprocess) -> Result<(), BoxedError> {
        let &MallocPreprocess { device_id, size, mem_size } = event;
        self.before("malloc_preprocess", &[("size", size), ("mem_size", mem_size)], device_id)
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        let &MallocPostprocess { device_id, size, mem_size, mem_ptr, pmem_id } = event;
        let arguments = [("size", size), ("mem_size", mem_size), ("mem_ptr", mem_ptr), ("pmem_id", pmem_id)];
        self.after("malloc_postprocess", &arguments, device_id);
    }

    fn free_preprocess(&self, event: &Free) {
        self.around_free("free_preprocess", event);
    }

    fn free_postprocess(&self, event: &Free) {
        self.around_free("free_postprocess", event);
    }
}

/// The registered hooks, in the order of their registration.
#[derive(Default)]
pub(super) struct PoolHooks(Vec<Registered>);

/// A hook, and its registration in each part.
pub(super) struct Registered {
    hook: Arc<PythonHook>,
    /// One for each part of the program.
    guards: Vec<HookGuard>,
}

impl PoolHooks {
    /// Registers a hook in all parts, for all threads. Raises `KeyError` if there is a hook of this name, as CuPy does.
    pub(super) fn add<'p>(
        &mut self,
        hook: PythonHook,
        parts: impl Iterator<Item = &'p MemoryPool>,
    ) -> PyResult<()> {
        if self.0.iter().any(|registered| registered.hook.name == hook.name) {
            return Err(PyKeyError::new_err(format!("memory hook {} already exists", hook.name)));
        }
        let mut registered = Registered { hook: Arc::new(hook), guards: Vec::new() };
        parts.for_each(|pool| registered.extend_to(pool));
        self.0.push(registered);
        Ok(())
    }

    /// Registers all hooks in another part.
    pub(super) fn extend_to(&mut self, pool: &MemoryPool) {
        self.0.iter_mut().for_each(|registered| registered.extend_to(pool));
    }

    /// Removes the hook of this name. Returns it, so that it is dropped without a lock; `None` if there is none.
    pub(super) fn remove(&mut self, name: &str) -> Option<Registered> {
        let position = self.0.iter().position(|registered| registered.hook.name == name)?;
        Some(self.0.remove(position))
    }
}

impl Registered {
    fn extend_to(&mut self, pool: &MemoryPool) {
        // A part that has the hook already needs no second registration.
        self.guards.extend(pool.register_hook(Arc::clone(&self.hook) as Arc<dyn MemoryHook>).ok());
    }
}
