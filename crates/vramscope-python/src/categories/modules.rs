//! Modules by object address, and their paths.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

/// A module, or none. Numbers begin with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModuleId(u32);

impl ModuleId {
    pub(crate) const NONE: Self = Self(0);

    /// The number that Python passes around.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn of_number(number: u32) -> Self {
        Self(number)
    }

    fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// A weakly referenced module: a recording keeps no model alive.
#[derive(Debug)]
struct Known {
    id: ModuleId,
    reference: Py<PyWeakrefReference>,
}

#[derive(Debug)]
struct Path {
    text: String,
    /// Whether the program passed the model that contains this path.
    is_given: bool,
    /// The number of live modules with this path.
    live: u32,
}

/// All seen modules.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    by_object: HashMap<usize, Known>,
    by_reference: HashMap<usize, usize>,
    /// By module number.
    paths: Vec<Path>,
    /// Numbers of paths in models that the program did not pass. Modules that are recreated in each step share them.
    found: HashMap<String, ModuleId>,
    /// The module of each parameter, by the parameter's address: the first module that has it.
    owners: HashMap<usize, ModuleId>,
    /// Modules whose path is new.
    renamed: Vec<ModuleId>,
}

impl Modules {
    pub(crate) fn id(&self, object: usize) -> Option<ModuleId> {
        self.by_object.get(&object).map(|known| known.id)
    }

    /// Records a module's path. A path from a model that the program passed takes precedence; otherwise the longest path,
    /// because it starts at the outermost module. The caller must drop the result outside of any lock.
    pub(crate) fn add(
        &mut self,
        object: usize,
        path: &str,
        is_given: bool,
        reference: Py<PyWeakrefReference>,
    ) -> Option<Py<PyWeakrefReference>> {
        if let Some(known) = self.by_object.get(&object) {
            let id = known.id;
            if let Some(before) = id.index().and_then(|index| self.paths.get_mut(index))
                && !before.is_given
                && (is_given || path.len() > before.text.len())
            {
                self.found.remove(&before.text);
                if before.live <= 1 {
                    self.renamed.push(id);
                    path.clone_into(&mut before.text);
                    before.is_given = is_given;
                    if !is_given {
                        self.found.insert(path.to_owned(), id);
                    }
                } else {
                    before.live -= 1;
                    let id = self.number(path, is_given);
                    if let Some(known) = self.by_object.get_mut(&object) {
                        known.id = id;
                    }
                }
            }
            return Some(reference);
        }
        let id = self.number(path, is_given);
        self.by_reference.insert(reference.as_ptr() as usize, object);
        self.by_object.insert(object, Known { id, reference });
        None
    }

    /// The number for one more module with this path.
    fn number(&mut self, path: &str, is_given: bool) -> ModuleId {
        if let Some(&id) = self.found.get(path).filter(|_| !is_given)
            && let Some(known) = id.index().and_then(|index| self.paths.get_mut(index))
        {
            known.live += 1;
            return id;
        }
        self.paths.push(Path { text: path.to_owned(), is_given, live: 1 });
        let id = ModuleId(u32::try_from(self.paths.len()).unwrap_or(0));
        self.renamed.push(id);
        if !is_given {
            self.found.insert(path.to_owned(), id);
        }
        id
    }

    /// Records a short-lived module, created by another module, under that module's number.
    pub(crate) fn add_as(
        &mut self,
        object: usize,
        id: ModuleId,
        reference: Py<PyWeakrefReference>,
    ) -> Option<Py<PyWeakrefReference>> {
        if self.by_object.contains_key(&object) {
            return Some(reference);
        }
        if let Some(path) = id.index().and_then(|index| self.paths.get_mut(index)) {
            path.live += 1;
        }
        self.by_reference.insert(reference.as_ptr() as usize, object);
        self.by_object.insert(object, Known { id, reference });
        None
    }

    /// Forgets a destroyed module, because another one may reuse its address.
    pub(crate) fn forget(&mut self, reference: usize) -> Option<Py<PyWeakrefReference>> {
        let object = self.by_reference.remove(&reference)?;
        let known = self.by_object.remove(&object)?;
        if let Some(path) = known.id.index().and_then(|index| self.paths.get_mut(index)) {
            path.live = path.live.saturating_sub(1);
        }
        Some(known.reference)
    }

    /// The modules whose paths are new since the last call.
    pub(crate) fn take_renamed(&mut self) -> Vec<(ModuleId, String)> {
        let renamed = std::mem::take(&mut self.renamed);
        renamed.into_iter().filter_map(|id| Some((id, self.path(id)?.to_owned()))).collect()
    }

    /// All live modules, in no particular order.
    pub(crate) fn references(&self, py: Python<'_>) -> Vec<(ModuleId, Py<PyWeakrefReference>)> {
        self.by_object.values().map(|known| (known.id, known.reference.clone_ref(py))).collect()
    }

    /// The owner of a parameter. Sets it to `module` if it has none.
    pub(crate) fn owner_or(&mut self, parameter: usize, module: ModuleId) -> ModuleId {
        *self.owners.entry(parameter).or_insert(module)
    }

    pub(crate) fn owner(&self, parameter: usize) -> ModuleId {
        self.owners.get(&parameter).copied().unwrap_or(ModuleId::NONE)
    }

    pub(crate) fn path(&self, id: ModuleId) -> Option<&str> {
        id.index().and_then(|index| self.paths.get(index)).map(|path| path.text.as_str())
    }

    /// Whether it is the outermost module of a model, as far as known.
    pub(crate) fn is_root(&self, id: ModuleId) -> bool {
        self.path(id).is_some_and(str::is_empty)
    }
}
