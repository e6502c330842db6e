//! [`PhaseGuard`]: the guard of a phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use vramscope_allocator::Process;

use super::phase_scope::PhaseScope;
use super::{EventKind, MemoryTracker};
use vramscope_basics::lock;

/// A phase of the program from [`MemoryTracker::phase`], which ends when it is dropped, on any thread. Dropping it in a process that was
/// forked during the phase does nothing.
#[must_use = "the phase ends when the guard is dropped"]
pub struct PhaseGuard<'t> {
    tracker: &'t MemoryTracker,
    scope: Arc<PhaseScope>,
    /// The process of the phase: in a forked process, the tracker's locks may never be released.
    process: Process,
}

impl<'t> PhaseGuard<'t> {
    pub(super) fn enter(tracker: &'t MemoryTracker, name: &str, metadata: BTreeMap<String, String>) -> Self {
        let scope = lock(&tracker.shared.phases).enter(name, metadata);
        tracker.shared.record_event(EventKind::PhaseEnter(Arc::clone(&scope)));
        Self { tracker, scope, process: Process::this() }
    }

    /// Returns the phase's name, path, thread and facts.
    pub fn scope(&self) -> &PhaseScope {
        &self.scope
    }
}

impl Drop for PhaseGuard<'_> {
    fn drop(&mut self) {
        if !self.process.is_this() {
            return;
        }
        lock(&self.tracker.shared.phases).exit(self.scope.scope_id);
        self.tracker.shared.record_event(EventKind::PhaseExit(Arc::clone(&self.scope)));
    }
}
