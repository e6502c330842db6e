//! What each allocation of a PyTorch program is for, told by hooks.
//!
//! A hook notes that a tensor at an address has a role now, or that the program is in another module now ([`log`]). When the
//! recording is written, PyTorch's history says which allocation had that address at that time ([`join`]). Hooks run some
//! thousand times a step, so each of them is native from end to end, and never raises.

mod clock;
mod join;
mod log;
mod modules;
mod tensors;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefReference};

use clock::Moment;
use log::{Log, Phase, Role};
use modules::{ModuleId, Modules};
use tensors::Types;

/// What the hooks of one recording know. Python is never called while it is locked.
struct State {
    log: Log,
    modules: Modules,
    /// A module that no path leads to was entered: the model has changed since its paths were asked for.
    has_strangers: bool,
}

/// What a thread is in.
struct ThreadState {
    recording: u64,
    stack: Vec<(usize, ModuleId)>,
    module: ModuleId,
}

thread_local! {
    static THREAD: RefCell<ThreadState> = const { RefCell::new(ThreadState { recording: 0, stack: Vec::new(), module: ModuleId::NONE }) };
}

static RECORDINGS: AtomicU64 = AtomicU64::new(0);

/// The hooks of one recording; `python/vramscope/torch/_hooks.py` hands them to PyTorch.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct Purposes {
    recording: u64,
    begin: Moment,
    state: Mutex<State>,
    is_on: AtomicBool,
    is_in_backward: AtomicBool,
    types: Types,
    /// Has a function called when a backward pass ends; PyTorch's own.
    queue_callback: Py<PyAny>,
}

#[pymethods]
impl Purposes {
    /// Hooks that keep at most `capacity` notes of each kind.
    #[new]
    fn new(torch: &Bound<'_, PyAny>, capacity: usize) -> PyResult<Self> {
        let py = torch.py();
        Ok(Self {
            recording: RECORDINGS.fetch_add(1, Ordering::Relaxed) + 1,
            begin: Moment::now(),
            state: Mutex::new(State {
                log: Log::new(capacity),
                modules: Modules::default(),
                has_strangers: false,
            }),
            is_on: AtomicBool::new(true),
            is_in_backward: AtomicBool::new(false),
            types: Types::of(torch)?,
            queue_callback: torch
                .getattr(intern!(py, "autograd"))?
                .getattr(intern!(py, "Variable"))?
                .getattr(intern!(py, "_execution_engine"))?
                .getattr(intern!(py, "queue_callback"))?
                .unbind(),
        })
    }

    /// From now on nothing is noted, though PyTorch may still call.
    fn stop(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Learns the paths of a model that the program names, and where its parameters and buffers are.
    fn add_model(slf: &Bound<'_, Self>, model: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::discover(slf, model, true)?;
        slf.get().tag_parameters(slf.py());
        Ok(())
    }

    /// Learns where the parameters and the state of an optimizer are.
    fn add_optimizer(&self, optimizer: &Bound<'_, PyAny>) {
        self.tag_optimizer(optimizer, true);
        self.tag_state(optimizer);
    }

    /// Notes the gradients that there are.
    fn note_gradients(&self, py: Python<'_>) {
        self.tag_gradients(py);
    }

    /// Before a module's forward.
    #[pyo3(signature = (module, args, /))]
    fn enter(slf: &Bound<'_, Self>, module: &Bound<'_, PyAny>, args: &Bound<'_, PyAny>) {
        let this = slf.get();
        if !this.is_on() {
            return;
        }
        let object = module.as_ptr() as usize;
        let is_outermost = this.with_thread(|thread| {
            // A model does not call itself: what is said to be open was left by an exception that no hook sees.
            if thread.stack.first().is_some_and(|first| first.0 == object) {
                thread.stack.clear();
            }
            thread.stack.is_empty()
        });
        let known = this.state().modules.id(object);
        let id = match known {
            Some(id) if !is_outermost || !this.state().modules.is_root(id) => id,
            None if !is_outermost => this.add_stranger(slf, module),
            _ => {
                // Errors are the model's own, of a module that cannot say what it holds.
                let _ = this.enter_root(slf, module, known.is_none(), args);
                this.state().modules.id(object).unwrap_or_default()
            }
        };
        this.with_thread(|thread| {
            thread.stack.push((object, id));
            this.switch(thread, id, this.phase());
        });
    }

    /// After a module's forward, also where it raised.
    #[pyo3(signature = (module, _args, _output, /))]
    fn leave(&self, module: &Bound<'_, PyAny>, _args: &Bound<'_, PyAny>, _output: &Bound<'_, PyAny>) {
        if !self.is_on() {
            return;
        }
        let object = module.as_ptr() as usize;
        self.with_thread(|thread| {
            // An exception that is not an error leaves modules open.
            let Some(position) = thread.stack.iter().rposition(|open| open.0 == object) else { return };
            thread.stack.truncate(position);
            match thread.stack.last() {
                Some(&(_, id)) => self.switch(thread, id, self.phase()),
                None if self.is_in_backward.load(Ordering::Relaxed) => {
                    self.switch(thread, ModuleId::NONE, Phase::Backward);
                }
                None => self.switch(thread, ModuleId::NONE, Phase::Other),
            }
        });
    }

    /// A tensor is saved for backward. What autograd keeps is not the tensor itself, which may hold the node that saves it.
    #[pyo3(signature = (tensor, /))]
    fn pack<'py>(&self, tensor: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let py = tensor.py();
        // A model has its parameters with or without a backward pass, and they are known.
        let is_parameter = self.types.is_parameter(&tensor);
        let is_leaf = is_parameter || tensor.getattr(intern!(py, "is_leaf"))?.is_truthy()?;
        let module = if self.is_on() {
            if !is_parameter {
                let address = self.types.address(&tensor);
                let role = if is_leaf { Role::SavedLeaf } else { Role::Saved };
                if let Some(address) = address {
                    self.state().log.tag(clock::now(), address, role, ModuleId::NONE);
                }
            }
            self.with_thread(|thread| thread.module)
        } else {
            ModuleId::NONE
        };
        // Tensors of inference mode have no version.
        let version = tensor.getattr(intern!(py, "_version")).unwrap_or_else(|_| py.None().into_bound(py));
        let tensor = if is_leaf { tensor } else { tensor.call_method0(intern!(py, "detach"))? };
        (tensor, version, module.number()).into_pyobject(py)
    }

    /// A tensor that was saved is needed in backward.
    #[pyo3(signature = (saved, /))]
    fn unpack(slf: &Bound<'_, Self>, saved: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let this = slf.get();
        let py = slf.py();
        let tensor = saved.get_item(0)?;
        let version = saved.get_item(1)?;
        if !version.is_none() {
            let now = tensor.getattr(intern!(py, "_version"))?;
            if !now.eq(&version)? {
                return Err(tensors::changed_in_place(&tensor, &now, &version));
            }
        }
        if this.is_on() {
            let module = ModuleId::of_number(saved.get_item(2)?.extract()?);
            if !this.is_in_backward.swap(true, Ordering::Relaxed) {
                let ended = slf.getattr(intern!(py, "end_backward"))?;
                if this.queue_callback.bind(py).call1((ended,)).is_err() {
                    // Not in a backward pass: the program looks at a node by itself.
                    this.is_in_backward.store(false, Ordering::Relaxed);
                    return Ok(tensor.unbind());
                }
                this.with_thread(|thread| this.switch(thread, module, Phase::Backward));
            } else {
                this.with_thread(|thread| {
                    if thread.module != module {
                        this.switch(thread, module, Phase::Backward);
                    }
                });
            }
        }
        Ok(tensor.unbind())
    }

    /// A backward pass has ended: its gradients are in place.
    fn end_backward(&self, py: Python<'_>) {
        self.is_in_backward.store(false, Ordering::Relaxed);
        if self.is_on() {
            self.with_thread(|thread| self.switch(thread, ModuleId::NONE, Phase::Other));
            self.tag_gradients(py);
        }
    }

    /// Before an optimizer's step.
    #[pyo3(signature = (optimizer, _args, _kwargs, /))]
    fn before_step(
        &self,
        optimizer: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyAny>,
        _kwargs: &Bound<'_, PyAny>,
    ) {
        if self.is_on() {
            self.is_in_backward.store(false, Ordering::Relaxed);
            self.tag_optimizer(optimizer, false);
            self.with_thread(|thread| self.switch(thread, ModuleId::NONE, Phase::Optimizer));
        }
    }

    /// After an optimizer's step.
    #[pyo3(signature = (optimizer, _args, _kwargs, /))]
    fn after_step(&self, optimizer: &Bound<'_, PyAny>, _args: &Bound<'_, PyAny>, _kwargs: &Bound<'_, PyAny>) {
        if self.is_on() {
            self.with_thread(|thread| self.switch(thread, ModuleId::NONE, Phase::Other));
            self.tag_state(optimizer);
        }
    }

    /// A module is gone.
    #[pyo3(signature = (reference, /))]
    fn forget(&self, reference: &Bound<'_, PyAny>) {
        let gone = self.state().modules.forget(reference.as_ptr() as usize);
        drop(gone);
    }

    /// Writes into a snapshot of PyTorch's what each of its allocations is for.
    fn write_into(&self, snapshot: &Bound<'_, PyAny>) -> PyResult<()> {
        let line = clock::Line::through(self.begin, Moment::now());
        let (tags, switches, complete_since) = {
            let state = self.state();
            (state.log.tags(), state.log.switches(), state.log.complete_since)
        };
        let notes = join::Notes::new(&tags, &switches, complete_since, &line);
        join::write(snapshot, &notes, |id| self.state().modules.path(id).map(str::to_owned))
    }
}

impl Purposes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn phase(&self) -> Phase {
        if self.is_in_backward.load(Ordering::Relaxed) { Phase::Backward } else { Phase::Forward }
    }

    fn with_thread<R>(&self, then: impl FnOnce(&mut ThreadState) -> R) -> R {
        THREAD.with_borrow_mut(|thread| {
            if thread.recording != self.recording {
                *thread =
                    ThreadState { recording: self.recording, stack: Vec::new(), module: ModuleId::NONE };
            }
            then(thread)
        })
    }

    fn switch(&self, thread: &mut ThreadState, module: ModuleId, phase: Phase) {
        thread.module = module;
        self.state().log.switch(module, phase);
    }

    /// Asks a model for its modules.
    fn discover(slf: &Bound<'_, Self>, model: &Bound<'_, PyAny>, is_given: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let forget = slf.getattr(intern!(py, "forget"))?;
        let mut owned = Vec::new();
        for named in model.call_method0(intern!(py, "named_modules"))?.try_iter()? {
            let named = named?;
            let path: String = named.get_item(0)?.extract()?;
            let module = named.get_item(1)?;
            let reference = PyWeakrefReference::new_with(&module, &forget)?.unbind();
            let (known, id) = {
                let mut state = this.state();
                let object = module.as_ptr() as usize;
                (state.modules.add(object, &path, is_given, reference), state.modules.id(object))
            };
            drop(known);
            tensors::each_of(&module, intern!(py, "_parameters"), |parameter| {
                owned.push((parameter.as_ptr() as usize, id.unwrap_or_default()));
            });
        }
        let mut state = this.state();
        for (parameter, id) in owned {
            state.modules.owner_or(parameter, id);
        }
        Ok(())
    }

    /// A model is called: whatever lies in it may have been moved, and what it is called with are its inputs.
    fn enter_root(
        &self,
        slf: &Bound<'_, Self>,
        module: &Bound<'_, PyAny>,
        is_new: bool,
        args: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let had_strangers = std::mem::take(&mut self.state().has_strangers);
        self.is_in_backward.store(false, Ordering::Relaxed);
        if is_new || had_strangers {
            Self::discover(slf, module, false)?;
        }
        self.tag_parameters(slf.py());
        if let Ok(args) = args.cast::<PyTuple>() {
            for argument in args.iter() {
                self.tag_inputs(&argument, 3);
            }
        }
        Ok(())
    }

    /// A module inside of a model that its paths do not name: it counts as the one that calls it.
    fn add_stranger(&self, slf: &Bound<'_, Self>, module: &Bound<'_, PyAny>) -> ModuleId {
        let id = self.with_thread(|thread| thread.module);
        let reference = slf
            .getattr(intern!(slf.py(), "forget"))
            .and_then(|forget| PyWeakrefReference::new_with(module, &forget));
        if let Ok(reference) = reference {
            let mut state = self.state();
            state.has_strangers = true;
            let known = state.modules.add_as(module.as_ptr() as usize, id, reference.unbind());
            drop(state);
            drop(known);
        }
        id
    }

    /// Tensors in what a model is called with, also in lists and dictionaries.
    fn tag_inputs(&self, argument: &Bound<'_, PyAny>, depth: usize) {
        if self.types.is_tensor(argument) {
            if let Some(address) = self.types.address(argument) {
                self.state().log.tag(clock::now(), address, Role::Input, ModuleId::NONE);
            }
        } else if depth > 0 {
            tensors::each_inside(argument, |inner| self.tag_inputs(inner, depth - 1));
        }
    }

    /// Where the parameters and buffers of all known modules are.
    fn tag_parameters(&self, py: Python<'_>) {
        let references = self.state().modules.references(py);
        let mut found = Vec::with_capacity(references.len() * 2);
        for (id, reference) in &references {
            let Some(module) = reference.bind(py).upgrade() else { continue };
            tensors::each_of(&module, intern!(py, "_parameters"), |parameter| {
                found.push((
                    self.types.address(parameter),
                    parameter.as_ptr() as usize,
                    Role::Parameter,
                    *id,
                ));
            });
            tensors::each_of(&module, intern!(py, "_buffers"), |buffer| {
                found.push((self.types.address(buffer), buffer.as_ptr() as usize, Role::Buffer, *id));
            });
        }
        let time = clock::now();
        let mut state = self.state();
        for (address, object, role, id) in found {
            let Some(address) = address else { continue };
            let owner = if role == Role::Parameter { state.modules.owner_or(object, id) } else { id };
            state.log.tag_steady(time, address, role, owner);
        }
    }

    /// Where the gradients of all known modules are.
    fn tag_gradients(&self, py: Python<'_>) {
        let references = self.state().modules.references(py);
        let mut found = Vec::with_capacity(references.len());
        for (_, reference) in &references {
            let Some(module) = reference.bind(py).upgrade() else { continue };
            tensors::each_of(&module, intern!(py, "_parameters"), |parameter| {
                if let Some(address) = self.types.gradient(parameter) {
                    found.push((address, parameter.as_ptr() as usize));
                }
            });
        }
        self.note_gradients_at(&found);
    }

    fn note_gradients_at(&self, found: &[(u64, usize)]) {
        let time = clock::now();
        let mut state = self.state();
        for &(address, parameter) in found {
            let owner = state.modules.owner(parameter);
            state.log.tag(time, address, Role::Gradient, owner);
        }
    }

    /// Where what an optimizer works on is: gradients, and at the first sight parameters.
    fn tag_optimizer(&self, optimizer: &Bound<'_, PyAny>, with_parameters: bool) {
        let mut gradients = Vec::new();
        let mut parameters = Vec::new();
        tensors::each_parameter(optimizer, |parameter| {
            if let Some(address) = self.types.gradient(parameter) {
                gradients.push((address, parameter.as_ptr() as usize));
            }
            if with_parameters && let Some(address) = self.types.address(parameter) {
                parameters.push((address, parameter.as_ptr() as usize));
            }
        });
        self.note_gradients_at(&gradients);
        let time = clock::now();
        let mut state = self.state();
        for (address, parameter) in parameters {
            let owner = state.modules.owner(parameter);
            state.log.tag_steady(time, address, Role::Parameter, owner);
        }
    }

    /// Where an optimizer's state is.
    fn tag_state(&self, optimizer: &Bound<'_, PyAny>) {
        let py = optimizer.py();
        let Ok(all) = optimizer.getattr(intern!(py, "state")) else { return };
        let Ok(all) = all.cast::<PyDict>() else { return };
        let mut found = Vec::with_capacity(all.len() * 2);
        for (parameter, states) in all.iter() {
            let Ok(states) = states.cast::<PyDict>() else { continue };
            for (_, state) in states.iter() {
                if self.types.is_tensor(&state)
                    && let Some(address) = self.types.address(&state)
                {
                    found.push((address, parameter.as_ptr() as usize));
                }
            }
        }
        let time = clock::now();
        let mut state = self.state();
        for (address, parameter) in found {
            let owner = state.modules.owner(parameter);
            state.log.tag_steady(time, address, Role::OptimizerState, owner);
        }
    }
}
