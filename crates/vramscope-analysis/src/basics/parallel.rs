//! Runs work on a second thread if the system can start one.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, scope};

use vramscope_basics::lock;

/// Starts `work` on a new thread and returns a function that waits for the result. If no thread can be
/// started, as in a browser, that function runs the work itself.
pub(crate) fn beside<'scope, T: Send + 'scope, W: FnOnce() -> T + Send + 'scope>(
    within: &'scope Scope<'scope, '_>,
    work: W,
) -> impl FnOnce() -> T {
    let run = |work: &Mutex<Option<W>>| {
        let work = lock(work).take();
        work.map(|work| work())
    };
    let work = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&work);
    let thread = Builder::new().spawn_scoped(within, move || run(&taken));
    move || {
        let done = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => run(&work),
        };
        #[expect(clippy::expect_used, reason = "without a thread, the work was not taken")]
        done.expect("work is taken once")
    }
}

/// Runs both closures at the same time, the first on a new thread. If no thread can be started, they run one
/// after the other.
pub fn at_once<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    scope(|within| {
        let first = beside(within, first);
        let second = second();
        (first(), second)
    })
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn at_once_runs_both_closures_once() {
        let mut counts = [0, 0];
        let [a, b] = &mut counts;
        assert_eq!(at_once(move || *a += 1, move || *b += 1), ((), ()));
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn at_once_passes_on_a_panic() {
        let told = catch_unwind(|| at_once(|| panic!("told"), || ())).unwrap_err();
        assert_eq!(told.downcast_ref::<&str>(), Some(&"told"));
    }
}
