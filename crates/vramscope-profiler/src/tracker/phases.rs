//! Phases entered and left.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::phase_scope::PhaseScope;
use super::{EventKind, MemoryTracker};
use vramscope_basics::lock;

/// A phase of the program, until it is dropped, on whichever thread.
#[must_use = "the phase ends when the guard is dropped"]
pub struct Phase<'t> {
    tracker: &'t MemoryTracker,
    scope: Arc<PhaseScope>,
}

impl<'t> Phase<'t> {
    pub(super) fn enter(tracker: &'t MemoryTracker, name: &str, metadata: BTreeMap<String, String>) -> Self {
        let scope = lock(&tracker.shared.phases).enter(name, metadata);
        tracker.shared.happened(EventKind::PhaseEnter(Arc::clone(&scope)));
        Self { tracker, scope }
    }

    /// What is known of it.
    pub fn scope(&self) -> &PhaseScope {
        &self.scope
    }
}

impl Drop for Phase<'_> {
    fn drop(&mut self) {
        lock(&self.tracker.shared.phases).exit(self.scope.scope_id);
        self.tracker.shared.happened(EventKind::PhaseExit(Arc::clone(&self.scope)));
    }
}
