//! Records the roles of tensors: parameters, buffers, gradients, optimizer states, inputs.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::log::Role;
use super::modules::ModuleId;
use super::{Purposes, clock, tensors};

impl Purposes {
    /// Tags the tensors in a model's arguments, including those in lists and dictionaries.
    pub(super) fn tag_inputs(&self, arguments: &Bound<'_, PyAny>) {
        self.tag_inputs_in(arguments, 4);
    }

    fn tag_inputs_in(&self, argument: &Bound<'_, PyAny>, depth: usize) {
        if self.types.is_tensor(argument) {
            if let Some(address) = self.types.address(argument) {
                self.state().log.tag(clock::now(), address, Role::Input, ModuleId::NONE);
            }
        } else if depth > 0 {
            tensors::each_inside(argument, |inner| self.tag_inputs_in(inner, depth - 1));
        }
    }

    /// Tags the parameters and buffers of all known modules.
    pub(super) fn tag_parameters(&self, py: Python<'_>) {
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

    /// Tags the gradients of all known modules.
    pub(super) fn tag_gradients(&self, py: Python<'_>) {
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

    /// Tags an optimizer's gradients, and its parameters if `with_parameters` is set.
    pub(super) fn tag_optimizer(&self, optimizer: &Bound<'_, PyAny>, with_parameters: bool) {
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

    /// Tags an optimizer's state.
    pub(super) fn tag_state(&self, optimizer: &Bound<'_, PyAny>) {
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
