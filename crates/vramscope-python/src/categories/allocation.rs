//! An allocation of a snapshot, and its category.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use vramscope::trace::{self, Category, Purpose};

use super::log::{Phase, Role, Tag};
use super::modules::ModuleId;

/// One allocation, and the facts about it.
pub(crate) struct Allocation<'py> {
    /// The event; for an allocation older than the history, its block.
    pub(crate) entry: Bound<'py, PyDict>,
    pub(crate) begin: i64,
    pub(crate) size: u64,
    /// The program's module and phase at the allocation. None if it is older than the history, or if the hooks rested.
    pub(crate) made_in: Option<(ModuleId, Phase)>,
    pub(crate) tag: Option<Tag>,
    /// The number of allocations on this device before its free. None if it is not freed.
    pub(crate) freed_before: Option<usize>,
    /// The matching allocation of an example has another lifetime, so its category does not apply.
    pub(crate) is_in_doubt: bool,
}

impl Allocation<'_> {
    pub(crate) fn note(&mut self, tag: Tag) {
        // An argument that a module produced is an intermediate result, not an input.
        let is_input =
            tag.role == Role::Input && self.made_in.is_some_and(|(module, _)| module != ModuleId::NONE);
        if !is_input && self.tag.is_none_or(|before| tag.role < before.role) {
            self.tag = Some(tag);
        }
    }

    /// The text that is written to the snapshot.
    pub(crate) fn purpose(
        &self,
        complete_since: i64,
        path: &impl Fn(ModuleId) -> Option<String>,
    ) -> Option<String> {
        let made_in = self.made_in.unwrap_or((ModuleId::NONE, Phase::Other));
        let category = match self.tag.map(|tag| tag.role) {
            Some(Role::Parameter) => Some(Category::Parameter),
            Some(Role::Buffer) => Some(Category::Buffer),
            Some(Role::OptimizerState) => Some(Category::OptimizerState),
            Some(Role::Gradient) => Some(Category::Gradient),
            Some(Role::Input) => Some(Category::Input),
            Some(Role::SavedLeaf) if made_in.0 == ModuleId::NONE => Some(Category::Input),
            Some(Role::SavedLeaf | Role::Saved) => Some(Category::Activation),
            None if self.is_in_doubt || self.begin < complete_since => None,
            None => self.made_in.map(|_| Category::Temporary),
        };
        let owner = self.tag.map(|tag| tag.owner).filter(|&owner| owner != ModuleId::NONE);
        let module = owner.or(Some(made_in.0).filter(|&module| module != ModuleId::NONE)).and_then(path);
        let phase = match made_in.1 {
            Phase::Other => None,
            Phase::Forward => Some(trace::Phase::Forward),
            Phase::Backward => Some(trace::Phase::Backward),
            Phase::Optimizer => Some(trace::Phase::Optimizer),
        };
        let purpose = Purpose { category, module: module.as_deref(), phase };
        (purpose != Purpose::default()).then(|| purpose.to_string())
    }
}
