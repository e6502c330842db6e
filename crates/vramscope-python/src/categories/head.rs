//! Decides which module calls begin steps.

use std::collections::HashSet;

use super::threads::ThreadId;

/// After this many calls of other modules or optimizer steps, the module whose calls begin steps counts as no longer used.
const MAX_OTHERS: u32 = 64;

/// The maximum number of remembered modules.
const MAX_MODULES: usize = 4_096;

/// The meaning of an outermost module call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    BeginsStep,
    /// The program does something that no watched step did.
    Wakes,
    Inside,
}

/// The module whose calls begin steps: the first called module, or a later one after the first is no longer used.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The module, and the thread that calls it.
    module: Option<(usize, ThreadId)>,
    /// Calls of other modules and optimizer steps since its last call.
    others: u32,
    /// Modules that were called while the hooks were watching.
    called: HashSet<usize>,
    /// Several threads call modules, so no thread's calls begin steps for all.
    has_rivals: bool,
}

impl Head {
    /// Classifies a thread's call of a module.
    pub(crate) fn call(&mut self, module: usize, thread: ThreadId, is_resting: bool) -> Call {
        if self.has_rivals {
            return Call::Inside;
        }
        if self.module.is_some_and(|(_, known)| known != thread) {
            self.has_rivals = true;
            return Call::Wakes;
        }
        self.others += 1;
        if self.others > MAX_OTHERS {
            self.module = None;
        }
        if self.module.get_or_insert((module, thread)).0 == module {
            self.others = 0;
            return Call::BeginsStep;
        }
        if is_resting && !self.called.contains(&module) {
            return Call::Wakes;
        }
        if self.called.len() < MAX_MODULES {
            self.called.insert(module);
        }
        Call::Inside
    }

    /// Records an optimizer step. Returns whether it wakes resting hooks.
    pub(crate) fn optimize(&mut self) -> bool {
        self.others = self.others.saturating_add(1);
        self.others > MAX_OTHERS
    }
}

#[cfg(test)]
mod tests {
    use super::super::threads;
    use super::*;

    fn thread() -> ThreadId {
        threads::with_thread(0, |thread| thread.id)
    }

    #[test]
    fn the_first_module_begins_steps_until_it_is_no_longer_called() {
        let (mut head, here) = (Head::default(), thread());
        for _ in 0..3 {
            assert_eq!(head.call(1, here, false), Call::BeginsStep);
            assert_eq!(head.call(2, here, false), Call::Inside);
            assert!(!head.optimize());
        }
        let calls: Vec<Call> = (0..100).map(|_| head.call(2, here, false)).collect();
        assert!(calls.iter().take(50).all(|call| *call == Call::Inside));
        assert!(calls.iter().skip(64).all(|call| *call == Call::BeginsStep));
    }

    #[test]
    fn an_unknown_step_wakes_the_hooks() {
        let (mut head, here) = (Head::default(), thread());
        head.call(1, here, false);
        head.call(2, here, false);
        assert_eq!(head.call(2, here, true), Call::Inside);
        assert_eq!(head.call(3, here, true), Call::Wakes);
        assert!((0..100).any(|_| head.optimize()));
    }

    #[test]
    fn a_second_thread_wakes_once_and_for_all() {
        let (mut head, here) = (Head::default(), thread());
        let other = std::thread::spawn(thread).join().unwrap();
        assert_eq!(head.call(1, here, false), Call::BeginsStep);
        assert_eq!(head.call(1, other, true), Call::Wakes);
        assert_eq!(head.call(1, here, false), Call::Inside);
        assert_eq!(head.call(1, other, false), Call::Inside);
    }
}
