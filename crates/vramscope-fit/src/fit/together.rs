//! Runs at the same time.

use std::sync::Mutex;
use std::thread;

/// Calls `work` for each item, on at most `most` threads. The items begin in their order, and so do the results.
pub(crate) fn together<T: Sync, R: Send>(items: &[T], most: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(items.iter().enumerate());
    let one_thread = || {
        let mut done = Vec::new();
        loop {
            let next = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((at, item)) = next else { return done };
            done.push((at, work(item)));
        }
    };
    let mut all = thread::scope(|scope| {
        let threads: Vec<_> = (1..most.min(items.len())).map(|_| scope.spawn(one_thread)).collect();
        let mut all = one_thread();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for most in [1, 2, 7, 1000] {
            assert_eq!(together(&items, most, |item| 2 * item), (0..200).step_by(2).collect::<Vec<_>>());
        }
        assert!(together(&[], 4, |item: &usize| *item).is_empty());
    }

    #[test]
    fn no_more_than_the_limit_run_at_the_same_time() {
        let (running, highest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Both threads wait for each other.
        let barrier = Barrier::new(2);
        together(&[(); 8], 2, |()| {
            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait();
            running.fetch_sub(1, Ordering::SeqCst);
        });
        assert_eq!(highest.into_inner(), 2);
    }
}
