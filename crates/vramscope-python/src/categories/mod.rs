//! Records the category of each allocation of a PyTorch program, with hooks.
//!
//! A hook records that a tensor at an address has a role, or that the program entered a module ([`log`]). When the recording is
//! written, PyTorch's history supplies the allocation at that address and time ([`join`]). Hooks run thousands of times per
//! step, so each is fully native and never raises. They rest in steps that repeat earlier ones ([`steps`]).

mod allocation;
mod backward;
mod clock;
mod examples;
mod frames;
mod functions;
mod head;
mod join;
mod log;
mod modules;
mod recorder;
mod roles;
mod signature;
mod steps;
mod tensors;
mod threads;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyWeakrefReference};
use vramscope_basics::lock;

use backward::PassEnd;
use clock::Moment;
use functions::Functions;
use head::{Call, Head};
use log::{Log, Marking, Phase, Role};
use modules::{ModuleId, Modules};
use recorder::Recorder;
use steps::{Counts, Steps};
use tensors::Types;
use threads::{Thread, ThreadId};

/// The hooks' state for one recording. No Python code runs while it is locked.
struct State {
    log: Log,
    modules: Modules,
    steps: Steps,
    head: Head,
    /// A module without a path was entered: the model changed after its paths were collected.
    has_strangers: bool,
}

static RECORDINGS: AtomicU64 = AtomicU64::new(0);

/// The hooks of one recording. `python/vramscope/torch/_hooks.py` registers them with PyTorch.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct Purposes {
    recording: u64,
    begin: Moment,
    state: Mutex<State>,
    is_on: AtomicBool,
    /// Whether hooks rest until the next step.
    is_resting: AtomicBool,
    /// Backward passes up to this number ended or failed.
    ended_pass: AtomicI64,
    /// The number of the newest backward pass.
    newest_pass: AtomicI64,
    types: Types,
    functions: Functions,
    /// Installs the saved-tensor hooks on a thread, and removes them (`python/vramscope/torch/_saved_tensors.py`).
    lend: Py<PyAny>,
    take_back: Py<PyAny>,
}

#[pymethods]
impl Purposes {
    /// Hooks for a PyTorch history that keeps `entries` events, or for a log, whose recorder has functions at these addresses.
    #[new]
    #[pyo3(signature = (torch, entries, lend, take_back, recorder=None))]
    fn new(
        torch: &Bound<'_, PyAny>,
        entries: usize,
        lend: Py<PyAny>,
        take_back: Py<PyAny>,
        recorder: Option<[usize; 3]>,
    ) -> PyResult<Self> {
        Ok(Self {
            recording: RECORDINGS.fetch_add(1, Ordering::Relaxed) + 1,
            begin: Moment::now(),
            state: Mutex::new(State {
                log: Log::new(entries.saturating_mul(2).max(100_000), recorder.and_then(Recorder::at)),
                modules: Modules::default(),
                steps: Steps::new(entries),
                head: Head::default(),
                has_strangers: false,
            }),
            is_on: AtomicBool::new(true),
            is_resting: AtomicBool::new(false),
            ended_pass: AtomicI64::new(-1),
            newest_pass: AtomicI64::new(-1),
            types: Types::of(torch)?,
            functions: Functions::of(torch)?,
            lend,
            take_back,
        })
    }

    /// Stops recording, even if PyTorch still calls the hooks.
    fn stop(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Records the module paths of a model that the program passes, and the addresses of its parameters and buffers.
    fn add_model(slf: &Bound<'_, Self>, model: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::discover(slf, model, true)?;
        slf.get().tag_parameters(slf.py());
        Ok(())
    }

    /// Records the addresses of an optimizer's parameters and state.
    fn add_optimizer(&self, optimizer: &Bound<'_, PyAny>) {
        self.tag_optimizer(optimizer, true);
        self.tag_state(optimizer);
    }

    /// Records the existing gradients.
    fn note_gradients(&self, py: Python<'_>) {
        self.tag_gradients(py);
    }

    /// Called before a module's forward. Returns whether `leave` must be called after it.
    #[pyo3(signature = (module, args, kwargs, /))]
    fn enter(
        slf: &Bound<'_, Self>,
        module: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> bool {
        let this = slf.get();
        if !this.is_on() {
            return false;
        }
        let object = module.as_ptr() as usize;
        let (is_outermost, caller) = this.with_thread(|thread| {
            // A model does not call itself, so an earlier exception left these entries open.
            if thread.stack.first().is_some_and(|first| first.0 == object) {
                thread.stack.clear();
            }
            (thread.stack.is_empty(), thread.module)
        });
        if !is_outermost && this.is_resting() {
            return false;
        }
        let py = slf.py();
        let phase = this.phase(py);
        // A forward inside a backward pass repeats part of a forward pass that was already seen.
        let is_call_of_model = is_outermost && phase == Phase::Forward;
        if is_call_of_model {
            this.tag_inputs(args.as_any());
            this.tag_inputs(kwargs.as_any());
            this.begin_step(module, args, kwargs);
        }
        if this.is_resting() {
            if is_call_of_model {
                this.with_thread(|thread| thread.stack.push((object, ModuleId::NONE)));
            }
            return is_call_of_model;
        }
        if is_outermost {
            this.lend_hooks(py, phase);
        }
        Self::watch_last_node(slf, caller, args.as_any());
        let known = this.state().modules.id(object);
        let id = match known {
            Some(id) if !is_call_of_model || !this.state().modules.is_root(id) => id,
            None if !is_call_of_model => this.add_stranger(slf, module),
            _ => {
                // Errors of a module that cannot list its contents are the model's own.
                let _ = Self::enter_root(slf, module, known.is_none());
                this.state().modules.id(object).unwrap_or_default()
            }
        };
        this.with_thread(|thread| thread.stack.push((object, id)));
        this.go(py, id, phase);
        true
    }

    /// Called after a module's forward; `output` is None if it raised.
    #[pyo3(signature = (module, output, /))]
    fn leave(slf: &Bound<'_, Self>, module: &Bound<'_, PyAny>, output: &Bound<'_, PyAny>) {
        let this = slf.get();
        if !this.is_on() {
            return;
        }
        let py = slf.py();
        let object = module.as_ptr() as usize;
        // An exception may leave inner modules open.
        let left = this.with_thread(|thread| {
            let position = thread.stack.iter().rposition(|open| open.0 == object)?;
            thread.stack.get(position).map(|&(_, id)| (position, id))
        });
        let Some((position, id)) = left else { return };
        if this.is_resting() {
            this.with_thread(|thread| thread.stack.truncate(position));
            return;
        }
        Self::watch_last_node(slf, id, output);
        let caller = this.with_thread(|thread| {
            thread.stack.truncate(position);
            thread.stack.last().map(|&(_, id)| id)
        });
        match caller {
            Some(id) => this.go(py, id, this.phase(py)),
            None => {
                this.go_back(py);
                this.take_back_hooks(py);
            }
        }
    }

    /// Called when a tensor is saved for backward. Returns a detached tensor, because the tensor itself may hold the node that
    /// saves it.
    #[pyo3(signature = (tensor, /))]
    fn pack<'py>(&self, tensor: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let py = tensor.py();
        // Parameters exist with or without a backward pass, and are already recorded.
        let is_parameter = self.types.is_parameter(&tensor);
        let is_leaf = is_parameter || tensor.getattr(intern!(py, "is_leaf"))?.is_truthy()?;
        let (node, module) = if self.is_watching() {
            if !is_parameter {
                let address = self.types.address(&tensor);
                let role = if is_leaf { Role::SavedLeaf } else { Role::Saved };
                if let Some(address) = address {
                    self.state().log.tag(clock::now(), address, role, ModuleId::NONE);
                }
            }
            let node = self.functions.next_node(py).saturating_sub(1);
            self.with_thread(|thread| {
                thread.saved = (node, thread.module);
                thread.saved
            })
        } else {
            (u64::MAX, ModuleId::NONE)
        };
        // Tensors of inference mode have no version.
        let version = tensor.getattr(intern!(py, "_version")).unwrap_or_else(|_| py.None().into_bound(py));
        let tensor = if is_leaf { tensor } else { tensor.call_method0(intern!(py, "detach"))? };
        (tensor, version, module.number(), node).into_pyobject(py)
    }

    /// Called when backward needs a saved tensor.
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
        if this.is_watching() {
            let module = ModuleId::of_number(saved.get_item(2)?.extract()?);
            // Activation checkpointing requests tensors that another node saved.
            let is_elsewhere = this.with_thread(|thread| thread.module != module);
            let node = if is_elsewhere { this.functions.running_node(py) } else { None };
            if node.is_none_or(|node| saved.get_item(3).is_ok_and(|saved| saved.eq(node).unwrap_or(true))) {
                Self::run_node(slf, module);
            }
        }
        Ok(tensor.unbind())
    }

    /// Called before an optimizer's step.
    #[pyo3(signature = (optimizer, _args, _kwargs, /))]
    fn before_step(
        &self,
        optimizer: &Bound<'_, PyAny>,
        _args: &Bound<'_, PyAny>,
        _kwargs: &Bound<'_, PyAny>,
    ) {
        if self.is_on() && self.state().head.optimize() && self.is_resting() {
            self.go_on(optimizer.py(), 0, None);
        }
        if self.is_watching() {
            self.tag_optimizer(optimizer, false);
            self.go(optimizer.py(), ModuleId::NONE, Phase::Optimizer);
        }
    }

    /// Called after an optimizer's step.
    #[pyo3(signature = (optimizer, _args, _kwargs, /))]
    fn after_step(&self, optimizer: &Bound<'_, PyAny>, _args: &Bound<'_, PyAny>, _kwargs: &Bound<'_, PyAny>) {
        if self.is_watching() {
            self.go_back(optimizer.py());
            self.tag_state(optimizer);
        }
    }

    /// The number of this thread's last node that saved a tensor.
    fn last_saved(&self) -> u64 {
        self.with_thread(|thread| thread.saved.0)
    }

    /// The number of steps in which the hooks rested.
    fn resting_steps(&self) -> usize {
        self.state().steps.all().iter().filter(|step| !step.is_watched).count()
    }

    /// Called when a module was destroyed.
    #[pyo3(signature = (reference, /))]
    fn forget(&self, reference: &Bound<'_, PyAny>) {
        let gone = self.state().modules.forget(reference.as_ptr() as usize);
        drop(gone);
    }

    /// Writes the category of each allocation into a PyTorch snapshot.
    fn write_into(&self, snapshot: &Bound<'_, PyAny>) -> PyResult<()> {
        let line = clock::Line::through(self.begin, Moment::now());
        let (tags, switches, steps, complete_since) = {
            let state = self.state();
            (state.log.tags(), state.log.switches(), state.steps.all(), state.log.complete_since)
        };
        let notes = join::Notes::new(&tags, &switches, &steps, complete_since, &line);
        frames::hide_ours(snapshot)?;
        join::write(snapshot, &notes, |id| self.state().modules.path(id).map(str::to_owned))
    }
}

impl Purposes {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Relaxed)
    }

    fn is_watching(&self) -> bool {
        self.is_on() && !self.is_resting()
    }

    /// The phase of a module that is called now.
    fn phase(&self, py: Python<'_>) -> Phase {
        if self.functions.pass(py).is_some() { Phase::Backward } else { Phase::Forward }
    }

    fn with_thread<R>(&self, then: impl FnOnce(&mut Thread) -> R) -> R {
        threads::with_thread(self.recording, then)
    }

    /// Records that this thread enters a module and phase.
    fn go(&self, py: Python<'_>, module: ModuleId, phase: Phase) {
        let (thread, was_marked) = self.with_thread(|thread| {
            thread.module = module;
            (thread.id, thread.is_marked)
        });
        let marking = self.state().log.switch(thread, module, phase);
        let is_marked = match marking {
            Marking::Marked => true,
            Marking::Wanted if was_marked || self.functions.replace_metadata(py, "", &thread.mark()) => {
                self.state().log.mark(thread);
                true
            }
            // If the mark is missing, the program replaced it with its own text.
            _ if was_marked => {
                self.functions.replace_metadata(py, &thread.mark(), "");
                false
            }
            _ => false,
        };
        if is_marked != was_marked {
            self.with_thread(|thread| thread.is_marked = is_marked);
        }
    }

    /// Records that this thread returns to the place before its current module or optimizer.
    fn go_back(&self, py: Python<'_>) {
        let (open, node) = self.with_thread(|thread| (thread.stack.last().map(|&(_, id)| id), thread.node));
        match (self.phase(py), open) {
            (Phase::Backward, None) => self.go(py, node, Phase::Backward),
            (phase, Some(id)) => self.go(py, id, phase),
            (_, None) => self.go(py, ModuleId::NONE, Phase::Other),
        }
    }

    /// Called when a node of this module runs in a backward pass.
    fn run_node(slf: &Bound<'_, Self>, module: ModuleId) {
        let this = slf.get();
        let py = slf.py();
        // Outside of backward passes, the program itself accessed a saved tensor.
        let Some(pass) = this.functions.pass(py).filter(|_| this.is_watching()) else { return };
        let ended = this.ended_pass.load(Ordering::Relaxed);
        let (thread, is_new, was_elsewhere) = this.with_thread(|thread| {
            // A nested pass ends before the outer one.
            let is_new = thread.pass <= ended;
            if is_new {
                thread.pass = pass;
            }
            thread.node = module;
            (thread.id, is_new, thread.module != module)
        });
        if is_new {
            this.newest_pass.fetch_max(pass, Ordering::Relaxed);
            if let Ok(end) = Bound::new(py, PassEnd::new(slf, pass, thread)) {
                let _ = this.functions.at_end_of_pass(end.as_any());
            }
        }
        if is_new || was_elsewhere {
            this.go(py, module, Phase::Backward);
        }
    }

    /// Called after a backward pass: its gradients exist now.
    fn end_pass(&self, py: Python<'_>, pass: i64, thread: ThreadId) {
        self.ended_pass.fetch_max(pass, Ordering::Relaxed);
        if !self.is_watching() {
            return;
        }
        if self.with_thread(|this| this.id == thread) {
            self.go(py, ModuleId::NONE, Phase::Other);
        } else {
            self.state().log.switch(thread, ModuleId::NONE, Phase::Other);
        }
        self.tag_gradients(py);
    }

    /// Installs the saved-tensor hooks on a thread that enters a model, until it leaves the model.
    fn lend_hooks(&self, py: Python<'_>, phase: Phase) {
        if self.with_thread(|thread| std::mem::take(&mut thread.has_resting_hooks)) {
            let _ = self.lend.bind(py).call0();
        }
        // A backward pass uses the hooks of the thread that started it.
        if phase == Phase::Forward && !self.with_thread(|thread| thread.has_lent_hooks) {
            let has_lent = self.lend.bind(py).call0().is_ok_and(|lent| lent.is_truthy().unwrap_or(false));
            self.with_thread(|thread| thread.has_lent_hooks = has_lent);
        }
    }

    fn take_back_hooks(&self, py: Python<'_>) {
        if self.with_thread(|thread| std::mem::take(&mut thread.has_lent_hooks)) {
            let _ = self.take_back.bind(py).call0();
        }
    }

    /// Collects the modules of a model.
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
        let renamed = state.modules.take_renamed();
        state.log.name(renamed);
        Ok(())
    }

    /// Called when a model is called: any part of it may have moved.
    fn enter_root(slf: &Bound<'_, Self>, module: &Bound<'_, PyAny>, is_new: bool) -> PyResult<()> {
        let this = slf.get();
        let had_strangers = std::mem::take(&mut this.state().has_strangers);
        // A failed pass does not report its end.
        this.ended_pass.fetch_max(this.newest_pass.load(Ordering::Relaxed), Ordering::Relaxed);
        if is_new || had_strangers {
            Self::discover(slf, module, false)?;
        }
        this.tag_parameters(slf.py());
        Ok(())
    }

    /// Called when a model is called. Begins a step if this model's calls begin steps.
    fn begin_step(&self, module: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) {
        let py = module.py();
        let thread = self.with_thread(|thread| thread.id);
        let call = self.state().head.call(module.as_ptr() as usize, thread, self.is_resting());
        match call {
            Call::BeginsStep => {
                let signature = self.signature(module, args, kwargs).ok();
                let counts = signature.and_then(|_| self.functions.counts(py));
                self.go_on(py, signature.unwrap_or(0), counts);
            }
            Call::Wakes => self.go_on(py, 0, None),
            Call::Inside => {}
        }
    }

    /// Begins a step in which the hooks watch or rest.
    fn go_on(&self, py: Python<'_>, signature: u64, counts: Option<Counts>) {
        let is_watched = {
            let mut state = self.state();
            let places = state.log.places;
            // A log gets notes as they come, so no step can take those of another one.
            let counts = counts.filter(|_| !state.log.has_recorder());
            state.steps.begin(clock::now(), signature, counts, places)
        };
        if self.is_resting.swap(!is_watched, Ordering::Relaxed) == is_watched {
            // Most of the cost of saved-tensor hooks is in PyTorch itself.
            let rest = !is_watched
                && self.take_back.bind(py).call0().is_ok_and(|had| had.is_truthy().unwrap_or(false));
            let thread = self.with_thread(|thread| {
                thread.module = ModuleId::NONE;
                thread.has_resting_hooks |= rest;
                thread.id
            });
            self.state().log.switch(thread, ModuleId::NONE, Phase::Other);
        }
    }

    /// Adds a module inside a model that the model's paths do not name. It counts as its caller.
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
}
