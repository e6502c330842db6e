//! The phases of a program, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;

use serde::Serialize;

use crate::monitor::Sample;

/// One entry of a program into a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseScope {
    /// The number of this entry in its tracker, from 1 in the order of entry.
    pub scope_id: u64,
    /// The number of the surrounding entry on its thread; `None` for an outermost phase.
    pub parent_scope_id: Option<u64>,
    /// The names of the phases around it, outermost first, followed by its name.
    pub path: Vec<Arc<str>>,
    /// The name of the thread that entered it, or the thread's id if it has no name.
    pub thread: Arc<str>,
    /// Facts by name from the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip)]
    thread_id: ThreadId,
}

impl PhaseScope {
    /// Returns the phase's name.
    pub fn name(&self) -> &str {
        self.path.last().map_or("", |name| name)
    }

    /// Returns the number of open phases on its thread, up to and including this one: 1 is outermost.
    pub fn depth(&self) -> usize {
        self.path.len()
    }
}

impl fmt::Display for PhaseScope {
    /// Formats the path, such as `epoch / forward`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.path.join(" / "))
    }
}

/// The open phases, in the order in which they were entered.
pub(super) struct OpenPhases {
    entered: u64,
    /// The list is replaced, never changed, because samples share it.
    open: Arc<[Arc<PhaseScope>]>,
}

impl Default for OpenPhases {
    fn default() -> Self {
        Self { entered: 0, open: Arc::new([]) }
    }
}

impl OpenPhases {
    pub(super) fn enter(&mut self, name: &str, metadata: BTreeMap<String, String>) -> Arc<PhaseScope> {
        let thread = std::thread::current();
        let parent = self.open.iter().rfind(|phase| phase.thread_id == thread.id());
        let path = parent.map_or(&[][..], |parent| &parent.path);
        self.entered += 1;
        let scope = Arc::new(PhaseScope {
            scope_id: self.entered,
            parent_scope_id: parent.map(|parent| parent.scope_id),
            path: path.iter().cloned().chain([name.into()]).collect(),
            thread: thread.name().map_or_else(|| format!("{:?}", thread.id()).into(), Arc::from),
            metadata,
            thread_id: thread.id(),
        });
        self.open = self.open.iter().cloned().chain([Arc::clone(&scope)]).collect();
        scope
    }

    pub(super) fn exit(&mut self, scope_id: u64) {
        self.open = self.open.iter().filter(|phase| phase.scope_id != scope_id).cloned().collect();
    }

    /// Returns the open phases.
    pub(super) fn open(&self) -> Arc<[Arc<PhaseScope>]> {
        Arc::clone(&self.open)
    }
}

/// A sample, and the phases of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasedSample {
    /// The sample.
    pub sample: Sample,
    /// The open phases of all threads at the time of the sample, in the order in which they were entered. The sample's peaks may be from
    /// phases that had already ended.
    pub phases: Arc<[Arc<PhaseScope>]>,
}

/// Returns the innermost phase of each thread. `phases` are in the order in which they were entered.
pub(super) fn innermost(phases: &[Arc<PhaseScope>]) -> impl Iterator<Item = &Arc<PhaseScope>> {
    phases.iter().enumerate().filter_map(|(i, phase)| {
        let is_inside = |later: &Arc<PhaseScope>| later.thread_id == phase.thread_id;
        (!phases[i + 1..].iter().any(is_inside)).then_some(phase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_phase_of_each_thread() {
        let mut phases = OpenPhases::default();
        let step = phases.enter("step", BTreeMap::new());
        let forward = phases.enter("forward", BTreeMap::new());
        assert_eq!((forward.to_string(), forward.parent_scope_id), ("step / forward".to_owned(), Some(1)));
        std::thread::scope(|scope| {
            let phases = &mut phases;
            scope.spawn(move || phases.enter("load", BTreeMap::new()));
        });
        let names =
            |phases: &OpenPhases| innermost(&phases.open()).map(|p| p.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&phases), ["step / forward", "load"]);
        // Phases may end in any order.
        phases.exit(step.scope_id);
        assert_eq!(names(&phases), ["step / forward", "load"]);
        phases.exit(forward.scope_id);
        assert_eq!(names(&phases), ["load"]);
        let again = phases.enter("step", BTreeMap::new());
        assert_eq!((again.scope_id, again.depth(), again.parent_scope_id), (4, 1, None));
    }
}
