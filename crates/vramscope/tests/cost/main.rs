//! Each question about the recordings that cost it most: twice the recording is at most a little more than twice the work. Work is counted in
//! steps ([`vramscope_basics::count_steps`]) and in bytes of output, not in time. `bench/cost` measures time and memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod questions;
mod recordings;

use std::sync::{Mutex, MutexGuard, PoisonError};

use questions::{Question, questions};
use vramscope_basics::counted_steps;

/// The largest growth for twice the recording: linear, with a logarithm.
const LIMIT: f64 = 2.3;

/// Work that is too little to compare.
const LITTLE: u64 = 100_000;

/// Steps are counted for the whole process, so only one test counts at a time.
fn alone() -> MutexGuard<'static, ()> {
    static COUNTING: Mutex<()> = Mutex::new(());
    COUNTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Steps and bytes of output of one question.
fn work(question: &Question, subject: &questions::Subject) -> u64 {
    let before = counted_steps();
    let bytes = (question.ask)(subject);
    counted_steps() - before + bytes as u64
}

/// Asks every question about recordings of `n` and `2 * n` of the counted parts.
fn grows_with(n: usize, make: impl Fn(usize) -> serde_json::Value) {
    let _alone = alone();
    let subjects = [n, 2 * n].map(|n| questions::Subject::of(&make(n)));
    let mut wrong = Vec::new();
    for question in questions() {
        let [one, two] = [0, 1].map(|i| work(&question, &subjects[i]));
        if two as f64 > LIMIT * one.max(LITTLE / 2) as f64 {
            wrong.push(format!("{}: {one} steps, then {two}", question.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn steps_are_counted() {
    if !cfg!(debug_assertions) {
        return;
    }
    let _alone = alone();
    let subject = questions::Subject::of(&recordings::failures(100, 100));
    // Questions that only look something up visit nothing that is counted.
    let counted = questions().iter().filter(|question| work(question, &subject) > 1000).count();
    assert!(counted * 2 > questions().len(), "{counted}");
}

#[test]
fn failures_among_free_blocks() {
    grows_with(1000, |n| recordings::failures(n, n));
}

#[test]
fn failures_between_allocations_among_free_blocks() {
    grows_with(800, recordings::failures_and_allocations);
}

#[test]
fn failures_over_blocks_of_the_end_state() {
    grows_with(2000, recordings::failures_over_blocks);
}

#[test]
fn blocks_that_become_free_within_a_failed_request() {
    grows_with(2000, recordings::late_frees);
}

#[test]
fn lines_that_leak() {
    grows_with(200, recordings::leaks);
}

#[test]
fn lines_of_one_function() {
    grows_with(2000, recordings::lines);
}

#[test]
fn files_of_one_name() {
    grows_with(200, recordings::files);
}

#[test]
fn small_blocks_of_a_planned_page() {
    grows_with(1000, recordings::small_and_large_blocks);
}

#[test]
fn steps_of_different_kinds() {
    grows_with(300, recordings::kinds_of_steps);
}

#[test]
fn events_of_a_long_stack() {
    grows_with(1000, recordings::long_stack);
}
