//! Decides which steps of a program are watched.
//!
//! A step lasts from one call of the model to the next. Hooks cost time in each step, so they rest after several steps in a row
//! repeated earlier ones: the same tensor shapes as arguments, and the same number of allocations and bytes. The categories in
//! a step without hooks are inferred from a watched step, as long as both allocate the same sizes in the same order
//! ([`examples`]). A different step wakes the hooks. From time to time a step is watched anyway, because PyTorch's history
//! drops old events and must always contain examples.
//!
//! [`examples`]: super::examples

use std::collections::{HashMap, VecDeque};

/// The minimum number of repeated steps in a row before hooks rest. The required number is the number of steps up to the last
/// new one, clamped to this range: a program may do something else every few steps.
const QUIET_STEPS: [u64; 2] = [3, 32];

/// The number of steps watched in a row before a step with a new amount of allocations becomes an example. A backward pass may
/// use results of a step without hooks.
const SETTLED_STEPS: u64 = 3;

/// The maximum number of remembered kinds of steps.
const MAX_KINDS: usize = 4_096;

/// PyTorch's number of allocations so far, and its allocated and freed bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Counts {
    pub(crate) allocations: u64,
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
}

impl Counts {
    /// The difference to an earlier reading. None if the program reset PyTorch's counters.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            allocations: self.allocations.checked_sub(before.allocations)?,
            allocated: self.allocated.checked_sub(before.allocated)?,
            freed: self.freed.checked_sub(before.freed)?,
        })
    }
}

/// The span from one call of the model to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) begin: i64,
    /// A hash of the model's arguments.
    pub(crate) signature: u64,
    pub(crate) is_watched: bool,
    /// Whether other steps take their categories from this one.
    pub(crate) is_example: bool,
}

/// The observations of one kind of step.
#[derive(Debug)]
struct Known {
    /// The number of place changes that hooks saw in it.
    places: u64,
    /// PyTorch's allocation count at the start of its newest example.
    example: u64,
    /// PyTorch's allocation count at the end of its newest step.
    last: u64,
}

/// The current step.
#[derive(Debug)]
struct Current {
    step: Step,
    counts: Option<Counts>,
    places: u64,
}

/// The steps of a recording.
#[derive(Debug)]
pub(crate) struct Steps {
    /// A kind of step is watched again after this many allocations.
    max_age: u64,
    capacity: usize,
    done: VecDeque<Step>,
    current: Option<Current>,
    kinds: HashMap<(u64, Counts), Known>,
    seen: u64,
    quiet: u64,
    quiet_needed: u64,
    watched_in_a_row: u64,
    has_rested: bool,
}

impl Steps {
    /// Steps of a PyTorch history that keeps `entries` events.
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            // An allocation has three events, so the newest example is at most half of the history old.
            max_age: entries as u64 / 6,
            capacity: entries.max(1),
            done: VecDeque::new(),
            current: None,
            kinds: HashMap::new(),
            seen: 0,
            quiet: 0,
            quiet_needed: 0,
            watched_in_a_row: 0,
            has_rested: false,
        }
    }

    /// Begins a step and ends the previous one. `counts` is None if allocations cannot be counted. `places` is the number of
    /// place changes that the hooks saw so far. Returns whether the step must be watched.
    pub(crate) fn begin(&mut self, begin: i64, signature: u64, counts: Option<Counts>, places: u64) -> bool {
        self.end(counts, places);
        self.seen += 1;
        let [least, most] = QUIET_STEPS;
        let is_quiet = self.quiet >= self.quiet_needed.clamp(least, most);
        let is_watched = !(is_quiet && counts.is_some_and(|counts| self.has_examples(signature, counts)));
        if is_watched {
            self.watched_in_a_row += 1;
        } else {
            self.watched_in_a_row = 0;
            self.has_rested = true;
        }
        let step = Step { begin, signature, is_watched, is_example: false };
        self.current = Some(Current { step, counts, places });
        is_watched
    }

    /// Ends the current step.
    fn end(&mut self, counts: Option<Counts>, places: u64) {
        let Some(Current { mut step, counts: before, places: places_before }) = self.current.take() else {
            return;
        };
        let places = places - places_before;
        let made = counts.zip(before).and_then(|(now, before)| Some((now, before, now.since(before)?)));
        let known = made.and_then(|(.., made)| self.kinds.get_mut(&(step.signature, made)));
        match (made, known) {
            (Some((now, before, _)), Some(known)) => {
                self.quiet += 1;
                known.last = now.allocations;
                // If the places differ, a backward pass used results of a step without hooks.
                if step.is_watched && known.places == places {
                    step.is_example = true;
                    known.example = before.allocations;
                }
            }
            (made, _) => {
                self.quiet = 0;
                self.quiet_needed = self.seen;
                let is_settled = !self.has_rested || self.watched_in_a_row > SETTLED_STEPS;
                if let Some((now, before, made)) = made.filter(|_| step.is_watched && is_settled) {
                    if self.kinds.len() >= MAX_KINDS {
                        self.kinds.clear();
                    }
                    let known = Known { places, example: before.allocations, last: now.allocations };
                    self.kinds.insert((step.signature, made), known);
                    step.is_example = true;
                }
            }
        }
        if self.done.len() >= self.capacity {
            self.done.pop_front();
        }
        self.done.push_back(step);
    }

    /// Whether PyTorch's history has an example of each recently seen kind of step with this signature.
    fn has_examples(&self, signature: u64, now: Counts) -> bool {
        let is_recent = |since: u64| now.allocations.saturating_sub(since) <= self.max_age;
        let mut lately = self
            .kinds
            .iter()
            .filter(|((known, _), kind)| *known == signature && is_recent(kind.last))
            .peekable();
        lately.peek().is_some() && lately.all(|(_, kind)| is_recent(kind.example))
    }

    /// All steps in time order.
    pub(crate) fn all(&self) -> Vec<Step> {
        self.done.iter().copied().chain(self.current.as_ref().map(|current| current.step)).collect()
    }
}

#[cfg(test)]
mod tests {
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
}
