use super::*;

/// A watched program: its allocations, and the number of places that its hooks see while watching.
struct Program {
    steps: Steps,
    now: Counts,
    places: u64,
    time: i64,
}

impl Program {
    fn new(entries: usize) -> Self {
        let now = Counts { allocations: 1, allocated: 8, freed: 0 };
        Self { steps: Steps::new(entries), now, places: 0, time: 0 }
    }

    /// Runs a step with this signature, number of allocations and number of places. Returns whether it was watched.
    fn step(&mut self, signature: u64, allocations: u64, places: u64) -> bool {
        self.time += 1;
        let is_watched = self.steps.begin(self.time, signature, Some(self.now), self.places);
        self.now.allocations += allocations;
        self.now.allocated += allocations * 512;
        self.now.freed += allocations * 512;
        if is_watched {
            self.places += places;
        }
        is_watched
    }

    fn watched(&mut self, steps: usize, signature: u64, allocations: u64) -> usize {
        (0..steps).filter(|_| self.step(signature, allocations, 10)).count()
    }
}

#[test]
fn hooks_rest_after_equal_steps_and_wake_where_one_differs() {
    let mut program = Program::new(1_000_000);
    // The first step is new and three steps repeat it. The next step begins after that is known.
    assert_eq!(program.watched(100, 1, 50), 4);
    // A step with another signature is watched, and so are the following ones.
    assert!(program.step(2, 50, 10));
    assert!(program.step(1, 50, 10));
    assert!(program.watched(100, 1, 50) <= 32);
    // A step with other allocations is detected at its end.
    assert!(!program.step(1, 60, 10));
    assert!(program.step(1, 50, 10));
}

#[test]
fn a_program_that_differs_each_time_is_always_watched() {
    let mut program = Program::new(1_000_000);
    for number in 0..200 {
        assert!(program.step(1, 50 + number, 10));
    }
}

#[test]
fn a_cycle_of_steps_is_seen_twice_before_hooks_rest() {
    let mut program = Program::new(1_000_000);
    let mut last_watched = 0;
    for number in 0..100 {
        if program.step(1, if number % 8 == 7 { 70 } else { 50 }, 10) {
            last_watched = number;
        }
    }
    assert!((14..50).contains(&last_watched), "{last_watched}");
}

#[test]
fn examples_stay_within_pytorchs_history() {
    let mut program = Program::new(12_000);
    program.watched(1_000, 1, 50);
    let steps = program.steps.all();
    // Every 2,000 allocations (half of what 12,000 entries hold) contain an example.
    let examples: Vec<usize> =
        steps.iter().enumerate().filter(|(_, step)| step.is_example).map(|(number, _)| number).collect();
    assert!(examples.windows(2).all(|pair| pair[1] - pair[0] <= 2_000 / 50 + 2), "{examples:?}");
    assert!(steps.iter().filter(|step| !step.is_watched).count() > 900);
}

#[test]
fn a_watched_step_that_goes_through_what_was_not_watched_is_no_example() {
    let mut program = Program::new(12_000);
    program.watched(20, 1, 50);
    let before = program.steps.all().iter().filter(|step| step.is_example).count();
    // From here on, a watched step sees fewer places than when every step was watched.
    for _ in 0..100 {
        program.step(1, 50, 9);
    }
    let steps = program.steps.all();
    assert_eq!(steps.iter().filter(|step| step.is_example).count(), before);
    assert!(steps.iter().rev().take(50).all(|step| step.is_watched));
}

#[test]
fn every_step_is_watched_if_allocations_cannot_be_counted() {
    let mut steps = Steps::new(1_000_000);
    assert!((0..100).all(|time| steps.begin(time, 1, None, 0)));
}

#[test]
fn counters_that_a_program_resets_wake_the_hooks() {
    let mut program = Program::new(1_000_000);
    program.watched(100, 1, 50);
    program.now = Counts { allocations: 0, allocated: 0, freed: 0 };
    assert!(program.step(1, 50, 10));
}
